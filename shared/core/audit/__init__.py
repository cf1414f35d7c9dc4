"""Daily heads of histories, and the signed statements about them."""
