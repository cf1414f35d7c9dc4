"""`lucius usage` and `lucius source`: what a tenant's jobs used of its gates, and the sources that they named."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lucius_client.cli.instants import instant_ago
from lucius_client.cli.rendering import Columns, field, write
from lucius_client.cli.session import Session, with_session

Tenant = Annotated[str | None, typer.Option(envvar="LUCIUS_TENANT", help="The tenant; without it that of the token.")]


class By(StrEnum):
    TYPE = "type"
    SOURCE = "source"
    HOUR = "hour"


USAGE: Columns = [
    ("of", field("of")),
    *((name, field(name)) for name in ("created", "admitted", "staged", "ended", "rejected")),
    ("wait p50 s", field("wait_p50_s")),
    ("wait p95 s", field("wait_p95_s")),
    ("active peak", field("active_peak")),
]
SOURCES: Columns = [
    ("source", field("name")),
    ("first job", field("first_job")),
    ("first", field("first_at")),
    ("last job", field("last_job")),
    ("last", field("last_at")),
    ("active", field("active")),
    ("waiting", field("staged")),
    ("held", field("held")),
]

source_app = typer.Typer(help="Sources: list.", no_args_is_help=True)


@with_session
def usage(
    session: Session,
    tenant: Tenant = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="From the hour of 2026-01-27T10:00:00Z, or of 90m, 2h, 3d ago.")
    ] = None,
    by: Annotated[By | None, typer.Option(help="Sums for each of these.")] = None,
) -> None:
    """Sum up what a tenant's jobs used of its gates, in whole hours; without --since of the last day.

    Refused requests are approximate, waits are the ends of buckets, and the peak is what a look a minute saw.
    """
    report = session.client.usage(
        tenant=tenant, since=instant_ago("--since", since), by=by.value if by is not None else None
    ).plain()
    rows = [{"of": key, **each} for key, each in (report.get("groups") or {}).items()]
    rows.append({"of": "total", **report["total"]})
    session.show(rows, USAGE, lambda row: str(row["of"]), report)
    if report["partial"]:
        write("of the last hours some jobs are left out; they are counted when the hour is over", stderr=True)


@with_session
def list_(
    session: Session,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, help="The maximum number.")] = 100,
) -> None:
    """List the sources that a tenant's jobs named; counts are those of sources with a gate of their own."""
    rows = [each.plain() for each in session.client.sources(tenant=tenant, limit=limit)]
    session.show(rows, SOURCES, lambda row: str(row["name"]))


source_app.command("list")(list_)
