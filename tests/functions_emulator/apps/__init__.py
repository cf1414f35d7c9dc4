"""Function apps for the tests of the host; each folder is an app of its own."""
