"""The stores over Azure Tables, with one client."""
