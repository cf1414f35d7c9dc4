"""Formats that a release must still understand: histories, rows and messages of every released version."""
