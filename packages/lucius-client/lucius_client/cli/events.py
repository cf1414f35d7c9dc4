"""`lucius events`: what happens to the jobs, gates, incidents and webhooks of a tenant, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from lucius_client.cli import rendering
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.rendering import Columns, Json, OutputFormat, field
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.usage import Tenant
from lucius_client.errors import CursorExpired
from lucius_client.feed import Which
from lucius_client.feed import events as follow_feed
from lucius_client.models import PublicEvent

COLUMNS: Columns = [
    ("at", field("time")),
    ("type", field("type")),
    ("subject", field("subject")),
    ("job type", lambda event: str(event["data"].get("jobType") or "-")),
    ("status", lambda event: _status(event["data"]["payload"])),
]


@with_session
def events(
    session: Session,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until interrupted.")] = False,
    type_: Annotated[
        str | None, typer.Option("--type", help="One or more, separated by commas: job.completed,job.failed.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="At or after 2026-01-27T10:00:00Z, or 90m, 2h, 3d ago."),
    ] = None,
    tenant: Tenant = None,
    job: Annotated[str | None, typer.Option(help="Of this job only.")] = None,
    job_type: Annotated[str | None, typer.Option(help="Of jobs of this type only.")] = None,
    terminal: Annotated[bool, typer.Option("--terminal", help="Only what ends a job.")] = False,
    cursor_file: Annotated[
        Path | None, typer.Option(help="Keeps the position: the next call goes on where this one ends.")
    ] = None,
) -> None:
    """Print what happened to a tenant's jobs, gates, incidents and webhooks, in order.

    That is all that is kept, or with --follow what happens from now on.
    """
    first = instant_ago("--since", since)
    kept = cursor_file is not None and cursor_file.exists()
    which: Which = {
        "cursor_file": cursor_file,
        "after": "latest" if follow and first is None and not kept else None,
        "follow": follow,
        "tenant_id": tenant,
        "types": type_.split(",") if type_ else None,
        "job_id": job,
        "job_type": job_type,
        "terminal": terminal,
    }
    if not follow:
        found = [each.plain() for each in follow_feed(session.client, **which) if first is None or each.time >= first]
        session.show(found, COLUMNS, lambda event: str(event["id"]))
        return
    while True:
        try:
            for event in follow_feed(session.connect(WATCH_RETRIES), **which):
                if first is None or event.time >= first:
                    _line(session.output, event)
        except CursorExpired as expired:
            rendering.write("lucius: events between the last one and the next are not kept any more", stderr=True)
            which["after"] = expired.problem.earliest


def _status(payload: Json) -> str:
    """Of a gate what was done to it; it has no status."""
    return str(payload.get("status") or payload.get("change") or "-")


def _line(output: OutputFormat, event: PublicEvent) -> None:
    plain: Json = event.plain()
    match output:
        case OutputFormat.JSON:
            # ASCII: nothing in it moves a terminal
            rendering.write(json.dumps(plain))
        case OutputFormat.IDS:
            rendering.write(str(plain["id"]))
        case OutputFormat.TABLE:
            rendering.write("  ".join(str(cell(plain)) for _, cell in COLUMNS))
