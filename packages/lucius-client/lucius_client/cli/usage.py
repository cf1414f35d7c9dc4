"""`lucius usage` and `lucius source`: counts and waits of a tenant's jobs, and the sources of the jobs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from lucius_client.cli.commands import add
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.options import Limit, OneTenant
from lucius_client.cli.rendering import write
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import Column, Listing


class By(StrEnum):
    TYPE = "type"
    SOURCE = "source"
    HOUR = "hour"


USAGE = Listing(
    "uses",
    "of",
    (
        Column("of", "of", room=8),
        *(
            Column(name, name, drop=drop)
            for drop, name in enumerate(("created", "admitted", "staged", "ended", "rejected"), start=1)
        ),
        Column("wait p50 s", "wait_p50_s", drop=7),
        Column("wait p95 s", "wait_p95_s", drop=6),
        Column("active peak", "active_peak", drop=8),
    ),
)
SOURCES = Listing(
    "sources",
    "name",
    (
        Column("source", "name", room=12),
        Column("first job", "first_job", drop=6),
        Column("first used", "first_at", at=True, drop=5),
        Column("hour of last use", "last_at", at=True, drop=4),
        Column("active", "active", drop=2),
        Column("waiting", "staged", drop=1),
        Column("held", "held", drop=3),
    ),
)

source_app = typer.Typer(help="List the sources that jobs name.", no_args_is_help=True)


@with_session
def usage(
    session: Session,
    tenant: OneTenant = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="First hour, as a timestamp or an age: 2026-01-27T10:00:00Z, 90m, 2h, 3d. Default: 1d. Must be less "
            "than 31d ago.",
        ),
    ] = None,
    by: Annotated[By | None, typer.Option(help="Also show the sums for each value of this field.")] = None,
) -> None:
    """Sum up one tenant's jobs in whole hours.

    A job counts in the hour of its creation. The waits are the median and the
    95th percentile of admitted jobs, rounded up to a bucket. The peak of active
    jobs is from one sample a minute. `rejected` is the approximate number of
    creations of jobs that a limit refused, including each try of a bulk
    operation.
    """
    report = session.client.usage(
        tenant=tenant, since=instant_ago("--since", since), by=by.value if by is not None else None
    ).plain()
    rows = [{"of": key, **each} for key, each in (report.get("groups") or {}).items()]
    rows.append({"of": "total", **report["total"]})
    session.show(USAGE, rows, report)
    if report["partial"]:
        write(
            "the counts can omit jobs, because the most recent hours have at least 5,000 jobs and no hourly rollup; "
            "run the command again after the rollup",
            stderr=True,
        )


@with_session
def list_(
    session: Session,
    tenant: OneTenant = None,
    limit: Limit = 100,
) -> None:
    """List the sources of a tenant's jobs.

    Only sources that have their own quota show counts.
    """
    rows = [each.plain() for each in session.client.sources(tenant=tenant, limit=limit)]
    session.show(SOURCES, rows)


add(source_app, "list", list_, "lucius source list --tenant acme")
