"""What the Functions host and its durable engine do a second."""
