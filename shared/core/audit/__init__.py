"""Heads of histories, and the statements about them that LUCIUS signs."""
