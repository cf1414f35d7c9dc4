"""Code that functions share."""
