"""Replays a job of a bundle on this machine without the API (a sealed replay), with the services' own step classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lucius_client.cli.exits import UsageError
from lucius_client.cli.rendering import Json

if TYPE_CHECKING:
    from lucius_service.step import Step
    from lucius_verify import Report


@dataclass
class Sealed:
    """The result of a sealed replay."""

    #: verification of the job's history
    report: Report
    #: `stepId`, `outcome` and `why` of each step; empty if no step was named, or if the history is broken
    steps: list[Json] = field(default_factory=list)
    #: `True` if each step is `SAME`, `False` if one is `DIFFERENT`, else None
    deterministic: bool | None = None


def replay_sealed(
    job_id: str, bundle: Path, *, steps: Sequence[str], artifacts: Path | None, keys: Sequence[str]
) -> Sealed:
    """Verifies a job of the bundle, and runs the job's steps on local files. Raises UsageError.

    `steps` are step classes as `MODULE:CLASS`. `artifacts` is the folder of the blobs. `keys` are trusted public keys
    or key ids.
    """
    try:
        from lucius_verify import carried, verify
    except ImportError as missing:
        raise UsageError(f"package lucius-verify not found ({missing}); install packages/lucius-verify") from missing
    if not carried.has_rules():
        raise UsageError(
            "lucius-verify has no copy of the app's rules (shared/core); install packages/lucius-verify again"
        )
    try:
        found = Sealed(verify(bundle, job=job_id, keys=keys))
        if found.report.broken is None and steps:
            _run(found, job_id, bundle, _created(steps), artifacts)
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as wrong:
        # a valid history can have values of other types than a directive
        raise UsageError(f"{bundle}: {wrong}" if isinstance(wrong, OSError) else str(wrong)) from wrong
    return found


def _run(found: Sealed, job_id: str, bundle: Path, services: dict[str, Step], artifacts: Path | None) -> None:
    from lucius_service.sealed import LocalWorkspace, run_recorded
    from lucius_verify import sealed

    history = sealed.read_job(bundle, job_id)
    workspace = LocalWorkspace(sealed.account_of(history), artifacts)

    def run(step_type: str, directive: bytes) -> Json:
        if step_type not in services:
            raise sealed.NotRun(f"no --step has a class for {step_type}; add the class with --step")
        try:
            return run_recorded(services[step_type], directive, workspace)
        except Exception as failed:  # a bug of the step, too
            raise sealed.NotRun(f"{type(failed).__name__}: {failed}") from failed

    compared = sealed.replay(history, run)
    found.steps = [{"stepId": each.step_id, "outcome": each.likeness.value, "why": each.why} for each in compared]
    found.deterministic = sealed.is_deterministic(compared)


def _created(steps: Sequence[str]) -> dict[str, Step]:
    """Returns the prepared steps, by step type. Raises UsageError."""
    try:
        from lucius_service.command import create_step
    except ImportError as missing:
        raise UsageError(f"package lucius-service not found ({missing}); install packages/lucius-service") from missing
    made: dict[str, Any] = {}
    for each in steps:
        try:
            step = create_step(each)
            step.prepare()
        except Exception as failed:  # the module or the class can raise any error
            raise UsageError(f"--step {each}: {type(failed).__name__}: {failed}") from failed
        made[step.step_type] = step
    return made
