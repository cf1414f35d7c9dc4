"""Watching processes from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def until(true: Callable[[], bool], what: str, deadline_s: float = 60) -> None:
    """Looks until it is so; past the deadline it fails with `what`."""
    end = time.monotonic() + deadline_s
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    """No such process, or one that has ended and that nobody has asked about yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z"
