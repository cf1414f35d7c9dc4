"""`lucius incident`: what a person has to look at, and what is done about it."""

from __future__ import annotations

from typing import Annotated

import typer

from lucius_client.cli import rendering
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.jobs import RequestType, Tenant
from lucius_client.cli.rendering import Columns, Json, field
from lucius_client.cli.session import Session, with_session

IncidentId = Annotated[str, typer.Argument(metavar="ID", help="An incident's id.")]
Reason = Annotated[str, typer.Option(help="A text for the incident's log.")]
Limit = Annotated[int, typer.Option(min=1, help="The maximum number; the last that was opened comes first.")]

INCIDENTS: Columns = [
    ("incident", field("incidentId")),
    ("kind", field("kind")),
    ("tenant", field("tenant")),
    ("type", field("request_type")),
    ("state", field("state")),
    ("code", field("code")),
    ("opened", field("opened_at")),
    ("settled by", field("settled_by")),
    ("retried by", field("retried_by")),
]
LOG: Columns = [
    ("no", field("seq")),
    ("at", field("at")),
    ("type", field("type")),
    ("actor", field("actor")),
    ("reason", field("reason")),
]

incident_app = typer.Typer(
    help="Incidents: list, show, resolve, retry, dismiss.",
    no_args_is_help=True,
)


@with_session
def list_(
    session: Session,
    tenant: Tenant = None,
    state: Annotated[
        str, typer.Option(help="One or more, separated by commas: OPEN, RESOLVED, RETRIED, DISMISSED; or all.")
    ] = "OPEN",
    kind: Annotated[
        str | None, typer.Option(help="One or more, separated by commas: JOB, BREAKER, SERVICE, ROW.")
    ] = None,
    type_: RequestType = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Opened at or after 2026-01-27T10:00:00Z, or 90m, 2h, 3d ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Opened before this time.")] = None,
    limit: Limit = 50,
) -> None:
    """List incidents: those that are open, or with --state any others."""
    items = session.client.incidents(
        tenant_id=tenant,
        state=None if state.lower() == "all" else state.upper(),
        kind=kind.upper() if kind else None,
        request_type=type_,
        since=instant_ago("--since", since),
        until=instant_ago("--until", until),
        limit=limit,
    )
    session.show([each.plain() for each in items], INCIDENTS, _id)


@with_session
def show(session: Session, incident: IncidentId) -> None:
    """Show an incident, and all that happened to it."""
    found = session.client.incident(incident).plain()
    _show(session, found)
    if session.for_people:
        rendering.write(f"{found['kind']} {found['subject']}: {found['detail'] or found['code']}")
        session.show(found["log"], LOG, lambda entry: str(entry["seq"]))


@with_session
def resolve(session: Session, incident: IncidentId, reason: Reason) -> None:
    """Say that what was to do is done; its job stays a dead letter."""
    _show(session, session.client.resolve_incident(incident, reason=reason).plain())


@with_session
def retry(session: Session, incident: IncidentId, reason: Reason) -> None:
    """Redrive the job of an incident."""
    _show(session, session.client.retry_incident(incident, reason=reason).plain())


@with_session
def dismiss(session: Session, incident: IncidentId, reason: Reason) -> None:
    """Put an incident aside; its job is no dead letter any more."""
    _show(session, session.client.dismiss_incident(incident, reason=reason).plain())


incident_app.command("list")(list_)
incident_app.command()(show)
incident_app.command()(resolve)
incident_app.command()(retry)
incident_app.command()(dismiss)


def _id(incident: Json) -> str:
    return str(incident["incidentId"])


def _show(session: Session, incident: Json) -> None:
    session.show([incident], INCIDENTS, _id, incident)
