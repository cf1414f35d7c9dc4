"""Checks of the templates and of the package that need neither Azure nor a network: `python -m infra.checks`."""
