"""Stands in for `az` and `azd`: a tenant and a subscription in one file, which refuse what Azure refuses."""
