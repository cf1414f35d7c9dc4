"""Rows of hash-chained logs: one column per field, `data` as JSON text."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar

from shared.adapters.tables.columns import json_text
from shared.adapters.tables.table import Entity, row_at
from shared.core.records.chained_log import Entry

E = TypeVar("E", bound=Entry)


def entry_entity(partition: str, row: str, entry: Entry) -> dict[str, Any]:
    """Makes the row of a log entry."""
    return {**row_at(partition, row), **asdict(entry), "data": json_text(entry.data)}


def entry_of(kind: type[E]) -> Callable[[Entity], E]:
    """Returns the decoder of an entry. A log leaves a broken entry out, and the entries' numbers show the gap."""
    names = [field.name for field in fields(kind)]

    def decode(row: Entity) -> E:
        return kind(**{**{name: row[name] for name in names}, "data": json.loads(row["data"])})

    return decode
