"""Reasons why a stack cannot serve. The message is the one line that the user reads."""

from __future__ import annotations


class UpError(Exception):
    """The stack cannot serve."""


class ChildFailed(UpError):
    """A child keeps failing at its start."""

    def __init__(self, name: str, reason: str, log: str) -> None:
        super().__init__(f"{name} does not start: {reason} (log: {log})")
        self.name = name
