"""What is deployed, and the checks of it."""
