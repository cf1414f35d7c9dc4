"""`lucius deadletter` and `lucius rejected`: jobs that failed permanently, and messages that no job accepted."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import typer

from lucius_client.cli import ids, rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import UsageError
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.options import JobType, Label, Limit, Since, Tenant, Until
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import Column, Listing

DEAD_LETTERS = Listing(
    "dead letters",
    "jobId",
    (
        Column("job", "jobId"),
        Column("tenant", "tenant_id", room=8, drop=3),
        Column("type", "request_type", room=8, drop=4),
        Column("step", "failed_step_id", room=6, drop=5),
        Column("error", "error_code", room=18, drop=2),
        Column("last error", "last_error_code", room=12, drop=6),
        Column("attempts", "attempts_total", drop=7),
        Column("ended", "completed_at", at=True, drop=1),
    ),
)
REJECTED = Listing(
    "rejected messages",
    "id",
    (
        Column("message", "id"),
        Column("received", "received_at", at=True, drop=2),
        Column("reason", "reason", room=12, drop=1),
        Column("detail", "detail", room=12, drop=5),
        Column("lane", "lane", drop=4),
        Column("redriven", "redriven_outcome", room=8, drop=3),
    ),
)

deadletter_app = typer.Typer(help="List failed jobs that are neither redriven nor dismissed.", no_args_is_help=True)
rejected_app = typer.Typer(help="List, show and redrive messages that no job could accept.", no_args_is_help=True)

MessageId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a rejected message, or the id's first characters."), ids.REJECTED
]


@with_session
def deadletters(
    session: Session,
    tenant: Tenant = None,
    type_: JobType = None,
    label: Label = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> None:
    """List dead letters, most recent first.

    A dead letter is a failed job that is neither redriven nor dismissed.
    """
    items = session.client.dead_letters(
        tenant_id=tenant,
        request_type=type_,
        label=label,
        since=instant_ago("--since", since),
        until=instant_ago("--until", until),
        limit=limit,
    )
    session.show(DEAD_LETTERS, [job.plain() for job in items])


@with_session
def list_(
    session: Session,
    tenant: Tenant = None,
    day: Annotated[
        str | None,
        typer.Option("--date", metavar="YYYY-MM-DD", help="Only messages of this UTC day. Default: the last 90 days."),
    ] = None,
    limit: Limit = 50,
) -> None:
    """List rejected messages with their reasons, newest first."""
    messages = [message.plain() for message in session.client.rejected(tenant=tenant, day=_day(day), limit=limit)]
    session.show(REJECTED, messages)


@with_session
def show(session: Session, message: MessageId) -> None:
    """Print a rejected message as JSON, with its body.

    The field `what_if` is the expected outcome of a redrive.
    """
    rendering.write_json(session.client.rejected_message(message).plain())


@with_session
def redrive(
    session: Session,
    messages: Annotated[
        list[str],
        typer.Argument(metavar="ID...", help="Ids of rejected messages, or the ids' first characters."),
        ids.REJECTED,
    ],
) -> None:
    """Apply rejected messages to their jobs again.

    The column `redriven` is the outcome. The command stops at the first error,
    and then shows no outcomes of the messages before the error.
    """
    redriven = [session.client.redrive_rejected(message).plain() for message in messages]
    session.show(REJECTED, redriven)


add(deadletter_app, "list", deadletters, "lucius deadletter list --type OCR --since 1d")
add(rejected_app, "list", list_, "lucius rejected list", "lucius rejected list --tenant acme --date 2026-01-27")
add(rejected_app, "show", show, "lucius rejected show rej_1769508120000")
add(rejected_app, "redrive", redrive, "lucius rejected redrive rej_1769508120000")


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"--date {text}: must be a day like 2026-01-27") from None
