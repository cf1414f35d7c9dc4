"""The log of an attempt: the output of its program, as an append blob that readers follow while it grows.

The blob is `{tenant}/{jobId}/{attempt}.log`. The runner appends at most once a second, and immediately if 64 KiB wait.
A blob accepts 50,000 appends. After 25,000 appends the interval is therefore 15 s, for fewer than 50,000 appends in a
day (decision 62).
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time

from lucius_service.append_blob import AppendBlob, Overtaken
from lucius_service.errors import StepFailed
from lucius_service.workspace_io import Workspace

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; charset=utf-8"
#: bytes of waiting output at which an append follows immediately
FULL_BYTES = 64 * 1024
#: seconds between appends; `EVERY_LATER_S` after `MANY_APPENDS`
EVERY_S = 1.0
EVERY_LATER_S = 15.0
MANY_APPENDS = 25_000
#: maximum bytes of waiting output while storage does not respond; then the program waits
MAX_WAITING = 2**20
#: tries of the last append; each waits for storage
_LAST_TRIES = 3


class RunLog:
    """The log of an attempt.

    Only one thread writes at a time. Before and after the program, the runner's thread writes. In between, the thread
    of `start` writes.
    """

    def __init__(self, blob: AppendBlob, max_bytes: int) -> None:
        self._blob = blob
        self._max_bytes = max_bytes
        self._waiting = bytearray()
        #: bytes of output that were read
        self._taken = 0
        self._at_line_start = True
        self._appends = 0
        self._due_at = 0.0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        #: `True` if another process has taken over the attempt, or a newer attempt has begun
        self.overtaken = False

    @classmethod
    def open(cls, workspace: Workspace, folder: str, attempt: int, max_bytes: int) -> RunLog:
        """Opens the log of the attempt in the folder of its job, and closes the log of the previous attempt.

        A closed log is complete. An older process that still works on its attempt cannot append to the log. Raises
        StepFailed.
        """
        blob = workspace.append_blob(f"{folder}/{attempt}.log")
        if blob.open():
            found = cls(blob, max_bytes)
            found.note(f"attempt {attempt} starts again: its directive was delivered again")
            return found
        before = next((each for each in range(attempt - 1, 0, -1) if _closed(workspace, folder, each, attempt)), None)
        blob.create(CONTENT_TYPE)
        found = cls(blob, max_bytes)
        if before is not None:
            found.note(f"attempt {attempt} follows attempt {before}")
        return found

    @property
    def size(self) -> int:
        """Returns the stored size in bytes."""
        return self._blob.size

    def note(self, text: str) -> None:
        """Adds a line of the runner, which the next append includes."""
        self._waiting += b"" if self._at_line_start else b"\n"
        self._waiting += f"[runner] {text}\n".encode()
        self._at_line_start = True

    def flush(self) -> None:
        """Appends the waiting output. Stops after `_LAST_TRIES` failed tries. Appends nothing while the thread of
        `start` runs.
        """
        for _ in range(0 if self._copies else _LAST_TRIES):
            if self._append():
                return
            time.sleep(EVERY_S)
        log.warning("could not write a run's log; %d bytes are lost", len(self._waiting))

    def start(self, descriptor: int) -> None:
        """Copies the program's output on a separate thread, until the last writer closes the output."""
        self._thread = threading.Thread(target=self._copy, args=(descriptor,), name="run-log", daemon=True)
        self._thread.start()

    def finish(self, within_s: float) -> bool:
        """Waits at most `within_s` seconds for the thread, whose output no longer has a writer.

        Returns `False` if the thread has not ended and still reads.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(within_s)
        return not self._copies

    @property
    def _copies(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _copy(self, descriptor: int) -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while True:
            if len(self._waiting) >= MAX_WAITING and not self._stopping.is_set():
                time.sleep(EVERY_S)
            elif poll.poll(max(0.0, self._due_at - time.monotonic()) * 1000 if self._waiting else None):
                data = os.read(descriptor, FULL_BYTES)
                if not data:
                    return
                self._take(data)
            if len(self._waiting) >= FULL_BYTES or (self._waiting and time.monotonic() >= self._due_at):
                self._append()

    def _take(self, data: bytes) -> None:
        left = self._max_bytes - self._taken
        self._taken += len(data)
        if left <= 0 or self.overtaken:
            return
        self._waiting += data[:left]
        self._at_line_start = data[:left].endswith(b"\n")
        if len(data) >= left:
            self.note(f"the log ends here, at its maximum of {self._max_bytes} bytes")

    def _append(self) -> bool:
        """Appends the waiting output. Returns `False` if storage does not accept the output."""
        self._due_at = time.monotonic() + (EVERY_S if self._appends < MANY_APPENDS else EVERY_LATER_S)
        while self._waiting and not self.overtaken:
            piece = bytes(self._waiting[: 4 * FULL_BYTES])
            try:
                self._blob.append(piece)
            except Overtaken:
                self.overtaken = True
            except StepFailed as fault:
                log.warning("could not write a run's log; retried: %s", fault)
                return False
            self._appends += 1
            del self._waiting[: len(piece)]
        return True


def _closed(workspace: Workspace, folder: str, attempt: int, newer: int) -> bool:
    """Closes the log of an older attempt. Returns `False` if the attempt has no log."""
    blob = workspace.append_blob(f"{folder}/{attempt}.log")
    while blob.open():
        try:
            blob.append(f"\n[runner] attempt {newer} begins, on this runner or another\n".encode())
        except Overtaken:
            continue
        return True
    return False
