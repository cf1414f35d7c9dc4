"""The feed: written, read, compared and pruned."""
