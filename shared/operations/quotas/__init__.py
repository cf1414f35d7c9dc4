"""Changes of quotas by operators, and their effects."""
