"""The processes of one run. The module measures the resources of these processes, and kills them.

The processes of a run with its own user are the processes of that user. Otherwise the processes of a run are the
processes of its session. A process that leaves the session is no longer counted or killed (docs/guides/runs.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
#: System V shared memory of all users; it outlives the processes that created it
_SHARED_MEMORY = _PROC / "sysvipc" / "shm"
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
#: maximum seconds until killed processes have ended
_GONE_WITHIN_S = 5.0


@dataclass(frozen=True)
class Usage:
    """Present resources of the processes of a run."""

    processes: int = 0
    #: resident bytes; a page that two processes share counts twice
    memory: int = 0
    #: CPU seconds of the living processes, and of children that they have waited for
    cpu_s: float = 0.0
    #: bytes of open files without a name: deleted ones, and those in memory (memfd)
    nameless: int = 0


@dataclass(frozen=True)
class RunProcesses:
    """All processes of a run."""

    #: None if the runner cannot change the user
    user: int | None
    #: process id of its first process, which leads the session
    session: int

    def usage(self) -> Usage:
        """Returns the resources in use. May omit a process that ends during the call."""
        count, memory, ticks = 0, 0, 0
        nameless: dict[tuple[int, int], int] = {}
        for process, fields in self._each():
            nameless |= self._nameless(process)
            count += 1
            ticks += sum(map(int, fields[11:15]))
            memory += int(fields[21]) * _PAGE
        memory += self._shared_memory()
        return Usage(count, memory, ticks / _TICKS, sum(nameless.values()))

    def kill(self) -> bool:
        """Kills all processes. Also removes shared memory, queues and semaphores of a run's own user. Returns `False`
        if a process still runs after five seconds.
        """
        end = time.monotonic() + _GONE_WITHIN_S
        while True:
            if self.user is not None:
                # one call of the kernel for every process of the user, so that none can fork meanwhile
                subprocess.run(
                    ["/bin/sh", "-c", "kill -KILL -1; ipcrm --all"],
                    user=self.user,
                    group=self.user,
                    extra_groups=[],
                    env={"PATH": "/usr/bin:/bin"},
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                )
            for process, _ in self._each():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not any(True for _ in self._each()):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(0.01)

    def _nameless(self, process: int) -> dict[tuple[int, int], int]:
        """Returns sizes of the open files without a name, by device and inode. The result is empty if the process hides
        its files.
        """
        sizes = {}
        with contextlib.suppress(OSError), _file_rights_of(self.user):
            for entry in os.scandir(_PROC / str(process) / "fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(entry.path)
                    if stat.S_ISREG(found.st_mode) and found.st_nlink == 0:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
        return sizes

    def _shared_memory(self) -> int:
        """Returns the bytes of System V shared memory that the user created, attached or not."""
        if self.user is None:
            return 0
        try:
            rows = [line.split() for line in _SHARED_MEMORY.read_text().splitlines()]
        except OSError:
            return 0
        user, resident = rows[0].index("uid"), rows[0].index("rss")
        return sum(int(row[resident]) for row in rows[1:] if int(row[user]) == self.user)

    def _each(self) -> Iterator[tuple[int, list[str]]]:
        """Yields process ids, and the fields of /proc/PID/stat after the name, without ended processes."""
        for folder in _PROC.iterdir():
            if not folder.name.isdigit():
                continue
            try:
                if self.user is not None and folder.stat().st_uid != self.user:
                    continue
                # the name may have spaces and parentheses
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except (OSError, ValueError):
                continue  # the process has ended
            if (self.user is not None or int(fields[3]) == self.session) and fields[0] not in "ZX":
                yield int(folder.name), fields


@contextlib.contextmanager
def _file_rights_of(user: int | None) -> Iterator[None]:
    """Opens files of this thread as `user`. Root reads no /proc/PID/fd without the right to trace (SYS_PTRACE)."""
    libc = ctypes.CDLL(None)
    if user is not None:
        libc.setfsgid(user)
        libc.setfsuid(user)
    try:
        yield
    finally:
        if user is not None:
            libc.setfsuid(0)
            libc.setfsgid(0)
