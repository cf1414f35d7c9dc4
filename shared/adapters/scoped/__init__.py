"""The stores as a caller of one tenant may use them."""
