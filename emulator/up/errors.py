"""Errors of a stack that cannot serve. The message is one line for the user."""

from __future__ import annotations


class UpError(Exception):
    """The stack cannot serve."""


class ChildFailed(UpError):
    """The program of a child cannot be executed, its first start failed, or 5 starts in a row failed."""

    def __init__(self, name: str, reason: str, log: str) -> None:
        super().__init__(f"{name} does not start: {reason} (log: {log})")
        self.name = name
