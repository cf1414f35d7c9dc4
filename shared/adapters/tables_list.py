"""The query that finds a tenant's LIST rows by filter, on the server as far as it goes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from shared.core.keys import list_row
from shared.ports import ListFilter

_MILLISECOND = timedelta(milliseconds=1)


def list_query(partition: str, after: str | None, only: ListFilter) -> tuple[str, dict[str, Any]]:
    """OData text and its parameters. The instants bound the key range too, so that a late page reads late rows only."""
    first, end = "LIST:", "LIST;"
    clauses = ["PartitionKey eq @partition", "RowKey gt @first", "RowKey lt @end"]
    parameters: dict[str, Any] = {"partition": partition}
    if only.until is not None:
        # rows sort newest first; the key holds milliseconds, the column all there is
        first = list_row(only.until + _MILLISECOND, "")
        clauses.append("created_at lt @until")
        parameters["until"] = only.until
    if only.since is not None:
        end = list_row(only.since - _MILLISECOND, "")
        clauses.append("created_at ge @since")
        parameters["since"] = only.since
    if only.request_type is not None:
        clauses.append("request_type eq @request_type")
        parameters["request_type"] = only.request_type
    if only.statuses is not None:
        names = {f"status{number}": status for number, status in enumerate(sorted(only.statuses))}
        clauses.append(f"( {' or '.join(f'status eq @{name}' for name in names)} )")
        parameters |= names
    return " and ".join(clauses), {**parameters, "first": max(after or "", first), "end": end}
