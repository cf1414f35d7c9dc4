"""The stores, limited to the tenants that a caller can use."""
