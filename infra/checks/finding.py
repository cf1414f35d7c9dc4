"""What a check reports: findings, or that it could not be made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Finding:
    """One thing that is wrong: in which file and line (from 1; 0: the file as a whole), by which rule."""

    path: Path
    line: int
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.text}"


class CheckFailed(Exception):
    """A check could not be made, which is a failure too: one line with what is missing and how to get it."""
