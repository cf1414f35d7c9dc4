"""Who may do what: callers, callback tokens, and which references a job may name."""
