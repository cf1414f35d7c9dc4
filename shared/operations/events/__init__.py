"""Feeds: writing, reading, comparing and pruning them."""
