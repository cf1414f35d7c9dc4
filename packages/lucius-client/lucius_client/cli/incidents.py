"""`lucius incident`: lists, shows and closes conditions that need an operator."""

from __future__ import annotations

from typing import Annotated

import typer

from lucius_client.cli import ids, rendering
from lucius_client.cli.commands import add
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.options import Limit, Reason, Tenant, type_option
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import LOG, Column, Listing, status

IncidentId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of an incident, or the id's first characters."), ids.INCIDENT
]

INCIDENTS = Listing(
    "incidents",
    "incidentId",
    (
        Column("incident", "incidentId"),
        Column("kind", "kind", drop=6),
        Column("tenant", "tenant", room=8, drop=3),
        Column("type", "request_type", room=8, drop=5),
        Column("state", status("state"), drop=1),
        Column("code", "code", room=10, drop=4),
        Column("opened", "opened_at", at=True, drop=2),
        Column("closed by", "settled_by", room=8, drop=8),
        Column("redriven as", "retried_by", drop=7),
    ),
)

incident_app = typer.Typer(
    help="List, show, resolve, redrive and dismiss incidents.",
    no_args_is_help=True,
)


@with_session
def list_(
    session: Session,
    tenant: Tenant = None,
    state: Annotated[
        str,
        typer.Option(
            help="Only incidents in these states, separated by commas: OPEN, RESOLVED, RETRIED (redriven), DISMISSED. "
            "`all` selects every state."
        ),
    ] = "OPEN",
    kind: Annotated[
        str | None,
        typer.Option(help="Only incidents of these kinds, separated by commas: JOB, BREAKER, SERVICE, ROW."),
    ] = None,
    type_: Annotated[str | None, type_option("Only incidents of this job type.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only incidents opened at or after this timestamp or age: 2026-01-27T10:00:00Z, 90m, 2h, 3d.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only incidents opened before this timestamp or age.")
    ] = None,
    limit: Limit = 50,
) -> None:
    """List incidents. Default: open incidents."""
    items = session.client.incidents(
        tenant_id=tenant,
        state=None if state.lower() == "all" else state.upper(),
        kind=kind.upper() if kind else None,
        request_type=type_,
        since=instant_ago("--since", since),
        until=instant_ago("--until", until),
        limit=limit,
    )
    session.show(INCIDENTS, [each.plain() for each in items])


@with_session
def show(session: Session, incident: IncidentId) -> None:
    """Show an incident and the changes of its state."""
    found = session.client.incident(incident).plain()
    session.show_one(INCIDENTS, found)
    if session.for_people:
        rendering.write(f"\n{found['kind']} {found['subject']}: {found['detail'] or found['code']}\n")
        session.show(LOG, found["log"])


@with_session
def resolve(session: Session, incident: IncidentId, reason: Reason) -> None:
    """Resolve an incident. Its job, if any, stays a dead letter."""
    session.show_one(INCIDENTS, session.client.resolve_incident(incident, reason=reason).plain())


@with_session
def retry(session: Session, incident: IncidentId, reason: Reason) -> None:
    """Redrive the job of an incident."""
    session.show_one(INCIDENTS, session.client.retry_incident(incident, reason=reason).plain())


@with_session
def dismiss(session: Session, incident: IncidentId, reason: Reason) -> None:
    """Dismiss an incident and the dead letter of its job, if any."""
    session.show_one(INCIDENTS, session.client.dismiss_incident(incident, reason=reason).plain())


add(incident_app, "list", list_, "lucius incident list", "lucius incident list --state all --since 1d")
add(incident_app, "show", show, "lucius incident show inc_job_bf466207")
add(incident_app, "resolve", resolve, "lucius incident resolve inc_job_bf466207 --reason 'sent by mail'")
add(incident_app, "redrive retry", retry, "lucius incident redrive inc_job_bf466207 --reason 'the service is repaired'")
add(incident_app, "dismiss", dismiss, "lucius incident dismiss inc_job_bf466207 --reason 'a test document'")
