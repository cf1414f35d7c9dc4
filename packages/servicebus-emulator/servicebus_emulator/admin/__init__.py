"""The HTTP side of the emulator: the management API, counts, faults and the clock."""
