"""`make generate`: writes everything in the repository that is made from the code."""
