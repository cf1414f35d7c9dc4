"""Sealed replay: the steps of a recorded job run again without network, compared with their recorded RESULTs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lucius_verify.bundle import Bundle, read_one_job
from lucius_verify.histories import History
from lucius_verify.json_rows import Row
from lucius_verify.possible import typed_row
from lucius_verify.signed_heads import SignedHeads
from lucius_verify.statements import Keys
from lucius_verify.tarball import GZIP
from shared.contracts.messages import RESULT_CONTENT
from shared.core.jobs.comparison import ComparedStep, Likeness, compare, is_deterministic
from shared.core.jobs.directive import directive_of, encode_directive
from shared.core.jobs.job import Job, Record, Step
from shared.core.jobs.states import StepStatus

__all__ = ["NotRun", "account_of", "is_deterministic", "read_job", "replay"]

#: a history has no lease, and the work of a step does not depend on it
_LEASE = "sealed"

#: runs the step of this type for a directive (JSON) and returns its RESULT
Run = Callable[[str, bytes], Row]


class NotRun(Exception):
    """The step was not run, or its run did not end with a RESULT. The message is the reason."""


def read_job(path: Path, job_id: str) -> History:
    """Returns a job of a bundle that `verify` has read. Raises Unreadable."""
    with path.open("rb") as file:
        if file.read(2) != GZIP:
            return read_one_job(path.name, path.read_bytes())[0]
    return next(each for each in Bundle(path, SignedHeads(Keys(()))).histories() if each.job_id == job_id)


def account_of(history: History) -> str:
    """Returns the URL of the job's storage account. The workspace of a job is `URL/CONTAINER/SYSTEM/TENANT`."""
    return str(history.job.get("workspace_base")).rsplit("/", 3)[0]


def replay(history: History, run: Run) -> list[ComparedStep]:
    """Runs each succeeded step with `run`, which may raise NotRun, and compares the RESULTs.

    The history must be verified. Raises ValueError if the bundle withholds payloads and references.
    """
    if history.withheld:
        raise ValueError("the bundle withholds content, such as payloads; export the bundle again with --with-content")
    steps = tuple(replace(typed_row(Step, each), lease_id=_LEASE) for each in history.steps)
    record = Record(typed_row(Job, history.job), steps)
    reasons: dict[str, str] = {}
    again = []
    for step in steps:
        try:
            again.append(replace(step, result=_result(record, step, run)))
        except NotRun as why:
            reasons[step.step_id] = str(why)
            again.append(replace(step, status=StepStatus.FAILED_FINAL))
    compared = compare(record, Record(record.job, tuple(again)))
    # also of a job that had not ended, whose steps `compare` takes for PENDING
    return [
        replace(each, likeness=Likeness.NOT_COMPARABLE, why=reasons[each.step_id]) if each.step_id in reasons else each
        for each in compared
    ]


def _result(record: Record, step: Step, run: Run) -> Row:
    if step.carried:
        raise NotRun(f"the step ran in the job {record.job.redrive_of}")
    if step.status is not StepStatus.SUCCEEDED:
        raise NotRun(f"the step is {step.status} in the history")
    found = run(step.step_type, encode_directive(directive_of(record, step)))
    return {name: found[name] for name in RESULT_CONTENT if name in found}
