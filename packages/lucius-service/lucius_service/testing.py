"""Runs a step in memory, or with faults, for tests of services. A service imports this module only for `--chaos`."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, BinaryIO

from lucius_service.append_blob import AppendBlob, Overtaken
from lucius_service.directive import Directive
from lucius_service.errors import INPUT_NOT_FOUND, FailedFinal, FailedRetry
from lucius_service.step import Artifact, Outcome, Step, Task, declared
from lucius_service.workspace_io import Document, Workspace

_ROOT = "memory://account"
#: workspace in the directive of `run_step`; written files are below it
WORKSPACE = f"{_ROOT}/workspace/lucius/test/job/STEP/1/"


@dataclass
class StepRun:
    """The result of a successful step in memory."""

    outcome: Outcome
    #: written files by name under the workspace
    files: dict[str, bytes]
    artifacts: list[Artifact]
    #: (progress, note) of each report
    reports: list[tuple[float, str]]
    #: lines of `Task.log`
    lines: list[str]

    @property
    def result(self) -> bytes:
        """Returns the content at `result_ref`."""
        return self.files[self.outcome.result_ref.removeprefix(WORKSPACE)]


@dataclass
class Heard:
    """A `Watch` that records its calls."""

    reports: list[tuple[float, str]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    #: set to `True` to cancel the work
    cancelled: bool = False

    def report(self, progress: float, note: str) -> None:
        self.reports.append((progress, note))

    def still_working(self) -> None: ...

    def log(self, line: str) -> None:
        self.lines.append(line)


class MemoryWorkspace(Workspace):
    """Blobs in a dictionary, by URI."""

    def __init__(self, blobs: Mapping[str, bytes]) -> None:
        self.blobs = dict(blobs)

    def read(self, uri: str, tenant_id: str | None = None) -> Document:
        if uri not in self.blobs:
            raise FailedFinal(INPUT_NOT_FOUND, f"blob not found: {uri}")
        return Document(uri, self.blobs[uri])

    def write(self, base_uri: str, name: str, data: bytes | BinaryIO, content_type: str) -> str:
        uri = f"{base_uri.rstrip('/')}/{name}"
        self.blobs[uri] = data if isinstance(data, bytes) else data.read()
        return uri

    def append_blob(self, uri: str) -> AppendBlob:
        return MemoryAppendBlob(self.blobs, uri)

    def tenant_folder(self, workspace_uri: str, container: str) -> str:
        return f"{_ROOT}/{container}/test"

    def check_reference(self, uri: str, workspace_uri: str) -> None: ...


class MemoryAppendBlob(AppendBlob):
    """A blob in a dictionary, by URI."""

    def __init__(self, blobs: dict[str, bytes], uri: str) -> None:
        self._blobs, self._uri, self.size = blobs, uri, 0

    def create(self, content_type: str) -> bool:
        fresh = self._uri not in self._blobs
        self._blobs.setdefault(self._uri, b"")
        self.open()
        return fresh

    def open(self) -> bool:
        self.size = len(self._blobs.get(self._uri, b""))
        return self._uri in self._blobs

    def append(self, data: bytes) -> None:
        if self._uri not in self._blobs or len(self._blobs[self._uri]) != self.size:
            raise Overtaken
        self._blobs[self._uri] += data
        self.size += len(data)


def run_step(step: Step, source: bytes, payload: Any = None, *, name: str = "input") -> StepRun:
    """Runs a step on one document, without bus and storage. Raises errors of the step. Call `prepare` first."""
    uri = f"{_ROOT}/documents/{name}"
    directive = Directive(
        jobId="job",
        tenant_id="test",
        stepId="step",
        step_type=step.step_type,
        attempt_no=1,
        lease_id="lease",
        input_ref={"uri": uri},
        workspace_ref={"uri": WORKSPACE},
        payload=payload,
        lane=0,
    )
    workspace, watch = MemoryWorkspace({uri: source}), Heard()
    task = Task(directive, step.validate(payload), workspace, watch)
    outcome = step.execute(task)
    files = {uri.removeprefix(WORKSPACE): data for uri, data in workspace.blobs.items() if uri.startswith(WORKSPACE)}
    return StepRun(outcome, files, task.artifacts, watch.reports, watch.lines)


class Chaos:
    """A step in which half of the executions have a fault: a delay, a failure, repeated work, or the end of the
    process. A seed selects the fault.

    The fault of an execution depends only on the seed and the number of the execution in its process. The service's log
    names the fault of each execution.
    """

    #: percentage of executions with each fault
    FAULTS = (("delay", 20), ("fail", 15), ("duplicate", 10), ("crash", 5))

    def __init__(self, step: Step, seed: int, *, longest_delay_s: float = 2.0) -> None:
        self._step = step
        self._seed = seed
        self._longest_delay_s = longest_delay_s
        self._numbers = count(1)
        works = declared(step)
        self.step_type = step.step_type
        self.isolation, self.silent_s, self.subscription = works.isolation, works.silent_s, works.subscription
        self.heartbeat_s, self.result_name = works.heartbeat_s, works.result_name

    def prepare(self) -> None:
        self._step.prepare()

    def validate(self, payload: Any) -> Any:
        return self._step.validate(payload)

    def execute(self, task: Task) -> Outcome:
        number = next(self._numbers)
        fault, delay_s = self.decide(number)
        task.log(f"chaos {self._seed} #{number}: {fault}")
        match fault:
            case "delay":
                time.sleep(delay_s)
            case "fail":
                raise FailedRetry("CHAOS", f"chaos {self._seed} #{number}")
            case "duplicate":
                self._step.execute(task)
            case "crash":
                os.kill(os.getpid(), signal.SIGKILL)
        return self._step.execute(task)

    def decide(self, number: int) -> tuple[str, float]:
        """Returns the fault to inject into execution `number` of the process (from 1), or "none", and the delay in
        seconds.
        """
        generator = random.Random(f"{self._seed}:{number}")
        percent, delay_s = generator.random() * 100, generator.random() * self._longest_delay_s
        for fault, share in self.FAULTS:
            if percent < share:
                return fault, delay_s
            percent -= share
        return "none", delay_s
