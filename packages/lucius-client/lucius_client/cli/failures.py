"""`lucius deadletters` and `lucius rejected`: jobs that failed for good, and messages that no job could take."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import typer

from lucius_client.cli import rendering
from lucius_client.cli.exits import UsageError
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.jobs import Label, Limit, RequestType, Since, Tenant, Until
from lucius_client.cli.rendering import job_id
from lucius_client.cli.session import Session, with_session

rejected_app = typer.Typer(help="Messages that no job could take: list, show, redrive.", no_args_is_help=True)

MessageId = Annotated[str, typer.Argument(metavar="ID", help="A rejected message's id.")]


@with_session
def deadletters(
    session: Session,
    tenant: Tenant = None,
    type_: RequestType = None,
    label: Label = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
) -> None:
    """List jobs that failed for good and that nobody has redriven: the step and the error; the last failed first."""
    items = session.client.dead_letters(
        tenant_id=tenant,
        request_type=type_,
        label=label,
        since=instant_ago("--since", since),
        until=instant_ago("--until", until),
        limit=limit,
    )
    session.show([job.plain() for job in items], rendering.DEAD_LETTERS, job_id)


@with_session
def list_(
    session: Session,
    day: Annotated[str | None, typer.Option("--date", metavar="YYYY-MM-DD", help="Only of this day (UTC).")] = None,
    limit: Limit = 50,
) -> None:
    """List rejected messages with the reason, newest first."""
    messages = [message.plain() for message in session.client.rejected(day=_day(day), limit=limit)]
    session.show(messages, rendering.REJECTED, lambda message: str(message["id"]))


@with_session
def show(session: Session, message: MessageId) -> None:
    """Print a rejected message as JSON, with its body and what would happen if it came now."""
    rendering.write_json(session.client.rejected_message(message).plain())


@with_session
def redrive(
    session: Session, messages: Annotated[list[str], typer.Argument(metavar="ID...", help="Rejected messages.")]
) -> None:
    """Apply rejected messages to their jobs again; `redriven` is the outcome."""
    redriven = [session.client.redrive_rejected(message).plain() for message in messages]
    session.show(redriven, rendering.REJECTED, lambda message: str(message["id"]))


rejected_app.command("list")(list_)
rejected_app.command()(show)
rejected_app.command()(redrive)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise UsageError(f"--date {text}: must be a day like 2026-01-27") from None
