"""A service on the kit, as a team writes one. Its payload determines what its work does."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from lucius_service.errors import FailedFinal, FailedRetry
from lucius_service.program import run
from lucius_service.step import Outcome, Task, read_payload


class ProbePayload(BaseModel):
    """How long the work takes, and how it ends."""

    model_config = ConfigDict(extra="forbid")

    work_s: Annotated[float, Field(ge=0)] = 0
    #: the work lasts until a file with this path exists
    until: Path | None = None
    then: Literal["succeed", "final", "retry", "bug"] = "succeed"


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
        while task.payload.until is not None and not task.payload.until.exists():
            time.sleep(0.05)
        match task.payload.then:
            case "final":
                raise FailedFinal("PROBE_FINAL", "requested by the payload")
            case "retry":
                raise FailedRetry("PROBE_RETRY", "requested by the payload")
            case "bug":
                raise RuntimeError("a secret that must not reach the reply")
        return Outcome(task.write("probe/out.txt", b"done", "text/plain"), {"answer": 42})


if __name__ == "__main__":
    sys.exit(run("probe", lambda settings: ProbeStep()))
