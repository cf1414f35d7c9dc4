"""The report of a check: findings, or the reason why the check could not run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Finding:
    """One fault with its file, its line and the rule that found the fault. Lines count from 1. Line 0 is the whole
    file.
    """

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class CheckFailed(Exception):
    """A check or a build could not run or failed.

    The message is one line with the cause.
    """
