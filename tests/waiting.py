"""Waiting for other processes: polls with a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")

#: A poll of a stack costs about 15 ms of CPU.
POLL_S = 0.2


def wait_until(look: Callable[[], _T | None], failure: str, *, deadline_s: float = 90, poll_s: float = POLL_S) -> _T:
    """Returns the first true value of `look`. After the deadline: AssertionError with `failure` and the last value."""
    end = time.monotonic() + deadline_s
    while not (value := look()):
        assert time.monotonic() < end, f"{failure}: {value}"
        time.sleep(poll_s)
    return value


def is_gone(pid: int) -> bool:
    """Returns whether no process has this id, or its process has ended and was not reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    if not Path("/proc").exists():
        return False
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True  # it was reaped meanwhile
    return state.rsplit(")", 1)[1].split()[0] == "Z"
