"""The child's side of `lucius_service.children`: executes one attempt after the other, on the main thread."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import queue
import signal
import socket
import sys
import threading
from dataclasses import asdict
from typing import Any

from lucius_service import tracing
from lucius_service.directive import Directive
from lucius_service.errors import StepFailed
from lucius_service.log_lines import attempt_ids
from lucius_service.settings import Settings
from lucius_service.step import Step
from lucius_service.work import work
from lucius_service.workspace_io import Workspace

log = logging.getLogger(__name__)

#: constant of prctl(2)
_PR_SET_PDEATHSIG = 1


def serve(descriptor: int, step: Step, settings: Settings) -> int:
    """Executes attempts until the parent process ends. Raises errors of `prepare`."""
    _end_with_parent()
    # the parent decides when work ends; Ctrl-C in a terminal reaches both processes
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    limit_memory(settings.memory_mib)
    workspace = Workspace(
        settings.blob_connection, endpoint=settings.blob_endpoint, max_input_bytes=settings.max_input_mib * 2**20
    )
    step.prepare()
    channel = _Channel(socket.socket(fileno=descriptor))
    channel.send({"ready": True})
    while True:
        order = channel.orders.get()
        channel.send(_work(step, order, workspace, channel))


def limit_memory(mib: int) -> None:
    """Limits the writable memory of this process. If `mib` is 0, sets no limit. Logs a warning on systems other than
    Linux.
    """
    if not mib:
        return
    if sys.platform != "linux":
        log.warning("LUCIUS_SERVICE_MEMORY_MIB has no effect: this system cannot limit the memory of a process")
        return
    import resource

    # since Linux 4.7 the limit counts private writable mappings, so neither code nor reservations of allocators
    resource.setrlimit(resource.RLIMIT_DATA, (mib * 2**20, mib * 2**20))


def _end_with_parent() -> None:
    """On Linux, the kernel kills this process when the parent ends, even while the work holds the interpreter lock."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Channel:
    """The socket in both directions, with a thread that reads."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")
        self._mutex = threading.Lock()
        self.orders: queue.Queue[dict[str, Any]] = queue.Queue()
        #: number of the last cancelled work
        self.cancelled = 0
        threading.Thread(target=self._read, name="orders", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        with self._mutex:
            self._file.write(json.dumps(message).encode() + b"\n")
            self._file.flush()

    def _read(self) -> None:
        try:
            for line in self._file:
                message = json.loads(line)
                if "cancel" in message:
                    self.cancelled = message["cancel"]
                else:
                    self.orders.put(message)
        finally:
            os._exit(0)  # the parent has ended


class _ChildWatch:
    """A `Watch` that forwards reports of the work to the parent process."""

    def __init__(self, number: int, channel: _Channel) -> None:
        self._number = number
        self._channel = channel

    def report(self, progress: float, note: str) -> None:
        self._channel.send({"report": [float(progress), str(note)]})

    def still_working(self) -> None:
        self._channel.send({"alive": True})

    def log(self, line: str) -> None:
        self._channel.send({"log": str(line)})

    @property
    def cancelled(self) -> bool:
        return self._channel.cancelled == self._number


def _work(step: Step, order: dict[str, Any], workspace: Workspace, channel: _Channel) -> dict[str, Any]:
    directive = Directive.model_validate_json(order["directive"])
    try:
        with tracing.adopted(order["traceparent"]):
            done = {"done": asdict(work(step, directive, workspace, _ChildWatch(order["work"], channel)))}
            json.dumps(done)  # metrics may have values that JSON lacks
            return done
    except StepFailed as fault:
        return {"failed": [fault.status, fault.code, fault.message]}
    except MemoryError:
        return {"memory": True}
    except Exception as error:
        log.exception("%s step %s", directive.jobId, directive.stepId, extra=attempt_ids(directive))
        return {"bug": type(error).__name__}
