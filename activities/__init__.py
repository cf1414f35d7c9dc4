"""The durable activities, which call `shared.operations`."""
