"""The stores in this process."""
