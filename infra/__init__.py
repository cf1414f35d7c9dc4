"""The deployed resources and package, and their checks."""
