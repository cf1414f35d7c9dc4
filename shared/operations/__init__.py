"""What LUCIUS does: one async function over the ports for each trigger or activity."""
