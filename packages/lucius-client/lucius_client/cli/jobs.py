"""`lucius jobs` and `lucius job`: lists, reads and controls jobs."""

from __future__ import annotations

import difflib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lucius_client.cli import rendering
from lucius_client.cli.bulk import finish
from lucius_client.cli.exits import Exit, UsageError
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.rendering import Columns, Json, field, job_id
from lucius_client.cli.results import open_result, print_result, save_result
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.submit import follow_all

JobId = Annotated[str, typer.Argument(metavar="ID", help="A job's id.")]
Reason = Annotated[str | None, typer.Option(help="A text for the job's history.")]
Tenant = Annotated[str | None, typer.Option(envvar="LUCIUS_TENANT", help="Only of this tenant.")]
RequestType = Annotated[str | None, typer.Option("--type", metavar="REQUEST_TYPE", help="Only of this protocol.")]
Label = Annotated[str | None, typer.Option(metavar="KEY:VALUE", help="Only with this label.")]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Created at or after 2026-01-27T10:00:00Z, or 90m, 2h, 3d ago.")
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Created before this time.")]
Limit = Annotated[int, typer.Option(min=1, help="The maximum number; the newest come first.")]

RELATED: Columns = [
    ("it", field("it")),
    ("job", field("jobId")),
    ("status", field("status")),
    ("error", field("error_code")),
    ("redriven by", field("redriven_by")),
]

job_app = typer.Typer(
    help="One job: show, watch, result, events, explain, cancel, pause, resume, admit, priority, redrive, dismiss, "
    "dependencies, receipt, audit, diff.",
    no_args_is_help=True,
)


@with_session
def jobs(
    session: Session,
    tenant: Tenant = None,
    status: Annotated[
        str | None, typer.Option(help="One or more, separated by commas: FAILED_FINAL,CANCELLED.")
    ] = None,
    type_: RequestType = None,
    label: Label = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> None:
    """List jobs, newest first."""
    items = session.client.jobs(
        tenant_id=tenant,
        status=status.upper() if status else None,
        request_type=type_,
        label=label,
        since=instant_ago("--since", since),
        until=instant_ago("--until", until),
        limit=limit,
    )
    session.show([job.plain() for job in items], rendering.JOBS, job_id)


@with_session
def show(
    session: Session,
    job: JobId,
    as_of: Annotated[
        int | None, typer.Option("--as-of", min=1, metavar="SEQ", help="The job as it was after this event.")
    ] = None,
) -> None:
    """Show a job with its steps."""
    _show(session, session.client.job(job, as_of=as_of).plain())


class WatchUntil(StrEnum):
    ENDED = "ended"
    ADMITTED = "admitted"


@with_session
def watch(
    session: Session,
    jobs: Annotated[list[str], typer.Argument(metavar="ID...")],
    until: Annotated[
        WatchUntil, typer.Option(help="admitted: only until their gates have let them in.")
    ] = WatchUntil.ENDED,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, only the jobs at the end.")] = False,
) -> None:
    """Show progress until the jobs have ended."""
    client = session.connect(WATCH_RETRIES)
    if until is WatchUntil.ADMITTED:
        found = [client.wait_admitted(job).plain() for job in jobs]
        session.show(found, rendering.JOBS, job_id)
        if any(job["status"] in ("FAILED_FINAL", "CANCELLED") for job in found):
            raise typer.Exit(Exit.NOT_WELL)
        return
    if quiet:
        ended = [client.wait(job).plain() for job in jobs]
    else:
        ended = list(follow_all(session, {job: job for job in jobs}).values())
    session.show(ended, rendering.JOBS, job_id)
    if any(job["status"] != "SUCCEEDED" for job in ended):
        raise typer.Exit(Exit.NOT_WELL)


@with_session
def events(session: Session, job: JobId) -> None:
    """List the events of a job, in order."""
    items = [event.plain() for event in session.client.events(job)]
    session.show(items, rendering.EVENTS, lambda event: str(event["eventId"]))


@with_session
def explain(session: Session, job: JobId) -> None:
    """Explain the state of a job: what it waits for, until when, and what happens then."""
    explanation = session.client.explain(job).plain()
    if session.for_people:
        rendering.write(explanation["text"])
    else:
        session.show([explanation], [], job_id, explanation)


@with_session
def cancel(session: Session, job: JobId, reason: Reason = None) -> None:
    """End a job; attempts in flight are waited for."""
    _show(session, session.client.cancel(job, reason=reason).plain())


@with_session
def pause(session: Session, job: JobId, reason: Reason = None) -> None:
    """Start no further attempt of a job; attempts in flight are waited for."""
    _show(session, session.client.pause(job, reason=reason).plain())


@with_session
def resume(session: Session, job: JobId, reason: Reason = None) -> None:
    """Continue a paused job."""
    _show(session, session.client.resume(job, reason=reason).plain())


@with_session
def admit(
    session: Session, job: JobId, reason: Annotated[str, typer.Option(help="A text for the log of the tenant's gate.")]
) -> None:
    """Let a job that waits go past its gates, once; for operators."""
    _show(session, session.client.admit(job, reason=reason).plain())


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    EMERGENCY = "emergency"


@with_session
def priority(
    session: Session,
    job: JobId,
    priority: Annotated[Priority, typer.Argument(help="The new priority.")],
    reason: Annotated[str, typer.Option(help="A text for the job's history.")],
) -> None:
    """Give a job that waits another priority, and so another place in line."""
    _show(session, session.client.set_priority(job, priority.value, reason=reason).plain())


@with_session
def redrive(
    session: Session,
    job: JobId,
    reason: Reason = None,
    ignore_dependencies: Annotated[
        bool, typer.Option("--ignore-dependencies", help="Begin at once, whatever became of the jobs before it.")
    ] = False,
    with_dependants: Annotated[
        bool, typer.Option("--with-dependants", help="Then also every job that failed because of it, as a bulk.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="With --with-dependants: until all are taken up.")] = False,
) -> None:
    """Take a failed or cancelled job up again: create and print a new job that starts at the failed step."""
    if with_dependants:
        if ignore_dependencies:
            raise UsageError("--with-dependants and --ignore-dependencies exclude each other")
        finish(session, session.client.redrive_tree(job, reason=reason), wait=wait)
        return
    again = session.client.redrive(job, reason=reason, ignore_dependencies=ignore_dependencies)
    _show(session, again.plain())


@with_session
def dependencies(session: Session, job: JobId, limit: Limit = 100) -> None:
    """List the jobs that a job depends on, and those that depend on it, with their states."""
    before = [{"it": "waits for", **each.plain()} for each in session.client.dependencies(job)]
    after = [{"it": "is waited for by", **each.plain()} for each in session.client.dependants(job, limit=limit)]
    session.show([*before, *after], RELATED, job_id, {"dependencies": before, "dependants": after})


@with_session
def dismiss(
    session: Session, job: JobId, reason: Annotated[str, typer.Option(help="A text for the incident's log.")]
) -> None:
    """Put a dead letter aside, with its incident if one is open; the job stays as it is and can be redriven."""
    _show(session, session.client.dismiss_dead_letter(job, reason=reason).plain())


@with_session
def receipt(session: Session, job: JobId) -> None:
    """Show how the time of a job is divided between queue, ACK, service, backoff, backlog and pauses."""
    times = session.client.receipt(job).plain()
    session.show([*times["steps"], {"stepId": "total", **times["total"]}], rendering.SPENT, lambda _: job, times)


@with_session
def audit(
    session: Session,
    job: JobId,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file instead of printing.")] = None,
) -> None:
    """Print the whole history of a job as one document, which `lucius audit verify` proves without the API."""
    bundle = session.client.audit(job)
    if out is None:
        rendering.write_json(bundle)
        return
    try:
        out.write_text(rendering.json_text(bundle) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from error


@with_session
def result(
    session: Session,
    job: JobId,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to this file instead of printing.")] = None,
) -> None:
    """Print the result of a job that succeeded, read with your own credential (on a laptop Azurite's).

    With -o json it prints where the result is and what it is; the content goes to --out only.
    """
    known = session.client.job(job)
    found = open_result(known)
    if out is not None:
        save_result(found, out)
    elif session.for_people:
        print_result(found)
    if not session.for_people:
        facts = {"jobId": job, "uri": found.uri, "media_type": found.media_type, "size": found.size}
        expires = known.plain().get("final_output_expires_at")
        session.show([facts], [], job_id, facts | {"final_output_expires_at": expires})


@with_session
def diff(
    session: Session,
    first: Annotated[str, typer.Argument(metavar="A", help="A job's id.")],
    second: Annotated[str, typer.Argument(metavar="B", help="The id of another job.")],
) -> None:
    """Compare the events of two jobs: - is in A only, + in B only. Exit code 1 where they differ."""
    streams = [[event.plain() for event in session.client.events(job)] for job in (first, second)]
    a, b = ([_event_line(event) for event in stream] for stream in streams)
    lines = list(difflib.unified_diff(a, b, first, second, lineterm="", n=len(a) + len(b)))
    if session.for_people:
        screen = rendering.console()
        for line in lines[3:] or [f" {each}" for each in a]:
            screen.print(Text(line, style={"-": "red", "+": "green"}.get(line[:1], "")), soft_wrap=True)
    else:
        comparison = {"a": first, "b": second, "same": not lines, "lines": lines[3:]}
        session.show([{"jobId": first}, {"jobId": second}], [], job_id, comparison)
    if lines:
        raise typer.Exit(Exit.NOT_WELL)


for command in (
    *(show, watch, result, events, explain, cancel, pause, resume, admit, priority, redrive),
    *(dismiss, dependencies, receipt, audit, diff),
):
    job_app.command()(command)


def _event_line(event: Json) -> str:
    """An event as a line, without its time and its ids, which differ between any two jobs."""
    step = f"{event['stepId']}#{event['attempt_no']}" if event.get("stepId") else "job"
    transitions = [
        f"{event[before]} > {event[after]}"
        for before, after in (("from_status", "to_status"), ("job_from", "job_to"))
        if event.get(after) and event.get(before) != event.get(after)
    ]
    return f"{event['type']:<20} {step:<16} {', job '.join(transitions)}".rstrip()


def _show(session: Session, job: Json) -> None:
    if not session.for_people:
        session.show([job], rendering.JOBS, job_id, job)
        return
    screen = rendering.console()
    for name in ("jobId", "tenant_id", "request_type", "status", "created_at", "completed_at"):
        screen.print(f"{name:<14}", rendering.field(name)(job))
    for name in ("error_code", "error_message", "final_output", "final_output_expires_at", "redrive_of", "redriven_by"):
        if job.get(name):
            screen.print(f"{name:<14}", rendering.field(name)(job))
    screen.print(Text())
    screen.print(rendering.table(job["steps"], rendering.STEPS))
    if artifacts := rendering.artifacts(job["steps"]):
        screen.print(Text())
        screen.print(rendering.table(artifacts, rendering.ARTIFACTS))
