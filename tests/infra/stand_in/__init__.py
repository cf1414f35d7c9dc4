"""Emulates `az` and `azd`: a tenant and a subscription in one file, which refuse the same requests as Azure."""
