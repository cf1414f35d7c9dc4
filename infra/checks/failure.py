"""A check that could not be made, which is a failure too."""

from __future__ import annotations


class CheckFailed(Exception):
    """One line that says what is missing and how to get it."""
