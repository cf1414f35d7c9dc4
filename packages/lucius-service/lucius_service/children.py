"""A pool of child processes for steps with `isolation = "process"`.

A child runs the command line of this program, with the file descriptor of a socket in `_LUCIUS_CHILD`. The module
`lucius_service.child` serves this socket. Messages are JSON, one per line.

A child keeps its models loaded between attempts. The pool kills and replaces a child whose work does not stop or fails
with LIMIT_EXCEEDED. The pool replaces a child that ends by itself.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from typing import Any

from lucius_service import tracing
from lucius_service.directive import Directive
from lucius_service.errors import LIMIT_EXCEEDED, SERVICE_FAULT, FailedFinal, FailedRetry, StepFailed
from lucius_service.settings import SettingsError
from lucius_service.step import Watch
from lucius_service.work import Work

log = logging.getLogger(__name__)

#: environment variable with the file descriptor of a child's socket
CHILD_VARIABLE = "_LUCIUS_CHILD"
#: maximum size of a child's message, for instance with the metrics of a RESULT
MAX_LINE_BYTES = 2**24
#: pauses between tries to replace a child whose step cannot be prepared; the last one repeats
REPLACE_PAUSES_S = (0, 1, 5, 30)


class _Ended(Exception):
    """The child has ended by itself, or the pool has killed the child after an invalid message."""


class _Child:
    def __init__(self, process: subprocess.Popen[bytes], ours: socket.socket) -> None:
        self._process = process
        self._socket = ours
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter
        self._count = 0

    @classmethod
    async def start(cls) -> _Child:
        """Starts a child and waits until the child is ready. Raises SettingsError if the step cannot be prepared."""
        ours, theirs = socket.socketpair()
        with theirs:
            child = cls(_this_program(theirs.fileno()), ours)
        try:
            child._reader, child._writer = await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES)
            message = await child._read()
        except _Ended as ended:
            raise SettingsError(f"the child process ended {ended} before the step was ready") from None
        except BaseException:
            child.kill()
            raise
        assert "ready" in message
        return child

    async def run(self, directive: Directive, watch: Watch, stopping: asyncio.Event) -> Work:
        self._count += 1
        self._send({"work": self._count, "directive": directive.model_dump_json(), "traceparent": tracing.current()})
        cancelling = asyncio.create_task(self._cancel(stopping))
        try:
            while True:
                match await self._read():
                    case {"report": [float() | int() as progress, str(note)]}:
                        watch.report(progress, note)
                    case {"log": str(line)}:
                        watch.log(line)
                    case {"alive": _}:
                        watch.still_working()
                    case {"done": done}:
                        return Work(**done)
                    case {"failed": [status, str(code), str(message)]}:
                        raise (FailedFinal if status == FailedFinal.status else FailedRetry)(code, message)
                    case {"bug": str(name)}:
                        raise _StepBug(name)
                    case {"memory": _}:
                        raise FailedFinal(LIMIT_EXCEEDED, "the work needs more memory than the service allows")
        finally:
            cancelling.cancel()

    async def _cancel(self, stopping: asyncio.Event) -> None:
        await stopping.wait()
        self._send({"cancel": self._count})

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def _read(self) -> dict[str, Any]:
        """Reads a message. Raises _Ended."""
        with suppress(ConnectionError, asyncio.IncompleteReadError, ValueError):
            if line := await self._reader.readline():
                message: dict[str, Any] = json.loads(line)
                return message
        self.kill()
        raise _Ended(_how(self._process.returncode))

    def kill(self) -> None:
        """Ends the process if it still runs, and frees its resources."""
        # a child that has closed its socket is about to end; a killed child ends immediately
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2 if self._reader_at_end() else 0)
        self._process.kill()
        self._process.wait()
        self._socket.close()
        if hasattr(self, "_writer"):
            self._writer.close()

    def _reader_at_end(self) -> bool:
        return hasattr(self, "_reader") and self._reader.at_eof()


def _this_program(descriptor: int) -> subprocess.Popen[bytes]:
    """Starts this program as a child. Must be called on the thread of the event loop, since a child ends with the
    thread that started the child (PR_SET_PDEATHSIG).
    """
    return subprocess.Popen(
        [sys.executable, *sys.orig_argv[1:]],
        env={**os.environ, CHILD_VARIABLE: str(descriptor)},
        pass_fds=(descriptor,),
        stdin=subprocess.DEVNULL,
        # the parent's stdout has the ready line, which output of the work must not imitate
        stdout=sys.stderr.fileno(),
    )


class _StepBug(Exception):
    """The step raised an exception of the class `name` in its child, which logged the exception."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class ChildWorker:
    """A worker that runs attempts in `size` child processes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._children: set[_Child] = set()
        self._idle: asyncio.Queue[_Child] = asyncio.Queue()
        self._replacing: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Starts the children. Raises SettingsError if a child's step cannot be prepared, or if the system has no Unix
        sockets.
        """
        if not hasattr(socket, "AF_UNIX"):
            raise SettingsError('isolation = "process" needs a system with Unix sockets')
        await asyncio.gather(*(self._add() for _ in range(self._size)))

    async def run(self, directive: Directive, watch: Watch, stopping: asyncio.Event) -> Work:
        child = await self._idle.get()
        watch.still_working()  # the time to replace a child does not count as silence of the work
        spent = True
        try:
            done = await child.run(directive, watch, stopping)
            spent = False
            return done
        except _Ended as ended:
            raise FailedRetry(SERVICE_FAULT, f"the process of the work ended {ended}") from None
        except StepFailed as fault:
            spent = fault.code == LIMIT_EXCEEDED
            raise
        except _StepBug as bug:
            spent = False
            raise FailedRetry(SERVICE_FAULT, f"the service failed ({bug.name})") from None
        finally:
            if spent:
                child.kill()
                self._children.discard(child)
                task = asyncio.create_task(self._replace())
                self._replacing.add(task)
                task.add_done_callback(self._replacing.discard)
            else:
                self._idle.put_nowait(child)

    async def close(self) -> None:
        for task in list(self._replacing):
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        for child in self._children:
            child.kill()

    async def _add(self) -> None:
        child = await _Child.start()
        self._children.add(child)
        self._idle.put_nowait(child)

    async def _replace(self) -> None:
        failures = 0
        while True:
            await asyncio.sleep(REPLACE_PAUSES_S[min(failures, len(REPLACE_PAUSES_S) - 1)])
            try:
                return await self._add()
            except (SettingsError, OSError) as error:
                failures += 1
                log.warning("%s; retried after a pause", error)


def _how(code: int | None) -> str:
    """Describes the exit code or the signal with which a process ended."""
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"by {signal.Signals(-code).name}"
    return f"with exit code {code}"
