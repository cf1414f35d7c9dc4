"""`lucius receipts`: sums of the time and attempts of a tenant's jobs."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated, Any

import typer

from lucius_client.cli import rendering
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.options import OneTenant, Since, Until
from lucius_client.cli.rendering import Json
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import Column, Listing


class By(StrEnum):
    TYPE = "type"
    SOURCE = "source"
    PRIORITY = "priority"


SUMS = Listing(
    "jobs",
    "of",
    (
        Column("of", "of", room=8),
        Column("jobs", "jobs"),
        Column("attempts", "attempts_total", drop=1),
        *(
            Column(f"{part} s", f"{part}_s", drop=drop)
            for drop, part in enumerate(
                ("service", "gated", "queue", "ack", "backoff", "dependent", "backlog", "paused"), start=2
            )
        ),
    ),
)


@with_session
def receipts(
    session: Session,
    tenant: OneTenant = None,
    since: Since = None,
    until: Until = None,
    by: Annotated[By | None, typer.Option(help="Also show the sums for each value of this field.")] = None,
) -> None:
    """Sum up the time of one tenant's jobs by phase.

    The phases are service, quotas, queue, ACK, backoff, dependencies, backlog
    and pauses.

    The command reads every job that is not archived, up to 100 jobs in each
    request. Use --since to read fewer jobs.
    """
    pages = session.client.receipts(
        tenant_id=tenant,
        since=instant_ago("--since", since),
        until=instant_ago("--until", until),
        by=by.value if by is not None else None,
    )
    #: sums by type, source or priority; None means over all jobs
    sums: dict[str | None, Counter[str]] = {None: Counter()}
    unreadable = 0
    for page in pages:
        found = page.plain()
        unreadable += found["unreadable"]
        for key, group in {**(found.get("groups") or {}), None: found}.items():
            sums.setdefault(key, Counter()).update(_numbers(group))
    total = sums.pop(None)
    rows = [{"of": key, **_rounded(numbers)} for key, numbers in sorted(sums.items(), key=lambda each: str(each[0]))]
    rows.append({"of": "total", **_rounded(total)})
    session.show(SUMS, rows)
    if unreadable:
        advice = "`lucius audit export` prints the ids of jobs with lost data"
        text = f"not in the sums: {unreadable} unreadable jobs; {advice}"
        rendering.write(text, stderr=True)


def _numbers(group: Json) -> dict[str, Any]:
    return {"jobs": group["jobs"], "attempts_total": group["attempts_total"], **group["total"]}


def _rounded(numbers: Counter[str]) -> dict[str, Any]:
    return {name: round(number, 3) for name, number in numbers.items()}
