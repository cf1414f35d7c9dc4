"""The rules of LUCIUS as pure functions, without I/O, a clock or Azure."""
