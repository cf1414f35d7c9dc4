"""`lucius bulk`: controls, redrives or replays many jobs, and shows the result of each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from lucius_client.cli import ids, rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import Exit, UsageError
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.options import Limit, OneTenant, Reason, SearchedTenant
from lucius_client.cli.rendering import Json
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.tables import Column, Listing, status
from lucius_client.models import Bulk

#: seconds between two reads of a bulk operation that the command waits for
_LOOK_S = 1.0

BulkId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a bulk operation, or the id's first characters."), ids.BULK
]
Filter = Annotated[
    list[str],
    typer.Option(
        "--filter",
        metavar="KEY=VALUE",
        help="Condition for the jobs; repeatable. Keys: status, request_type, label (KEY:VALUE), since, until, "
        "archived (true), idempotency_key and correlation_id. A time is a timestamp, or an age such as 2h.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Count the jobs that match now, up to 1,000, and show up to 20 of them. Change nothing."
    ),
]
Wait = Annotated[
    bool,
    typer.Option(
        "--wait",
        help="Show progress until the bulk operation has ended. The exit code is 1 if a job was refused or is open.",
    ),
]

BULKS = Listing(
    "bulk operations",
    "bulkId",
    (
        Column("bulk", "bulkId"),
        Column("tenant", "tenant", room=8, drop=10),
        Column("action", "action", drop=2),
        Column("state", status("state"), drop=1),
        Column("matched", lambda row: f"{row['matched']}{'' if row['listed'] else '+'}", drop=6),
        Column("done", "done", drop=4),
        Column("refused", "refused", drop=3),
        Column("open", "open", drop=5),
        Column("created", "created_at", at=True, drop=7),
        Column("actor", "actor", room=8, drop=9),
        Column("reason", "reason", room=8, drop=8),
    ),
)
ITEMS = Listing(
    "items",
    "jobId",
    (
        Column("job", "jobId"),
        Column("outcome", "outcome", drop=1),
        Column("code", "code", room=12, drop=2),
        Column("new job", "newJobId", drop=3),
        Column("tried", "tried_at", at=True, drop=4),
    ),
)
FIRST = Listing("jobs", "jobId", (Column("job", "jobId"),))

bulk_app = typer.Typer(help="Cancel, pause, resume, redrive or replay many jobs.", no_args_is_help=True)


def _command_of(action: str, summary: str) -> Callable[..., Any]:
    def run(
        session: Session,
        filter_: Filter,
        reason: Reason,
        tenant: OneTenant = None,
        dry_run: DryRun = False,
        wait: Wait = False,
    ) -> None:
        _start(session, action, filter_, reason, tenant, dry_run=dry_run, wait=wait)

    run.__name__, run.__doc__ = action, summary
    return with_session(run)


cancel = _command_of("cancel", "Cancel jobs. LUCIUS waits for attempts in flight.")
pause = _command_of("pause", "Pause jobs. Attempts in flight finish. No attempt starts.")
resume = _command_of("resume", "Resume paused jobs.")
redrive = _command_of("redrive", "Redrive failed or cancelled jobs, each as a new job.")
replay = _command_of("replay", "Replay jobs that have ended, each as a new job.")


@with_session
def list_(session: Session, tenant: SearchedTenant = None, limit: Limit = 50) -> None:
    """List bulk operations, newest first.

    If the command searches tenants, the order and the limit apply to each.
    """
    found = ids.of_each_tenant(session.client, tenant, lambda each: session.client.bulks(tenant=each, limit=limit))
    session.show(BULKS, [each.plain() for each in found])


@with_session
def show(session: Session, bulk: BulkId, tenant: SearchedTenant = None, wait: Wait = False) -> None:
    """Show a bulk operation and its counts of jobs."""
    finish(session, session.client.bulk(bulk, tenant=tenant), wait=wait)


@with_session
def items(
    session: Session,
    bulk: BulkId,
    tenant: SearchedTenant = None,
    outcome: Annotated[str | None, typer.Option(help="Only jobs with this outcome: OPEN, DONE or REFUSED.")] = None,
    limit: Limit = 1000,
) -> None:
    """List the jobs of a bulk operation, with their outcomes."""
    named = outcome.upper() if outcome else None
    found = session.client.bulk_items(bulk, tenant=tenant, outcome=named, limit=limit)
    session.show(ITEMS, [each.plain() for each in found])


@with_session
def stop(session: Session, bulk: BulkId, tenant: SearchedTenant = None) -> None:
    """Stop a bulk operation. Completed actions remain."""
    finish(session, session.client.cancel_bulk(bulk, tenant=tenant), wait=False)


_FAILED = "--filter status=FAILED_FINAL --filter since=1d --reason 'the service is repaired'"
add(bulk_app, "cancel", cancel, "lucius bulk cancel --filter label=batch:one --reason 'wrong documents' --dry-run")
add(bulk_app, "pause", pause, "lucius bulk pause --filter request_type=OCR --reason 'maintenance window'")
add(bulk_app, "resume", resume, "lucius bulk resume --filter request_type=OCR --reason 'maintenance is over'")
add(bulk_app, "redrive", redrive, f"lucius bulk redrive {_FAILED} --dry-run", f"lucius bulk redrive {_FAILED} --wait")
add(bulk_app, "replay", replay, "lucius bulk replay --filter label=batch:one --reason 'a new engine' --dry-run")
add(bulk_app, "list", list_, "lucius bulk list --tenant acme")
add(bulk_app, "show", show, "lucius bulk show bulk_82304918", "lucius bulk show bulk_82304918 --wait")
add(bulk_app, "items", items, "lucius bulk items bulk_82304918 --outcome refused")
add(bulk_app, "stop", stop, "lucius bulk stop bulk_82304918")


def finish(session: Session, bulk: Bulk, *, wait: bool) -> None:
    """Shows a bulk operation. With `wait`, first waits until the bulk operation has ended.

    With `wait`, the exit code is 1 if a job was refused or is open. Ctrl-C ends the command, not the bulk operation.
    """
    if wait:
        try:
            bulk = _followed(session, bulk)
        except KeyboardInterrupt:
            goes_on = (
                f"the bulk operation continues; run `lucius bulk show {bulk.bulkId}`, or "
                f"`lucius bulk stop {bulk.bulkId}`"
            )
            rendering.write(goes_on, stderr=True)
            raise
    session.show_one(BULKS, bulk.plain())
    if wait and (bulk.refused or bulk.open):
        raise typer.Exit(Exit.NOT_WELL)


def _followed(session: Session, bulk: Bulk) -> Bulk:
    client, last = session.connect(WATCH_RETRIES), ""
    while True:
        line = f"{bulk.bulkId}: {bulk.done} done, {bulk.refused} refused, {bulk.open} open"
        if line != last:
            session.progress.print(line, highlight=False)
        last = line
        if bulk.state != "RUNNING":
            return bulk
        time.sleep(_LOOK_S)
        bulk = client.bulk(bulk.bulkId, tenant=bulk.tenant)


def _start(
    session: Session, action: str, given: list[str], reason: str, tenant: str | None, *, dry_run: bool, wait: bool
) -> None:
    words = _words(given) | ({"tenant_id": tenant} if tenant else {})
    if dry_run:
        found = session.client.preview_bulk(action, words)
        if session.for_people:
            rendering.write(f"{found.matched}{' or more' if found.more else ''} matching jobs (dry run). First jobs:")
        session.show(FIRST, [{"jobId": each} for each in found.first], found.plain())
        return
    finish(session, session.client.start_bulk(action, words, reason=reason), wait=wait)


def _words(given: list[str]) -> Json:
    words: Json = {}
    for each in given:
        word, equals, value = each.partition("=")
        if not word or not equals:
            raise UsageError(f"--filter {each}: must be KEY=VALUE, for example status=FAILED_FINAL")
        if word in words:
            raise UsageError(
                f"--filter {each}: {word} is given twice; give each key once, and separate states with commas"
            )
        words[word] = _value(word, value)
    return words


def _value(word: str, text: str) -> Any:
    return instant_ago(f"--filter {word}=", text) if word in ("since", "until") else text
