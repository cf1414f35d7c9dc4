"""`lucius event list`: the events of a tenant's jobs, quotas, incidents and webhooks, in order."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from lucius_client import Client
from lucius_client.cli import rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import UsageError
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.options import OneTenant
from lucius_client.cli.rendering import Json, OutputFormat
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.tables import Column, Listing, line_of
from lucius_client.errors import CursorExpired
from lucius_client.feed import Feed, Which
from lucius_client.models import PublicEvent

EVENTS = Listing(
    "events",
    "id",
    (
        Column("at", "time", at=True, drop=2),
        Column("type", "type", drop=1),
        Column("subject", "subject"),
        Column("job type", lambda event: event["data"].get("jobType"), room=8, drop=4),
        Column("status", lambda event: _status(event["data"]["payload"]), room=8, drop=3),
    ),
)

event_app = typer.Typer(help="List or follow the events of a tenant.", no_args_is_help=True)


@event_app.callback()
def _group() -> None:
    pass


@with_session
def events(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Stream new events until interrupted.")] = False,
    type_: Annotated[
        str | None,
        typer.Option(
            "--type", help="Only events of these types, separated by commas, such as job.completed,job.failed."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only events at or after this timestamp or age: 2026-01-27T10:00:00Z, 90m, 2h, 3d."
        ),
    ] = None,
    tenant: OneTenant = None,
    job: Annotated[
        str | None, typer.Option(help="Complete id of a job. Only events of this job and of its incident.")
    ] = None,
    job_type: Annotated[
        str | None, typer.Option(help="Only events of jobs, quotas and incidents of this type.")
    ] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="Only events that end a job.")] = False,
    cursor_file: Annotated[
        Path | None, typer.Option(help="File that stores the cursor. The next call continues at the stored cursor.")
    ] = None,
) -> None:
    """List one tenant's events, oldest first.

    The events are those of jobs, quotas, incidents and webhooks. The list begins
    at the stored cursor or at --since, the later of both. Default: the oldest
    retained event or, with --follow, the next new event.
    """
    first = instant_ago("--since", since)
    with _used(cursor_file):
        is_kept = cursor_file is not None and cursor_file.exists() and bool(cursor_file.read_text("utf-8").strip())
        which: Which = {
            "cursor_file": cursor_file,
            "after": "latest" if follow and first is None and not is_kept else None,
            "follow": follow,
            "tenant_id": tenant,
            "types": type_.split(",") if type_ else None,
            "job_id": job,
            "job_type": job_type,
            "terminal": terminal,
        }
        if follow:
            take(session.connect(WATCH_RETRIES), which, partial(_line, session.output), since=first)
            return
        found: list[Json] = []
        feed = take(session.client, which, lambda event: found.append(event.plain()), since=first)
        session.show(EVENTS, found)
        # events that were not shown are fetched again
        sys.stdout.flush()
        feed.store()


EXAMPLES = ("lucius event list --since 2h --type job.failed", "lucius event list --follow -o json")
add(event_app, "list", events, *EXAMPLES)


def take(client: Client, which: Which, taker: Callable[[PublicEvent], None], *, since: datetime | None = None) -> Feed:
    """Calls `taker` with each event at or after `since`, or with each event if `since` is None.

    If the cursor has expired or is from another feed, prints a warning and continues with the oldest retained event.

    Returns the feed at the position after the last event.
    """
    while True:
        feed = Feed(which, client._retries, keeps=which.get("follow", True))
        try:
            for event in client._iterate(feed):
                if since is None or event.time >= since:
                    taker(event)
            return feed
        except CursorExpired as expired:
            rendering.write(
                "lucius: the next events were deleted after their retention, or the cursor is from another feed; "
                "continuing with the oldest retained event",
                stderr=True,
            )
            which["after"] = expired.problem.earliest


@contextmanager
def _used(cursor_file: Path | None) -> Iterator[None]:
    """Turns errors of the cursor file into UsageError."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise UsageError(f"--cursor-file {cursor_file}: the file has no cursor; name another file") from error
    except OSError as error:
        if error.filename is None:
            raise  # an error of a pipe, not of the file
        raise UsageError(f"--cursor-file {cursor_file}: {error.strerror}") from error


def _status(payload: Json) -> str:
    """Returns the status or the change in the payload of an event, and the quota if the event is about a quota.

    Returns `-` for other payloads.
    """
    if gate := payload.get("gate"):
        kind = gate["kind"].removeprefix("tenant/")
        return f"{payload.get('status') or payload.get('change')}, {kind} {gate['name']}".rstrip()
    return str(payload.get("status") or payload.get("change") or "-")


def _line(output: OutputFormat, event: PublicEvent) -> None:
    plain: Json = event.plain()
    match output:
        case OutputFormat.JSON:
            # ASCII, so that no character controls the terminal
            rendering.write(json.dumps(plain))
        case OutputFormat.IDS:
            rendering.write(str(plain["id"]))
        case OutputFormat.TABLE | OutputFormat.WIDE:
            rendering.write(line_of(EVENTS, plain))
