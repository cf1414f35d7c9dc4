"""Rows of chained logs: one column a field, `data` as canonical JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from shared.adapters.tables.columns import json_text
from shared.core.chained_log import Entry

E = TypeVar("E", bound=Entry)


def entry_entity(partition: str, row: str, entry: Entry) -> dict[str, Any]:
    """The row of an entry."""
    return {"PartitionKey": partition, "RowKey": row, **asdict(entry), "data": json_text(entry.data)}


def entries_of(kind: type[E], found: Iterable[Mapping[str, Any]]) -> list[E]:
    """The entries of these rows."""
    values = [{field.name: entity[field.name] for field in fields(kind)} for entity in found]
    return [kind(**{**each, "data": json.loads(each["data"])}) for each in values]
