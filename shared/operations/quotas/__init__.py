"""Changes of quotas, and their effects."""
