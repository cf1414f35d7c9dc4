"""The durable activities: thin, over `shared.operations`."""
