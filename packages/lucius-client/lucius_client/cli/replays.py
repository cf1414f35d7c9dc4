"""`lucius job replay` and `lucius job comparison`: replays a job, and compares a replay with its original."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lucius_client.cli import rendering
from lucius_client.cli.exits import Exit, UsageError
from lucius_client.cli.job_controls import Priority
from lucius_client.cli.job_page import show_job
from lucius_client.cli.options import JobId
from lucius_client.cli.sealed import Sealed, replay_sealed
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
    None: "determinism of the services is unknown",
}


class Mode(StrEnum):
    RERUN = "rerun"
    COMPARE = "compare"


@with_session
def replay(
    session: Session,
    job: JobId,
    reason: Annotated[
        str | None,
        typer.Option(help="Reason for the job's history, at most 1,024 characters. Required without --sealed."),
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="Purpose of the replay. With `compare`, --wait shows the comparison.")
    ] = Mode.RERUN,
    priority: Annotated[
        Priority | None,
        typer.Option(help="Priority of the new job. Default: the priority with which the original was created."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the new job has ended.")] = False,
    sealed: Annotated[
        bool, typer.Option("--sealed", help="Run a job of --bundle on this machine, without the API.")
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Bundle that was exported --with-content, or bundle of one job. Requires --sealed."
        ),
    ] = None,
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:CLASS", help="Class that runs a step; repeatable. Requires --sealed."),
    ] = None,
    artifacts: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder with blobs as CONTAINER/NAME. Requires --sealed.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="File with a public key (PEM), or key id, that you trust; repeatable. Requires --sealed.",
        ),
    ] = None,
) -> None:
    """Run an ended job again, as a new job.

    All steps run again. The output stays in the tenant's workspace. The
    original job does not change, and can be an archived job.

    Idempotent: the same command shows the same new job. Give another reason for
    another new job.

    With --sealed, the command creates no new job, and ID must be complete. The
    command verifies the history like `lucius job verify`, and runs each --step
    on this machine.

    Exit codes:
    1: with --wait, the new job did not succeed (--mode rerun), or a step is not
       SAME (--mode compare); with --step, a step is not SAME
    2: with --sealed, the bundle is broken or unreadable
    3: with --sealed, the bundle is signed by a key that you have not named,
       or not signed although you named a key
    """
    if sealed:
        if bundle is None:
            raise UsageError("--sealed needs --bundle FILE")
        _show_sealed(session, replay_sealed(job, bundle, steps=step or (), artifacts=artifacts, keys=key or ()))
        return
    if bundle or step or artifacts or key:
        raise UsageError("--bundle, --step, --artifacts and --key need --sealed")
    if reason is None:
        raise UsageError("--reason is missing; give a reason, for example --reason 'a new engine'")
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
    """Compare the steps of a replay with the original job.

    ID is the id of the replay. The exit code is 1 if a step is not SAME.
    """
    _show_comparison(session, job)


def _show_sealed(session: Session, found: Sealed) -> None:
    if session.for_people:
        rendering.write(found.report.to_text())
        if found.steps:
            rendering.write(_VERDICTS[found.deterministic])
    if found.steps or not session.for_people:
        document = {"deterministic": found.deterministic, "steps": found.steps, "report": found.report.to_json()}
        session.show(COMPARED, found.steps, document)
    raise typer.Exit(found.report.verdict or (Exit.NOT_WELL if found.steps and not found.deterministic else Exit.OK))


def _show_comparison(session: Session, job_id: str) -> None:
    found = session.client.comparison(job_id)
    if session.for_people:
        rendering.write(f"{job_id} replays {found.replay_of}: {_VERDICTS[found.deterministic]}")
    session.show(COMPARED, [each.plain() for each in found.steps], found.plain())
    if found.deterministic is not True:
        raise typer.Exit(Exit.NOT_WELL)
