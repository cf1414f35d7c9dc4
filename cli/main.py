"""`lucius`: submit documents, watch jobs, control them. Speaks HTTP only, beside the upload of documents."""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from cli import rendering
from cli.answers import show_answers
from cli.api import DEFAULT_URL, Api, Json
from cli.board import Board, follow
from cli.documents import Documents
from cli.envelope import envelope, payload_for
from cli.exits import CliError, Exit, UsageError
from cli.labels import unique_labels
from cli.rendering import Form

app = typer.Typer(
    help="Submit documents to LUCIUS and watch what becomes of them.",
    epilog="Exit codes: 0 done, 1 a watched job failed, 2 wrong usage, 3 the API refused, "
    "4 the API or the blob store does not answer, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
job_app = typer.Typer(help="One job: show, events, explain, cancel, pause, resume.", no_args_is_help=True)
app.add_typer(job_app, name="job")

ApiOption = Annotated[str, typer.Option("--api", envvar="LUCIUS_API", metavar="URL", help="The HTTP API.")]
FormOption = Annotated[Form, typer.Option("--output", "-o", help="For people, for programs, for pipes.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="A job's id.")]
Reason = Annotated[str | None, typer.Option(help="Kept on the job's history.")]


@app.command()
def submit(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files to upload, or http(s) URIs.")],
    protocol: Annotated[str, typer.Option("--protocol", "-p", metavar="REQUEST_TYPE", help="See `lucius protocols`.")],
    tenant: Annotated[str, typer.Option(envvar="LUCIUS_TENANT", help="Whose jobs these are.")] = "demo",
    payload: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE", help="The steps' parameters, one key a step.")
    ] = None,
    ask: Annotated[list[str] | None, typer.Option(metavar="QUESTION", help="For SIS; may be repeated.")] = None,
    again: Annotated[bool, typer.Option("--again", help="A new job even where the same request is known.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show progress until the jobs end.")] = False,
    api: ApiOption = DEFAULT_URL,
    output: FormOption = Form.TABLE,
) -> None:
    """Upload FILEs (to LUCIUS_BLOB_CONNECTION, else Azurite on this machine) and submit a job for each."""
    client, documents = Api(api), Documents()
    missing = [name for name in files if not _is_uri(name) and not Path(name).is_file()]
    if missing:
        raise UsageError(f"no such file: {', '.join(missing)}")
    definition = client.protocol(protocol)
    parameters = payload_for(definition, payload, ask or [])
    accepted: list[Json] = []
    for name in files:
        uri = name if _is_uri(name) else documents.upload(Path(name))
        key = str(uuid.uuid4()) if again else None
        job, known = client.submit(envelope(tenant, definition, uri, documents.results_uri, parameters, key))
        accepted.append({**job, "document": name, "known": known})
        if known:
            print(f"{name}: this request is known; --again makes a new job of it", file=sys.stderr)
    if not watch:
        columns: rendering.Columns = [
            ("job", rendering.field("jobId")),
            ("document", rendering.field("document")),
            ("status", rendering.field("status")),
        ]
        rendering.show(output, accepted, columns, _job_id, accepted)
        return
    # progress goes to stderr where the answer on stdout is for a program
    with Board(rendering.console() if output is Form.TABLE else Console(stderr=True)) as board:
        active = {label: _job_id(job) for label, job in zip(unique_labels(files), accepted, strict=True)}
        ended = follow(client, board, active)
    jobs = list(ended.values())
    if output is Form.TABLE:
        for label, job in ended.items():
            show_answers(rendering.console(), label, job, documents)
    else:
        rendering.show(output, jobs, rendering.JOBS, _job_id, jobs)
    if any(job["status"] != "SUCCEEDED" for job in jobs):
        raise typer.Exit(Exit.JOB_FAILED)


@app.command()
def jobs(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    status: Annotated[str | None, typer.Option(help="Only jobs in this status, for example FAILED_FINAL.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many, the newest.")] = 50,
    api: ApiOption = DEFAULT_URL,
    output: FormOption = Form.TABLE,
) -> None:
    """List jobs, newest first."""
    found = Api(api).jobs(tenant, status.upper() if status else None, limit)
    rendering.show(output, found, rendering.JOBS, _job_id, found)


@app.command()
def protocols(api: ApiOption = DEFAULT_URL, output: FormOption = Form.TABLE) -> None:
    """List what can be asked for."""
    found = Api(api).protocols()
    rendering.show(output, found, rendering.PROTOCOLS, lambda protocol: str(protocol["request_type"]), found)


@job_app.command("show")
def show(job_id: JobId, api: ApiOption = DEFAULT_URL, output: FormOption = Form.TABLE) -> None:
    """One job with its steps."""
    _show_job(Api(api).job(job_id), output)


@job_app.command()
def events(job_id: JobId, api: ApiOption = DEFAULT_URL, output: FormOption = Form.TABLE) -> None:
    """All that happened to a job, in order."""
    found = Api(api).events(job_id)
    rendering.show(output, found, rendering.EVENTS, lambda event: str(event["eventId"]), found)


@job_app.command()
def explain(job_id: JobId, api: ApiOption = DEFAULT_URL, output: FormOption = Form.TABLE) -> None:
    """Why a job is where it is: what it waits for, until when, and what happens then."""
    told = Api(api).explain(job_id)
    if output is Form.TABLE:
        print(told["text"])
    else:
        rendering.show(output, [told], [], lambda each: str(each["jobId"]), told)


@job_app.command()
def cancel(job_id: JobId, reason: Reason = None, api: ApiOption = DEFAULT_URL, output: FormOption = Form.TABLE) -> None:
    """End a job; what is in flight is waited for."""
    _show_job(Api(api).control(job_id, "cancel", reason), output)


@job_app.command()
def pause(job_id: JobId, reason: Reason = None, api: ApiOption = DEFAULT_URL, output: FormOption = Form.TABLE) -> None:
    """Let nothing new start; what is in flight is waited for."""
    _show_job(Api(api).control(job_id, "pause", reason), output)


@job_app.command()
def resume(job_id: JobId, reason: Reason = None, api: ApiOption = DEFAULT_URL, output: FormOption = Form.TABLE) -> None:
    """Let a paused job go on."""
    _show_job(Api(api).control(job_id, "resume", reason), output)


def main() -> None:
    """Runs the command; every error is a line on stderr and an exit code, never a stack trace."""
    try:
        app()
    except CliError as error:
        print(f"lucius: {error}", file=sys.stderr)
        sys.exit(error.exit)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:  # `lucius jobs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.OK)


def _show_job(job: Json, output: Form) -> None:
    if output is Form.TABLE:
        screen = rendering.console()
        for name in ("jobId", "tenant_id", "request_type", "status", "created_at", "completed_at"):
            screen.print(f"{name:<14}", rendering.field(name)(job))
        for name in ("error_code", "error_message", "final_output"):
            if job.get(name):
                screen.print(f"{name:<14}", rendering.field(name)(job))
        screen.print(Text())
        screen.print(rendering.table(job["steps"], rendering.STEPS))
    else:
        rendering.show(output, [job], rendering.JOBS, _job_id, job)


def _job_id(job: Json) -> str:
    return str(job["jobId"])


def _is_uri(name: str) -> bool:
    return name.startswith(("http://", "https://"))
