"""Ends a child with its parent, even if the parent is killed."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(how: signal.Signals = signal.SIGKILL) -> Callable[[], None] | None:
    """Returns a `preexec_fn` for a child. The kernel then sends `how` to the child when the thread that forked the
    child ends.

    Returns None on systems other than Linux, where only an orderly stop ends the children. Fork from the main thread.
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # looked up before the fork: the child may only make system calls
    parent = os.getpid()

    def preexec() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, how, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the call, so no signal would come
            os._exit(1)

    return preexec
