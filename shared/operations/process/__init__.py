"""What one process remembers between calls."""
