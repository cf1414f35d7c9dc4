"""Starts, restarts and stops one child process of the stack, and writes its output to its log."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from emulator.up.data_dir import DataDir
from emulator.up.errors import ChildFailed
from emulator.up.parent_death import end_with_parent
from emulator.up.ports import LOOPBACK

#: seconds before a child that ended is restarted; the last one repeats. A run of `_SETTLED_S` resets it
_BACKOFF_S = (0.2, 1.0, 2.0, 5.0)
_SETTLED_S = 30.0
#: maximum failed starts in a row of a child that was ready once
_MAX_FAILED_STARTS = 5
#: maximum seconds of a start; the slowest is a service that loads its models from a cold disk on a busy machine
_READY_TIMEOUT_S = 180.0
#: maximum seconds for a child to drain before it is killed: a service gives its running work 20 s, Azurite saves in 2 s
_STOP_TIMEOUT_S = 25.0
_PROBE_S = 0.05
#: maximum seconds to read the last output; a grandchild in its own session survives the kill and keeps the pipes open
_DRAIN_TIMEOUT_S = 2.0
#: lines of a child that the user sees
_WARNING = re.compile(r"\b(WARNING|WARN|ERROR|CRITICAL)\b")
#: a warning that is for deployments: without AUTH=1 the local app checks no tokens
_EXPECTED = '"event": "AUTH_NONE"'

Log = Callable[[str], None]


@dataclass(frozen=True)
class ChildSpec:
    """Start parameters of a child.

    The child is ready when all `ready_ports` listen, or without ports, when it prints `ready ...`.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    cwd: Path
    #: children with a lower rank stop first, those of one rank together, so that a child ends before those that it uses
    stop_rank: int
    ready_ports: tuple[int, ...] = ()
    #: signal that the kernel sends to it when this process is killed; SIGTERM lets Azurite save
    orphan_signal: signal.Signals = signal.SIGKILL


class _LinePipe:
    """A pipe for a child's output.

    Pass `write_end` to the child, then call `listen()`. If the child did not start, call `abandon()`.

    With a pipe of asyncio, a process counts as ended only when every grandchild has closed the pipe. This class reads
    the pipe in chunks, so a line can have any length.
    """

    def __init__(self, on_line: Callable[[str], None]) -> None:
        self._on_line = on_line
        self._read_end, self.write_end = os.pipe()
        self._reading: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Reads the pipe, and calls `on_line` with every line. Must be called after the child has the write end."""
        os.close(self.write_end)
        self._reading = asyncio.create_task(self._read())

    def abandon(self) -> None:
        os.close(self.write_end)
        os.close(self._read_end)

    async def drain(self, timeout_s: float) -> None:
        """Reads the last lines of a child that has ended.

        Stops after `timeout_s` seconds, since a grandchild may keep the pipe open.
        """
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=timeout_s)
            self._reading.cancel()

    async def _read(self) -> None:
        stream = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(self._read_end, "rb", buffering=0)
        )
        try:
            rest = b""
            while chunk := await stream.read(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._emit(line)
            if rest:
                self._emit(rest)
        finally:
            transport.close()

    def _emit(self, line: bytes) -> None:
        self._on_line(line.decode(errors="replace").rstrip("\r"))


class Child:
    """A child that runs from `keep_running()` to `stop()`.

    `changed` is called after each start, and after each change of `ready`. `log` is called with a line for the user.
    """

    def __init__(self, spec: ChildSpec, data: DataDir, log: Log, changed: Callable[[], None]) -> None:
        self.spec = spec
        self.ready = asyncio.Event()
        self._data = data
        self._log = log
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._pipes: list[_LinePipe] = []
        self._ready_printed = asyncio.Event()
        self._sink: TextIO | None = None
        self._starts = 0
        self._last_line = ""

    @property
    def state(self) -> dict[str, int | bool | None]:
        running = self._process is not None and self._process.returncode is None
        pid = self._process.pid if running and self._process else None
        return {"pid": pid, "starts": self._starts, "ready": self.ready.is_set()}

    async def keep_running(self) -> None:
        """Keeps the child running and never returns.

        Raises ChildFailed if the program cannot be executed, the first start failed, or 5 starts in a row failed.
        """
        name = self.spec.name
        self._sink = self._data.begin_log(name).open("a", buffering=1, encoding="utf-8")
        failed_starts = deaths = 0
        while True:
            began = time.monotonic()
            await self._start()
            if await self._becomes_ready():
                failed_starts = 0
                self._log(f"{name} is ready ({time.monotonic() - began:.1f} s, process {self._pid})")
                self._set_ready(True)
                await self._wait_for_exit()
                self._set_ready(False)
                reason = self._exit_reason()
            else:
                failed_starts += 1
                reason = await self._end_failed_start()
                if failed_starts == self._starts or failed_starts == _MAX_FAILED_STARTS:
                    raise self._failed(reason)
            deaths = 0 if time.monotonic() - began > _SETTLED_S else deaths
            pause = _BACKOFF_S[min(deaths, len(_BACKOFF_S) - 1)]
            deaths += 1
            self._log(f"{name} ended ({reason}); restart in {pause:g} s")
            await asyncio.sleep(pause)

    async def stop(self) -> None:
        """Sends SIGTERM and waits up to 25 s for the end. Then kills the remaining processes of the child's group."""
        if self._process is not None:
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)  # a paused child receives the stop signal only after this
            try:
                await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT_S)
            except TimeoutError:
                self._log(f"{self.spec.name} did not stop within {_STOP_TIMEOUT_S:g} s and is killed")
                self.kill()
            await self._wait_for_exit()
            self._set_ready(False)
        if self._sink is not None:
            self._sink.close()

    def kill(self) -> None:
        """Kills the child and the other processes of its group."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _start(self) -> None:
        self._pipes = [_LinePipe(self._on_stdout), _LinePipe(self._on_stderr)]
        self._ready_printed.clear()
        self._last_line = ""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.spec.argv,
                env=dict(self.spec.environment),
                cwd=self.spec.cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=self._pipes[0].write_end,
                stderr=self._pipes[1].write_end,
                start_new_session=True,  # this process forwards Ctrl-C to its children, in order
                preexec_fn=end_with_parent(self.spec.orphan_signal),
                pass_fds=(self._data.lock_fd,),
            )
        except BaseException as error:
            for pipe in self._pipes:
                pipe.abandon()
            if isinstance(error, OSError):
                raise self._failed(f"{self.spec.argv[0]}: {error.strerror}") from error
            raise
        for pipe in self._pipes:
            pipe.listen()
        self._starts += 1
        self._changed()

    async def _becomes_ready(self) -> bool:
        """Returns `True` when the child is ready. Returns `False` if the child ended, or was not ready within
        `_READY_TIMEOUT_S` seconds.
        """
        assert self._process is not None
        ended = asyncio.create_task(self._process.wait())
        ready = asyncio.create_task(self._ports_listen() if self.spec.ready_ports else self._ready_printed.wait())
        try:
            await asyncio.wait({ended, ready}, timeout=_READY_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            return ready.done() and not ended.done()
        finally:
            ended.cancel()
            ready.cancel()

    async def _ports_listen(self) -> bool:
        for port in self.spec.ready_ports:
            while not _listens(port):  # noqa: ASYNC110 - another process listens: there is no event to wait for
                await asyncio.sleep(_PROBE_S)
        return True

    async def _end_failed_start(self) -> str:
        """Kills a child that did not become ready. Returns the reason."""
        assert self._process is not None
        late = self._process.returncode is None
        self.kill()
        await self._wait_for_exit()
        return f"not ready within {_READY_TIMEOUT_S:g} s" if late else self._exit_reason()

    async def _wait_for_exit(self) -> None:
        """Waits until the child has ended, kills the other processes of its group, and reads the last lines."""
        assert self._process is not None
        await self._process.wait()
        self.kill()
        for pipe in self._pipes:
            await pipe.drain(_DRAIN_TIMEOUT_S)

    def _exit_reason(self) -> str:
        assert self._process is not None
        code = self._process.returncode
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return self._last_line or f"exit code {code}"

    def _failed(self, reason: str) -> ChildFailed:
        return ChildFailed(self.spec.name, reason, str(self._data.log_path(self.spec.name)))

    def _on_stdout(self, line: str) -> None:
        self._write(line)
        if line.startswith("ready "):
            self._ready_printed.set()

    def _on_stderr(self, line: str) -> None:
        self._write(line)
        if line.strip():
            self._last_line = line.strip()
        if _WARNING.search(line) and _EXPECTED not in line:
            self._log(f"{self.spec.name}: {line}")

    def _write(self, line: str) -> None:
        assert self._sink is not None
        now = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        self._sink.write(f"{now} {self.spec.name} | {line}\n")

    def _set_ready(self, ready: bool) -> None:
        if ready:
            self.ready.set()
        else:
            self.ready.clear()
        self._changed()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    @property
    def _pid(self) -> int:
        assert self._process is not None
        return self._process.pid


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)  # loopback accepts or refuses immediately
        return probe.connect_ex((LOOPBACK, port)) == 0
