"""`make generate`: everything in the repository that is made from the code."""
