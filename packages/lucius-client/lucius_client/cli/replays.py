"""`lucius job replay` and `lucius job comparison`: replays a job, and compares it with its original."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lucius_client.cli import rendering
from lucius_client.cli.exits import Exit
from lucius_client.cli.job_controls import Priority
from lucius_client.cli.job_page import show_job
from lucius_client.cli.options import JobId, Reason
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.tables import Column, Listing, exact

COMPARED = Listing(
    "steps",
    "stepId",
    (Column("step", "stepId"), Column("outcome", "outcome"), Column("reason", "why", room=12, drop=1)),
)
#: text by `deterministic` of a comparison
_VERDICTS = {
    True: "deterministic: equal inputs gave equal outputs",
    False: "not deterministic: equal inputs gave other outputs",
    None: "not known whether the services are deterministic",
}


class Mode(StrEnum):
    RERUN = "rerun"
    COMPARE = "compare"


@with_session
def replay(
    session: Session,
    job: JobId,
    reason: Reason,
    mode: Annotated[Mode, typer.Option(help="compare: with --wait, show the comparison.")] = Mode.RERUN,
    priority: Annotated[Priority | None, typer.Option(help="Priority. Default: that of the original.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the new job has ended.")] = False,
) -> None:
    """Run an ended job again, as a new job.

    All steps run. The output stays in the workspace; the original does not change. The original can be archived.

    Exit code 1: with --wait, the new job failed, or a comparison is not SAME for each step.
    """
    client = session.connect(WATCH_RETRIES) if wait else session.client
    new = client.replay(job, reason=reason, mode=mode.value, priority=priority.value if priority else None)
    if new.output_kept_until is not None:
        rendering.write(f"output retained until {exact(new.output_kept_until)} or later", stderr=True)
    if not wait:
        show_job(session, client.job(new.jobId).plain())
        return
    ended = client.wait(new.jobId)
    if mode is Mode.COMPARE:
        _show_comparison(session, new.jobId)
        return
    show_job(session, ended.plain())
    if ended.status != "SUCCEEDED":
        raise typer.Exit(Exit.NOT_WELL)


@with_session
def comparison(session: Session, job: JobId) -> None:
    """Compare the steps of a replay with its original.

    Exit code 1: not each step is SAME.
    """
    _show_comparison(session, job)


def _show_comparison(session: Session, job_id: str) -> None:
    found = session.client.comparison(job_id)
    if session.for_people:
        rendering.write(f"{job_id} replays {found.replay_of}: {_VERDICTS[found.deterministic]}")
    session.show(COMPARED, [each.plain() for each in found.steps], found.plain())
    if found.deterministic is not True:
        raise typer.Exit(Exit.NOT_WELL)
