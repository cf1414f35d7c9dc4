"""Functions of the sample app, one pattern per module."""
