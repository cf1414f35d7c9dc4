"""Functions of the sample app, one noun a module."""
