"""Checks of the templates and the package without Azure: `python -m infra.checks`. Only `--all` needs a network."""
