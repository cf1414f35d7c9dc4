"""`lucius job`: lists, reads and controls jobs."""

from __future__ import annotations

import difflib
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lucius_client.cli import completion, ids, rendering
from lucius_client.cli.audit import verify_job
from lucius_client.cli.commands import add
from lucius_client.cli.exits import Exit, UsageError
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.job_controls import admit, cancel, dismiss, pause, priority, redrive, resume
from lucius_client.cli.job_page import in_one_sentence, show_job, show_transitions
from lucius_client.cli.job_tables import EVENTS, FAILED, JOBS, RELATED, TIMES
from lucius_client.cli.options import JobId, JobIds, JobType, Label, Limit, Since, Tenant, Until
from lucius_client.cli.rendering import Json, OutputFormat
from lucius_client.cli.replays import comparison, replay
from lucius_client.cli.results import json_content, open_result, print_result, save_result
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.submit import follow_all
from lucius_client.series import TERMINAL

#: value of --out for stdout
STDOUT = Path("-")
Out = Annotated[Path | None, typer.Option(metavar="FILE", help="File to write, instead of printing. `-` is stdout.")]

job_app = typer.Typer(
    help="List, show, watch, explain, cancel and redrive jobs.",
    no_args_is_help=True,
)


@with_session
def jobs(
    session: Session,
    tenant: Tenant = None,
    status: Annotated[
        str | None, typer.Option(help="Only jobs in these states, separated by commas, such as FAILED_FINAL,CANCELLED.")
    ] = None,
    type_: JobType = None,
    label: Label = None,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only jobs of this idempotency key, at most one for each tenant.")
    ] = None,
    correlation_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Only jobs with this correlation id.")
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="List only archived jobs. Default: only jobs that are not archived.")
    ] = False,
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
        idempotency_key=idempotency_key,
        correlation_id=correlation_id,
        archived=archived or None,
        since=instant_ago("--since", since),
        until=instant_ago("--until", until),
        limit=limit,
    )
    session.show(JOBS, [job.plain() for job in items])


@with_session
def show(
    session: Session,
    job: JobId,
    as_of: Annotated[
        int | None,
        typer.Option("--as-of", min=1, metavar="SEQ", help="Show the job's state after the event with this number."),
    ] = None,
) -> None:
    """Show a job with its steps."""
    show_job(session, session.client.job(job, as_of=as_of).plain())


class WatchUntil(StrEnum):
    ENDED = "ended"
    ADMITTED = "admitted"


@with_session
def watch(
    session: Session,
    jobs: JobIds,
    until: Annotated[
        WatchUntil, typer.Option(help="Wait until the jobs have ended, or until the quotas have admitted the jobs.")
    ] = WatchUntil.ENDED,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show the ended jobs without progress.")] = False,
) -> None:
    """Show progress until the jobs have ended.

    The exit code is 1 if a job failed or was cancelled.
    """
    client = session.connect(WATCH_RETRIES)
    if until is WatchUntil.ADMITTED:
        found = [client.wait_admitted(job).plain() for job in jobs]
        session.show(JOBS, found)
        if any(job["status"] in FAILED for job in found):
            raise typer.Exit(Exit.NOT_WELL)
        return
    if quiet:
        ended = [client.wait(job).plain() for job in jobs]
    else:
        ended = list(follow_all(session, {job: job for job in jobs}).values())
    session.show(JOBS, ended)
    if any(job["status"] != "SUCCEEDED" for job in ended):
        raise typer.Exit(Exit.NOT_WELL)


@with_session
def events(session: Session, job: JobId) -> None:
    """List the events of a job, in order."""
    items = [event.plain() for event in session.client.events(job)]
    session.show(EVENTS, items)


@with_session
def explain(
    session: Session,
    job: JobId,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Add the last transition and the possible next events.")
    ] = False,
) -> None:
    """Explain a job's state in one sentence."""
    explanation = session.client.explain(job).plain()
    if session.for_people:
        ended = session.client.job(job).plain() if explanation["status"] in TERMINAL else None
        rendering.write(in_one_sentence(explanation, ended))
        if verbose:
            show_transitions(explanation)
    else:
        session.show(JOBS, [explanation], explanation)


@with_session
def dependencies(
    session: Session,
    job: JobId,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of dependants.")] = 100,
) -> None:
    """List a job's dependencies and dependants, with their states.

    The list of a succeeded job omits the jobs that waited for its success.
    """
    before = [{"it": "depends on", **each.plain()} for each in session.client.dependencies(job)]
    after = [{"it": "is a dependency of", **each.plain()} for each in session.client.dependants(job, limit=limit)]
    session.show(RELATED, [*before, *after], {"dependencies": before, "dependants": after})


@with_session
def receipt(session: Session, job: JobId) -> None:
    """Show a job's time by phase.

    The phases are queue, ACK, service, backoff, backlog, quotas, dependencies
    and pauses.
    """
    times = session.client.receipt(job).plain()
    session.show(TIMES, [*times["steps"], {"stepId": "total", **times["total"]}], times)


@with_session
def audit(
    session: Session,
    job: JobId,
    out: Out = None,
) -> None:
    """Print a job's audit bundle.

    `lucius audit verify` verifies the bundle without the API.
    """
    bundle = session.client.audit(job)
    if out in (None, STDOUT):
        rendering.write_json(bundle)
        return
    try:
        out.write_text(rendering.json_text(bundle) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}; name another file with --out") from error


@with_session
def result(
    session: Session,
    job: JobId,
    out: Out = None,
) -> None:
    """Print the result of a job that succeeded.

    The command reads a result in the account of LUCIUS_BLOB_CONNECTION with this
    connection string. The command reads other results with Azurite's key on this
    machine, or with your own credential, for example of `az login`.

    A pipe gets the unchanged content. A terminal gets a readable form. -o json
    prints the job id, the URI, the media type, the size and the end of the
    retention. Without --out, -o json also prints the content of a JSON result of
    at most 64 MiB as `content`.
    """
    if out == STDOUT and not session.for_people:
        raise UsageError(f"--out - and -o {session.output.value} both write to stdout; omit one option")
    known = session.client.job(job)
    found = open_result(known)
    if out not in (None, STDOUT):
        save_result(found, out)
    elif session.for_people:
        print_result(found)
    if not session.for_people:
        facts = {"jobId": known.jobId, "uri": found.uri, "media_type": found.media_type, "size": found.size}
        facts["final_output_expires_at"] = known.plain().get("final_output_expires_at")
        if out is None and session.output is OutputFormat.JSON:
            facts["content"] = json_content(found)[0]
        session.show(JOBS, [facts], facts)


@with_session
def diff(
    session: Session,
    first: Annotated[
        str,
        typer.Argument(
            metavar="A", help="Id of a job, or the id's first characters.", autocompletion=completion.job_ids
        ),
        ids.JOB,
    ],
    second: Annotated[
        str,
        typer.Argument(
            metavar="B", help="Id of another job, or the id's first characters.", autocompletion=completion.job_ids
        ),
        ids.JOB,
    ],
) -> None:
    """Compare the events of two jobs.

    `-` marks an event of A only, `+` an event of B only.

    The exit code is 1 if the events differ.
    """
    streams = [[event.plain() for event in session.client.events(job)] for job in (first, second)]
    a, b = ([_event_line(event) for event in stream] for stream in streams)
    lines = list(difflib.unified_diff(a, b, first, second, lineterm="", n=len(a) + len(b)))
    if session.for_people:
        screen = rendering.console()
        for line in lines[3:] or [f" {each}" for each in a]:
            screen.print(Text(line, style={"-": "red", "+": "green"}.get(line[:1], "")), soft_wrap=True)
    else:
        comparison = {"a": first, "b": second, "same": not lines, "lines": lines[3:]}
        session.show(JOBS, [{"jobId": first}, {"jobId": second}], comparison)
    if lines:
        raise typer.Exit(Exit.NOT_WELL)


add(
    job_app,
    "list",
    jobs,
    "lucius job list --status failed_final --since 2h",
    "lucius job list --label batch:one -o ids",
)
add(job_app, "show", show, "lucius job show job_bf466207", "lucius job show job_bf466207 -o json")
add(job_app, "watch", watch, "lucius job watch job_bf466207", "lucius job watch job_bf466207 --until admitted")
add(
    job_app,
    "result",
    result,
    "lucius job result job_bf466207",
    "lucius job result job_bf466207 --out result.json",
)
add(job_app, "events", events, "lucius job events job_bf466207", "lucius job events job_bf466207 -o wide")
add(job_app, "explain", explain, "lucius job explain job_bf466207", "lucius job explain job_bf466207 --verbose")
add(job_app, "cancel", cancel, "lucius job cancel job_bf466207 --reason 'wrong document'")
add(job_app, "pause", pause, "lucius job pause job_bf466207 --reason 'maintenance window'")
add(job_app, "resume", resume, "lucius job resume job_bf466207")
add(job_app, "admit", admit, "lucius job admit job_bf466207 --reason 'customer on the phone'")
add(job_app, "priority", priority, "lucius job priority job_bf466207 high --reason 'due today'")
add(
    job_app,
    "redrive",
    redrive,
    "lucius job redrive job_bf466207 --reason 'the service is repaired'",
    "lucius job redrive job_bf466207 --with-dependants --wait",
)
add(
    job_app,
    "replay",
    replay,
    "lucius job replay job_bf466207 --reason 'a new engine'",
    "lucius job replay job_bf466207 --reason 'a new engine' --mode compare --wait",
)
add(job_app, "comparison", comparison, "lucius job comparison job_f9dd41c0")
add(job_app, "dismiss", dismiss, "lucius job dismiss job_bf466207 --reason 'sent again by the customer'")
add(job_app, "dependencies", dependencies, "lucius job dependencies job_bf466207")
add(job_app, "receipt", receipt, "lucius job receipt job_bf466207")
add(job_app, "audit", audit, "lucius job audit job_bf466207 --out bundle.json")
add(job_app, "verify", verify_job, "lucius job verify --bundle acme.tar.gz --job-id job_bf466207")
add(job_app, "diff", diff, "lucius job diff job_bf466207 job_f9dd41c0")


def _event_line(event: Json) -> str:
    """Formats an event as a line without its time and ids, which differ between any two jobs."""
    step = f"{event['stepId']}#{event['attempt_no']}" if event.get("stepId") else "job"
    transitions = [
        f"{event[before]} > {event[after]}"
        for before, after in (("from_status", "to_status"), ("job_from", "job_to"))
        if event.get(after) and event.get(before) != event.get(after)
    ]
    return f"{event['type']:<20} {step:<16} {', job '.join(transitions)}".rstrip()
