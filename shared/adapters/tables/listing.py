"""A tenant's LIST rows: written as columns, found by their keys alone.

A filter on a column would make the store read any number of rows to fill one page. So the query names a range of
keys, and `shared.operations.list_jobs` filters the rows that come back.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from shared.adapters.tables.keys import list_row
from shared.core.job import Job
from shared.ports.index import ListRow

_MILLISECOND = timedelta(milliseconds=1)


def list_columns(job: Job) -> dict[str, Any]:
    """All but the keys."""
    return {
        "job_id": job.job_id,
        "tenant_id": job.tenant_id,
        "request_type": job.request_type,
        "labels": json.dumps(dict(job.labels), ensure_ascii=False),
        "mode": job.mode,
        "created_at": job.created_at,
        **changing_columns(job),
    }


def changing_columns(job: Job) -> dict[str, Any]:
    """Those that change while the job lives."""
    return {"status": job.status.value, "current_step_id": job.current_step_id, "seq": job.event_seq}


def listed_of(entity: Any) -> ListRow:
    return ListRow(
        job_id=entity["job_id"],
        tenant_id=entity["tenant_id"],
        request_type=entity["request_type"],
        status=entity["status"],
        current_step_id=entity.get("current_step_id"),
        labels=json.loads(entity["labels"]),
        seq=entity["seq"],
        created_at=entity["created_at"],
        cursor=entity["RowKey"],
    )


def list_query(
    partition: str, after: str | None, since: datetime | None, until: datetime | None
) -> tuple[str, dict[str, Any]]:
    """OData text and its parameters. The instants bound the key range, so that a late page reads late rows only."""
    first, end = "LIST:", "LIST;"
    clauses = ["PartitionKey eq @partition", "RowKey gt @first", "RowKey lt @end"]
    parameters: dict[str, Any] = {"partition": partition}
    if until is not None:
        # rows sort newest first; the key holds milliseconds, the column all there is
        first = list_row(until + _MILLISECOND, "")
        clauses.append("created_at lt @until")
        parameters["until"] = until
    if since is not None:
        end = list_row(since - _MILLISECOND, "")
        clauses.append("created_at ge @since")
        parameters["since"] = since
    return " and ".join(clauses), {**parameters, "first": max(after or "", first), "end": end}
