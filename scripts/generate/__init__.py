"""`make generate`: writes every file in the repository that is made from the code."""
