"""Changes of quotas by people, and what follows them."""
