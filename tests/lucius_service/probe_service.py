"""A service on the SDK, as a team writes one. Its payload determines its work."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from lucius_service.errors import FailedFinal, FailedRetry
from lucius_service.program import run
from lucius_service.step import Outcome, Task, read_payload

_MANY = {f"metric {number}": number for number in range(20_000)}


class ProbePayload(BaseModel):
    """Duration and end of the work."""

    model_config = ConfigDict(extra="forbid")

    work_s: Annotated[float, Field(ge=0)] = 0
    #: the work lasts until a file with this path exists, or it is cancelled
    until: Path | None = None
    then: Literal["succeed", "final", "retry", "bug", "hang", "memory", "crash"] = "succeed"
    artifact: bool = False
    metrics: Literal["", "many", "nan", "pid"] = ""


class ProbeStep:
    step_type = "PROBE"

    def prepare(self) -> None:
        """It has no models."""

    def validate(self, payload: Any) -> ProbePayload:
        return read_payload(ProbePayload, payload)

    def execute(self, task: Task) -> Outcome:
        # each run writes a blob, so that a test can count the runs
        task.write(f"runs/{uuid4().hex}", b"ran", "text/plain")
        task.report(0.5, "half way")
        time.sleep(task.payload.work_s)
        while task.payload.until is not None and not task.payload.until.exists() and not task.cancelled:
            time.sleep(0.05)
        if task.payload.artifact:
            task.read_input()
            task.log("one artifact")
            task.artifact("page 1.csv", b"", "text/csv")
            task.artifact("page 1.csv", b"a,b", "text/csv")
        match task.payload.then:
            case "final":
                raise FailedFinal("PROBE_FINAL", "requested by the payload")
            case "retry":
                raise FailedRetry("PROBE_RETRY", "requested by the payload")
            case "bug":
                raise RuntimeError("a secret that must not reach the reply")
            case "hang":
                # as a library does that keeps the interpreter's lock: no other thread of the process runs
                ctypes.PyDLL(None).sleep(1000)
            case "memory":
                bytearray(2**32)
            case "crash":
                os.abort()
        metrics: dict[str, Any] = {"": {"answer": 42}, "many": _MANY, "nan": {"x": float("nan")}, "pid": {}}[
            task.payload.metrics
        ]
        if task.payload.metrics == "pid":
            metrics = {"pid": os.getpid()}
        return Outcome(task.write("probe/out.txt", b"done", "text/plain"), metrics)


class IsolatedStep(ProbeStep):
    step_type = "ISOLATED"
    isolation = "process"
    silent_s = 4


if __name__ == "__main__":
    sys.exit(run("isolated", lambda settings: IsolatedStep()) if sys.argv[1:] else run("probe", lambda _: ProbeStep()))
