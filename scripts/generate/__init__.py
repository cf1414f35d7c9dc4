"""Generators of the files that are made from the code (`make generate`)."""
