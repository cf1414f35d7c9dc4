"""Checks of the templates and of the package that need no Azure and no network: `python -m infra.checks`."""
