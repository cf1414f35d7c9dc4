"""Function apps for the tests of the host; each folder is a separate app."""
