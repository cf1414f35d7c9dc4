"""`lucius job cancel`, `pause`, `resume`, `admit`, `priority`, `redrive` and `dismiss`: changes of a job."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lucius_client.cli import rendering
from lucius_client.cli.bulk import finish
from lucius_client.cli.exits import Exit, UsageError
from lucius_client.cli.job_page import outcome, show_job
from lucius_client.cli.job_tables import FAILED
from lucius_client.cli.options import JobId, OptionalReason
from lucius_client.cli.session import Session, with_session


@with_session
def cancel(session: Session, job: JobId, reason: OptionalReason = None) -> None:
    """Cancel a job. LUCIUS waits for attempts in flight."""
    show_job(session, session.client.cancel(job, reason=reason).plain())


@with_session
def pause(session: Session, job: JobId, reason: OptionalReason = None) -> None:
    """Pause a job. Attempts in flight finish. No attempt starts."""
    show_job(session, session.client.pause(job, reason=reason).plain())


@with_session
def resume(session: Session, job: JobId, reason: OptionalReason = None) -> None:
    """Resume a paused job."""
    show_job(session, session.client.resume(job, reason=reason).plain())


@with_session
def admit(
    session: Session,
    job: JobId,
    reason: Annotated[
        str,
        typer.Option(help="Reason for the job's history and the log of the tenant's quota, at most 1,024 characters."),
    ],
) -> None:
    """Admit a waiting job past its quotas, once. Operators only."""
    show_job(session, session.client.admit(job, reason=reason).plain())


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    EMERGENCY = "emergency"


@with_session
def priority(
    session: Session,
    job: JobId,
    priority: Annotated[Priority, typer.Argument(help="New priority of the waiting job.")],
    reason: Annotated[str, typer.Option(help="Reason for the job's history, at most 1,024 characters.")],
) -> None:
    """Change a waiting job's priority and queue position."""
    show_job(session, session.client.set_priority(job, priority.value, reason=reason).plain())


@with_session
def redrive(
    session: Session,
    job: JobId,
    reason: OptionalReason = None,
    ignore_dependencies: Annotated[
        bool, typer.Option("--ignore-dependencies", help="Start the new job without checking the dependencies.")
    ] = False,
    with_dependants: Annotated[
        bool,
        typer.Option(
            "--with-dependants", help="Also redrive each job that failed because of this job, as a bulk operation."
        ),
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the bulk operation of --with-dependants ends.")
    ] = False,
) -> None:
    """Redrive a failed or cancelled job as a new job.

    The new job does not run succeeded steps again. If all steps succeeded before
    a cancel, the new job runs the last step again. Idempotent: a second redrive
    shows the same new job.

    The exit code is 1 if the job was redriven before, and the last redrive
    failed or was cancelled. With --with-dependants --wait, the exit code is 1 if
    a job was refused or is open.
    """
    if with_dependants:
        if ignore_dependencies:
            raise UsageError("--with-dependants and --ignore-dependencies exclude each other; omit one option")
        finish(session, session.client.redrive_tree(job, reason=reason), wait=wait)
        return
    if wait:
        raise UsageError("--wait needs --with-dependants; to wait for one job, run `lucius job watch`")
    known = session.client.job(job).redriven_by is not None
    again = session.client.redrive(job, reason=reason, ignore_dependencies=ignore_dependencies).plain()
    show_job(session, again)
    if known:
        last = again
        while last.get("redriven_by"):
            last = session.client.job(last["redriven_by"]).plain()
        failed = last["status"] in FAILED
        hint = f"; after a repair of the cause, run `lucius job redrive {last['jobId']}`" if failed else ""
        rendering.write(f"already redriven as {last['jobId']} ({outcome(last)}){hint}", stderr=True)
        if failed:
            raise typer.Exit(Exit.NOT_WELL)


@with_session
def dismiss(
    session: Session,
    job: JobId,
    reason: Annotated[
        str, typer.Option(help="Reason for the log of the open incident, if any. At most 1,024 characters.")
    ],
) -> None:
    """Dismiss a dead letter and its open incident.

    The job does not change. `lucius job redrive` can still redrive the job.
    """
    show_job(session, session.client.dismiss_dead_letter(job, reason=reason).plain())
