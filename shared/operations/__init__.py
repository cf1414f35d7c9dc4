"""What LUCIUS does, each as one async function over the ports: what triggers and activities call."""
