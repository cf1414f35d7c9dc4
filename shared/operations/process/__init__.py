"""The memory of one process between calls."""
