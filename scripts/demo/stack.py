"""A local stack for the duration of a command. The stack starts on free ports in a temporary folder."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from emulator.up.parent_death import end_with_parent
from lucius_client.cli.exits import CliError

ROOT = Path(__file__).resolve().parents[2]
#: `emulator up` stops its children in four groups, one after another, and gives each group 25 s
_STOP_TIMEOUT_S = 120
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LocalStack:
    """A stack of `python -m emulator up` with a temporary folder inside `.lucius/`, as a context manager.

    `report` gets each log line of `up`. The stack stops after the block, and at a signal during its start. The folder
    is removed, except if the stack failed to start, since the folder has the logs. Raises CliError if the stack does
    not start.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._process: subprocess.Popen[str] | None = None
        self._home = ROOT / ".lucius"
        self._created_home = not self._home.exists()
        self._failed = False
        self._last_line = ""

    def __enter__(self) -> LocalStack:
        self._home.mkdir(exist_ok=True)
        self.data = Path(tempfile.mkdtemp(prefix="demo-", dir=self._home))
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self) -> None:
        ports = [word for name in ("api", "bus", "admin", "azurite") for word in (f"--{name}-port", "0")]
        signals: list[int] = []
        with _signals_to(signals.append):  # no signal may be lost between the fork and the assignment
            self._process = subprocess.Popen(
                [sys.executable, "-m", "emulator", "up", "--data", str(self.data), *ports],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,  # Ctrl-C reaches this process only, which stops the stack
                preexec_fn=end_with_parent(signal.SIGTERM),
            )
        if signals:
            raise KeyboardInterrupt
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read_log, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        ready = self._process.stdout.readline()
        if not ready.startswith("ready "):
            self._failed = True
            self._process.wait(_STOP_TIMEOUT_S)
            self._reader.join(_STOP_TIMEOUT_S)
            raise CliError(self._last_line.removeprefix("up: ") or "the stack did not start")
        _, self.api, *pairs = ready.rstrip("\n").split(" ", 6)
        self._addresses = dict(pair.split("=", 1) for pair in pairs)

    @property
    def admin(self) -> str:
        """Returns the URL of the bus emulator's HTTP API."""
        return self._addresses["admin"]

    @property
    def blob(self) -> str:
        """Returns the URL of Azurite's blob account."""
        return self._addresses["blob"]

    def _read_log(self, stream: IO[str]) -> None:
        for line in stream:
            self._last_line = line.rstrip("\n")
            if " up: " in line:
                self._report(self._last_line)

    def _end(self) -> None:
        with _signals_to(lambda number: self._terminate()):  # a second Ctrl-C stops it immediately
            self._terminate()
            if self._process is not None:
                try:
                    self._process.wait(_STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()  # the children of the process end with it
                    self._process.wait()
            if not self._failed:
                shutil.rmtree(self.data, ignore_errors=True)
                if self._created_home:
                    with suppress(OSError):  # another process uses the folder
                        self._home.rmdir()

    def _terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()


@contextmanager
def _signals_to(handler: Callable[[int], object]) -> Iterator[None]:
    """Calls `handler` at the signals that end a program, while the block runs."""
    before = {number: signal.signal(number, lambda number, frame: handler(number)) for number in _ENDING}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
