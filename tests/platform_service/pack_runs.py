"""Packs that a test writes, and runs of them on a runner over blobs in memory."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

from lucius_service.directive import Directive
from lucius_service.pack import plan_hash, read_pack
from lucius_service.step import Outcome, Task
from lucius_service.testing import WORKSPACE, Heard, MemoryWorkspace
from platform_service.packs.pack_folders import INCLUDED, PackFolders
from platform_service.packs.step import PackStep
from platform_service.settings import PackLimits, read_pack_python

LIMITS = PackLimits(seconds=20, cpu_s=20, memory_mib=256, disk_mib=8, processes=12, log_mib=1)
INPUT = "memory://account/documents/input"
#: of the one job
FOLDER = "memory://account/runs/test/job_1"


def write_pack(folder: Path, program: str, pack_id: str = "test", **manifest: Any) -> str:
    """Writes the pack `folder/pack_id`, and returns its hash."""
    place = folder / pack_id
    place.mkdir(parents=True, exist_ok=True)
    (place / "pack.json").write_text(json.dumps({"packId": pack_id, "packVersion": "1.0.0", **manifest}))
    (place / "main.py").write_text(dedent(program))
    return plan_hash(read_pack(place))


@dataclass
class Runner:
    """A runner with the packs of a folder. `run` raises the step's error."""

    folder: Path
    limits: PackLimits = LIMITS
    workspace: MemoryWorkspace = field(default_factory=lambda: MemoryWorkspace({INPUT: b"a document"}))
    watch: Heard = field(default_factory=Heard)

    def run(self, payload: dict[str, Any], *, attempt: int = 1, job_id: str = "job_1") -> Outcome:
        step = PackStep(PackFolders([INCLUDED, self.folder]), self.limits, read_pack_python({}))
        directive = Directive(
            jobId=job_id,
            tenant_id="test",
            stepId="pack",
            step_type="PACK",
            attempt_no=attempt,
            lease_id="s3cret-lease",
            input_ref={"uri": INPUT},
            workspace_ref={"uri": WORKSPACE},
            payload=payload,
            lane=0,
        )
        return step.execute(Task(directive, step.validate(payload), self.workspace, self.watch))

    def run_program(self, program: str, *, attempt: int = 1, job_id: str = "job_1", **inputs: Any) -> Outcome:
        """Runs a pack of this program."""
        digest = write_pack(self.folder, program)
        payload = {"packId": "test", "packVersion": "1.0.0", "planHash": digest, "inputs": inputs}
        return self.run(payload, attempt=attempt, job_id=job_id)

    def log(self, attempt: int = 1) -> str:
        return self.workspace.blobs[f"{FOLDER}/{attempt}.log"].decode()

    @property
    def artifacts(self) -> dict[str, bytes]:
        """Those of the first attempt, by name."""
        start = f"{FOLDER}/1/"
        return {uri.removeprefix(start): data for uri, data in self.workspace.blobs.items() if uri.startswith(start)}
