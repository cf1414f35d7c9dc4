"""The PACK step, which finds the pack, checks its hash, runs the pack, and stores its log and its artifacts."""

from __future__ import annotations

import ctypes
import json
import logging
import platform
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from lucius_service.errors import CANCELLED, LIMIT_EXCEEDED, REF_UNSUPPORTED, FailedFinal, FailedRetry, StepFailed
from lucius_service.pack import Pack
from lucius_service.settings import SettingsError
from lucius_service.step import Artifact, Outcome, Task, read_payload
from platform_service.packs.artifacts import store_artifacts
from platform_service.packs.pack_folders import INCLUDED, PackFolders, copy_checked
from platform_service.packs.privileges import missing
from platform_service.packs.run import (
    EXIT_RETRY,
    PACK_FAILED,
    Program,
    RunFolder,
    hand_over,
    remove_abandoned,
    run_folder,
    run_program,
)
from platform_service.packs.run_log import RunLog
from platform_service.settings import PackLimits, read_pack_folders, read_pack_limits, read_pack_python

#: code of a RESULT: the runner is not on Linux
PACK_UNSUPPORTED = "PACK_UNSUPPORTED"
#: container of the documents' account
RUNS = "runs"
FORMAT = "lucius.run/1"
MIN_CADENCE_S, MAX_CADENCE_S = 15, 300
#: option of prctl(2)
_PR_SET_DUMPABLE = 4


class PackPayload(BaseModel):
    """The payload, as in `protocols/steps/packs.schema.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    packId: Annotated[str, Field(min_length=1, max_length=63)]
    packVersion: Annotated[str, Field(min_length=1, max_length=32)]
    planHash: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    inputs: dict[str, Any] = Field(default_factory=dict)
    heartbeatCadence: Annotated[int, Field(ge=MIN_CADENCE_S, le=MAX_CADENCE_S)] = 30


class PackStep:
    """The PACK step, which runs one pack at a time."""

    step_type = "PACK"
    subscription = "packs"
    result_name = "pack/result.json"

    def __init__(self, folders: PackFolders, limits: PackLimits, python: str) -> None:
        self._folders = folders
        self._python = python
        self._limits = limits
        # an earlier run may still be ending
        self._turn = threading.Lock()

    def prepare(self) -> None:
        """Hides memory and /proc of this process from programs of the same user, and removes abandoned runs."""
        if sys.platform == "linux":
            set_dumpable(0)
            remove_abandoned()

    def heartbeat_s(self, payload: Any) -> float | None:
        """Returns the seconds between heartbeats in the payload, or None if the payload has no valid value."""
        cadence = payload.get("heartbeatCadence") if isinstance(payload, dict) else None
        return float(cadence) if type(cadence) is int and MIN_CADENCE_S <= cadence <= MAX_CADENCE_S else None

    def validate(self, payload: Any) -> PackPayload:
        return read_payload(PackPayload, payload)

    def execute(self, task: Task) -> Outcome:
        with self._turn:
            return self._execute(task)

    def _execute(self, task: Task) -> Outcome:
        directive, payload = task.directive, task.payload
        base = task.workspace.tenant_folder(directive.workspace_ref.uri, RUNS)
        folder = f"{base}/{quote(directive.jobId, safe='')}"
        log = RunLog.open(task.workspace, folder, directive.attempt_no, self._limits.log_mib * 2**20)
        named = f"{payload.packId} {payload.packVersion}"
        log.note(f"attempt {directive.attempt_no} of {directive.jobId}: pack {named} on {platform.node()}")
        log.flush()
        try:
            with run_folder() as place:
                outcome = self._run(task, place, log, base, f"{folder}/{directive.attempt_no}")
        except StepFailed as fault:
            log.note(f"{fault.status}: {fault}")
            raise
        except Exception as error:
            log.note(f"the runner failed: {type(error).__name__}")
            raise
        finally:
            log.flush()
        return outcome

    def _run(self, task: Task, place: RunFolder, log: RunLog, base: str, artifacts_uri: str) -> Outcome:
        _directive, payload = task.directive, task.payload
        if sys.platform != "linux":
            raise FailedFinal(PACK_UNSUPPORTED, f"packs run on Linux only, not on {sys.platform}")
        pack = self._folders.find(payload.packId, payload.packVersion)
        copy_checked(pack, payload.planHash, place.pack)
        variables = self._write_inputs(task, pack, place, base)
        hand_over(place)
        task.report(0.0, f"running {payload.packId} {payload.packVersion}")
        code = run_program(Program(self._python, pack.manifest.entry), place, self._limits, variables, log, task)
        log.note(_ending(code))
        if log.overtaken:
            raise FailedRetry(CANCELLED, "another runner has the attempt")
        artifacts = store_artifacts(place.artifacts, place.user, task.workspace, artifacts_uri)
        for each in artifacts:
            log.note(f"artifact {each.name}: {each.size} bytes")
        task.artifacts.extend(artifacts)
        _check_exit(code)
        result = _result(payload, code, artifacts)
        uri = task.write(self.result_name, json.dumps(result, indent=2).encode(), "application/json")
        return Outcome(uri, {"exit_code": code, "artifacts": len(artifacts), "log_bytes": log.size})

    def _write_inputs(self, task: Task, pack: Pack, place: RunFolder, base: str) -> dict[str, str]:
        """Writes the program's inputs. Returns the environment variables that name the inputs."""
        directive = task.directive
        inputs = place.work / "inputs.json"
        inputs.write_text(json.dumps(task.payload.inputs, ensure_ascii=False), "utf-8")
        variables = {
            "LUCIUS_RUN_ID": directive.jobId,
            "LUCIUS_ATTEMPT": str(directive.attempt_no),
            "LUCIUS_INPUTS": str(inputs),
            "LUCIUS_ARTIFACTS": str(place.artifacts),
        }
        if pack.manifest.input:
            source = directive.input_ref.uri
            if source.startswith(f"{base.rpartition('/')[0]}/") and not source.startswith(f"{base}/"):
                raise FailedFinal(REF_UNSUPPORTED, f"the reference names another tenant's run: {source[:300]}")
            document = place.work / "input"
            document.write_bytes(task.read_input().data)
            variables["LUCIUS_INPUT"] = str(document)
        return variables


def set_dumpable(value: int) -> None:
    """Sets PR_SET_DUMPABLE. With 0, only root reads the memory and the environment of this process. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _ending(code: int) -> str:
    return f"the program ended with exit code {code}" if code >= 0 else f"signal {-code} ended the program"


def _check_exit(code: int) -> None:
    """Raises StepFailed for a program that did not succeed."""
    if code == -signal.SIGXCPU:
        raise FailedFinal(LIMIT_EXCEEDED, "a process of the run exceeded its limit of CPU time")
    if code == EXIT_RETRY:
        raise FailedRetry(PACK_FAILED, f"the program requested another attempt (exit code {EXIT_RETRY})")
    if code != 0:
        raise FailedFinal(PACK_FAILED, f"{_ending(code)}; see the log of the run")


def _result(payload: PackPayload, code: int, artifacts: list[Artifact]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "packId": payload.packId,
        "packVersion": payload.packVersion,
        "planHash": payload.planHash,
        "exit_code": code,
        # without URIs, which contain the job's id: a replay compares the result by its digest
        "artifacts": [
            {"name": each.name, "media_type": each.media_type, "size": each.size, "sha256": each.sha256}
            for each in artifacts
        ],
    }


def build(environ: Mapping[str, str]) -> PackStep:
    """Returns the service's step, from its settings. Raises SettingsError."""
    if (workers := environ.get("LUCIUS_SERVICE_WORKERS", "1").strip()) not in ("", "1"):
        raise SettingsError(f"LUCIUS_SERVICE_WORKERS={workers!r} must be 1 for packs; add replicas instead")
    folders = PackFolders([INCLUDED, *read_pack_folders(environ)])
    if lacking := missing():
        logging.getLogger(__name__).warning(
            "runs have the same user as the runner, since the runner lacks %s (docs/guides/runs.md)", ", ".join(lacking)
        )
    return PackStep(folders, read_pack_limits(environ), read_pack_python(environ))
