"""The function app without its triggers."""
