"""`lucius submit`: creates jobs from documents or from job requests."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from lucius_client import LuciusError, Refused
from lucius_client.cli import completion, rendering, sources
from lucius_client.cli.board import Board, follow
from lucius_client.cli.envelope import envelope, payload_for
from lucius_client.cli.exits import NAME_A_TENANT, CliError, Exit, UsageError, cli_error, problem_text
from lucius_client.cli.job_page import at_a_quota, outcome
from lucius_client.cli.job_tables import FAILED, JOBS, job_id
from lucius_client.cli.options import LoginTenant
from lucius_client.cli.protocols import find_version
from lucius_client.cli.rendering import Json
from lucius_client.cli.results import open_result, print_result, show_result
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.tables import Column, Listing, status
from lucius_client.models import Job
from lucius_client.series import LONG_POLL_S

if TYPE_CHECKING:  # imported late: the blob SDK takes longer than most commands
    from lucius_client.cli.documents import Documents

SUBMITTED = Listing(
    "jobs",
    "jobId",
    (
        Column("job", "jobId"),
        Column("document", "document", room=8, drop=2, keeps_end=True),
        Column("status", status(), drop=1),
    ),
)
#: fields that LUCIUS does not compare with the first request, with their names for people
_FIRST_STAYS = {"labels": "labels", "callback_urls": "callback URLs"}
#: maximum skipped files that are named
_NAMED = 5


def _waits_for(job: Json) -> str:
    """Returns the quota that stops the job, without words that each line of the table would begin with."""
    return (at_a_quota(job) or job.get("gate") or "").removeprefix("the quota of ")


_WAITS_FOR = Column("waits for", _waits_for, room=20, drop=3)
CHECKED = Listing(
    "documents",
    lambda result: str(result["idempotency"].get("jobId") or ""),
    (
        Column("document", "document", room=10, keeps_end=True),
        Column("tenant", "tenant", room=8, drop=3),
        Column("verdict", lambda result: result["idempotency"]["verdict"]),
        Column("job", lambda result: result["idempotency"].get("jobId"), drop=4),
        Column("limits", lambda result: (result.get("quota") or {}).get("verdict"), drop=1),
        Column("topic", lambda result: result["route"]["topic"], room=8, drop=5),
        Column("steps", lambda result: " > ".join(each["stepId"] for each in result["directives"]), room=8, drop=2),
    ),
)


@with_session
def submit(
    session: Session,
    documents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE|FOLDER|PATTERN|URI]...",
            help="Documents to submit. The command uploads files, but not http(s) URIs.",
        ),
    ] = None,
    protocol: Annotated[
        str | None,
        typer.Option(
            "--protocol",
            "-p",
            metavar="REQUEST_TYPE[@VERSION]",
            help="Job type, as `lucius protocol list` shows. Default version: selected by the API.",
            autocompletion=completion.protocols,
        ),
    ] = None,
    tenant: LoginTenant = None,
    payload: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE",
            help="Parameters of the steps: a JSON object with a key for each step. With one step, the key is optional.",
        ),
    ] = None,
    ask: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUESTION", help="Question for SIS steps, instead of `prompt_set` in --payload; repeatable."
        ),
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY:VALUE", help="Label of the jobs; repeatable.")] = None,
    callback: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="Send the event that ends a job to this https URL; repeatable."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="JOB",
            help="Job that must succeed first: its id, or `key:` and its idempotency key. Repeatable, at most 50.",
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN", help="Pattern of file names to submit from folders, such as '*.pdf'; repeatable."
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Create a new job even if the same request was submitted before. For documents only."
        ),
    ] = False,
    ndjson: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with a job request in each line, instead of documents. `-` is stdin."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the effect. Write and upload nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Show progress until the jobs end.")] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait until the jobs end, and print their results like `lucius job result`. With -o json or -o ids, "
            "print the jobs. Add --watch to show progress.",
        ),
    ] = False,
) -> None:
    """Upload documents and submit a job for each.

    The command uploads documents to the blob account LUCIUS_BLOB_CONNECTION,
    into the tenant's folder of the container `documents`. Default: Azurite on
    this machine. The command skips files of a folder that the protocol cannot
    read.

    Idempotent: the same request returns the same job. Use --again to create
    another job.

    With --watch or --wait, the exit code is 1 if a job failed or was cancelled.
    Without these options, the exit code is 1 if the job of an earlier request
    for a document failed or was cancelled.
    """
    if bool(documents) == bool(ndjson):
        raise UsageError("name either documents to submit, or a file of job requests with --ndjson FILE")
    if dry_run and (watch or wait):
        raise UsageError("--dry-run creates no job; omit --watch and --wait")
    members: Json = {}
    if label:
        members["labels"] = dict(_label(each) for each in label)
    if callback:
        members["callback_urls"] = dict(_callback(each) for each in callback)
    if tenant is None:
        raise UsageError(NAME_A_TENANT)
    if ndjson:
        given = {"--payload": payload, "--ask": ask, "--after": after, "--include": include, "--again": again}
        if ignored := ", ".join(option for option, value in given.items() if value):
            raise UsageError(
                f"with --ndjson, options for documents have no effect: {ignored}; "
                "set payload, dependencies and idempotency_key in the job requests"
            )
        _submit_lines(session, ndjson, tenant, protocol, members, dry_run=dry_run, watch=watch, wait=wait)
        return
    if protocol is None:
        raise UsageError("--protocol must name a protocol; see `lucius protocol list`")
    selection = sources.documents(documents or [], include or ())
    store = _store(tenant)
    definition, version = find_version(session, protocol)
    if version is not None:
        members["protocol_version"] = version
    names = _readable(selection, definition)
    parameters = payload_for(definition, payload, ask or [])

    def body(name: str, uri: str) -> Json:
        key = str(uuid.uuid4()) if again else None
        made = envelope(tenant, definition, uri, store.results_uri, parameters, key) | members
        return {**made, "dependencies": after} if after else made

    if dry_run:
        checked, refused = _for_each(
            names, lambda name: _check(session, body(name, _planned_uri(store, name)), name), session.api
        )
        session.show(CHECKED, checked)
    else:
        # several jobs are submitted one after another, and awaited afterwards
        held = wait and not watch and len(names) == 1
        accepted, refused = _for_each(
            names, lambda name: _submit(session, body(name, _uri(store, name)), name, wait=held), session.api
        )
        _finish(session, accepted, store, watch=watch, wait=wait)
    if refused:
        raise typer.Exit(Exit.REFUSED)


def _readable(selection: sources.Selection, protocol: Json) -> list[str]:
    """Returns the documents to submit. Prints a line on stderr for files of folders that the protocol does not read."""
    names, skipped = selection.readable(protocol["steps"][0]["step_type"] if protocol["steps"] else "")
    if skipped:
        first = ", ".join(sources.unique_labels(skipped[:_NAMED]))
        more = f" and {len(skipped) - _NAMED} more" if len(skipped) > _NAMED else ""
        what = f"skipped {len(skipped)} file{'s' * (len(skipped) > 1)} that {protocol['request_type']} cannot read"
        rendering.write(f"{what}: {first}{more}; --include PATTERN includes skipped files", stderr=True)
    return names


def _store(tenant: str) -> Documents:
    from lucius_client.cli.documents import Documents

    return Documents(tenant=tenant)


def _for_each(names: list[str], act: Callable[[str], Json], api: str) -> tuple[list[Json], bool]:
    """Returns the results of `act` for each name, and True if a name was refused.

    Prints the error for a refused name, and continues with the other names. Raises the error for a single name.
    """
    done: list[Json] = []
    refused = False
    for name in names:
        try:
            done.append(act(name))
        except Refused as error:
            if len(names) == 1:
                raise
            refused = True
            rendering.write(f"lucius: {name}: {cli_error(error, api)}", stderr=True)
    return done, refused


def _submit(session: Session, body: Json, name: str, *, wait: bool) -> Json:
    """Returns the accepted job. With `wait`, `ended` is the job if the job ends within `LONG_POLL_S` seconds."""
    client = session.connect(WATCH_RETRIES) if wait else session.client
    submitted = client.submit(body, wait=LONG_POLL_S if wait else 0)
    if submitted.replayed:
        known = submitted.job.jobId
        failed = submitted.job.status in FAILED
        hint = (
            f"after a repair of the cause, run `lucius job redrive {known}`, or use --again"
            if failed
            else "--again creates a new job"
        )
        found = outcome(client.job(known).plain()) if failed else submitted.job.status
        given = " and ".join(text for member, text in _FIRST_STAYS.items() if body.get(member))
        kept = f"; the job keeps the {given} of its first request" if given else ""
        rendering.write(f"{name}: already submitted as {known} ({found}){kept}; {hint}", stderr=True)
    accepted = {**submitted.job.plain(), "document": name, "known": submitted.replayed}
    return accepted if submitted.ended is None else accepted | {"ended": submitted.ended.plain()}


def _check(session: Session, body: Json, name: str) -> Json:
    return {**session.client.dry_run(body).plain(), "document": name}


def _uri(store: Documents, name: str) -> str:
    return name if sources.is_uri(name) else store.upload(Path(name))


def _planned_uri(store: Documents, name: str) -> str:
    return name if sources.is_uri(name) else store.uri_of(Path(name))


def _submit_lines(
    session: Session,
    source: str,
    tenant: str,
    protocol: str | None,
    members: Json,
    *,
    dry_run: bool,
    watch: bool,
    wait: bool,
) -> None:
    """Submits each line of `source`, with its own outcome. Without an idempotency key, the API uses the hash of the
    line's compared fields.
    """
    defaults: Json = {"schema_version": "1.0", "tenant_id": tenant, "idempotency_key": None, "source": "lucius-cli"}
    if protocol:
        definition, version = find_version(session, protocol)
        defaults |= {"request_type": definition["request_type"]} | ({"protocol_version": version} if version else {})
    defaults |= members
    requests = sources.envelopes(source, defaults)
    found = [
        result
        for batch in sources.batches(requests.values())
        for result in session.client.submit_many(batch, dry_run=dry_run).plain()["results"]
    ]
    results = [{**result, "line": number} for number, result in zip(requests, found, strict=True)]
    for result in results:
        if "problem" in result:
            rendering.write(f"lucius: line {result['line']}: {problem_text(result['problem'])}", stderr=True)
    accepted = [result for result in results if "problem" not in result]
    if dry_run:
        checked = [{**result["dryRun"], "document": f"line {result['line']}"} for result in accepted]
        session.show(CHECKED, checked, results)
    elif watch or wait:
        lines = [{**result, "document": f"line {result['line']}"} for result in accepted]
        _finish(session, lines, _store(tenant), watch=watch, wait=wait)
    else:
        rows = [
            {**result, "document": f"line {result['line']}", "status": "known" if result["replayed"] else "new"}
            for result in accepted
        ]
        session.show(SUBMITTED, rows, results)
    if len(accepted) < len(results):
        raise typer.Exit(Exit.REFUSED)


def _finish(session: Session, accepted: list[Json], store: Documents, *, watch: bool, wait: bool) -> None:
    if not (watch or wait) or not accepted:
        waits = any(job.get("gate") for job in accepted)
        session.show(replace(SUBMITTED, columns=(*SUBMITTED.columns, _WAITS_FOR)) if waits else SUBMITTED, accepted)
        if any(job["known"] and job["status"] in FAILED for job in accepted):
            raise typer.Exit(Exit.NOT_WELL)
        return
    labels = sources.unique_labels([job["document"] for job in accepted])
    active = dict(zip(labels, accepted, strict=True))
    screen = rendering.console(stderr=True) if wait else session.progress
    if watch:
        ended = follow_all(session, {label: job_id(job) for label, job in active.items()}, screen)
    else:
        ended = _wait_for_all(session, active, screen)
    jobs = list(ended.values())
    if session.for_people and wait:
        _print_results(session, ended)
    elif session.for_people:
        for label, job in ended.items():
            show_result(rendering.console(), label, job, store)
    else:
        session.show(JOBS, jobs)
    if any(job["status"] != "SUCCEEDED" for job in jobs):
        raise typer.Exit(Exit.NOT_WELL)


def _print_results(session: Session, ended: dict[str, Json]) -> None:
    """Prints the content of each result on stdout, and before each of several results a line on stderr.

    An unreadable result does not stop the other results.
    """
    failures: list[CliError] = []
    for label, job in ended.items():
        if len(ended) > 1:
            rendering.write(f"{label}: {job_id(job)}", stderr=True)
        try:
            print_result(open_result(Job.model_validate(job)))
        except LuciusError as error:
            failures.append(cli_error(error, session.api))
        except CliError as error:
            failures.append(error)
        else:
            continue
        rendering.write(f"lucius: {label}: {failures[-1]}", stderr=True)
    if failures:
        raise typer.Exit(failures[0].exit)


def _wait_for_all(session: Session, active: dict[str, Json], screen: Console) -> dict[str, Json]:
    """Waits for the jobs in `active` one after the other, and shows each ended job. Returns the jobs by label."""
    client, ended = session.connect(WATCH_RETRIES), dict[str, Json]()
    with Board(screen) as board:
        for label, job in active.items():
            ended[label] = job["ended"] if "ended" in job else client.wait(job_id(job)).plain()
            board.show(label, ended[label])
    return ended


def follow_all(session: Session, active: dict[str, str], screen: Console | None = None) -> dict[str, Any]:
    """Shows the progress of the jobs in `active` (ids by label). Returns the jobs by label when all have ended."""
    with Board(screen or session.progress) as board:
        return follow(session.connect(WATCH_RETRIES), board, active)


def _label(text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    if not key or not colon:
        raise CliError(f"--label {text}: must be KEY:VALUE")
    return key, value


def _callback(text: str) -> tuple[str, str]:
    name, _, url = text.partition("=")
    # without a name, `=` may be in the URL's query
    if not url or "/" in name:
        raise UsageError(f"--callback {text}: must be NAME=URL, for example done=https://hooks.example.com/done")
    return name, url
