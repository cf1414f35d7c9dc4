"""Access rules: callers, callback tokens, and the references that a job can name."""
