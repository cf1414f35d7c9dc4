"""The HTTP side of the bus: the management API, and what only an emulator has."""
