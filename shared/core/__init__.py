"""The rules of LUCIUS as pure functions: no I/O, no clock, no Azure."""
