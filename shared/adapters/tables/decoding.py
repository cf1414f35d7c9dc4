"""Decodes rows, and turns each exception of a decoder into an error of LUCIUS.

A single row that cannot be decoded raises Undecodable, with its key. A list of many jobs or tenants leaves such a row
out and logs the row (`ROW_UNDECODABLE`), so the other jobs continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar

from shared import telemetry
from shared.adapters.tables.columns import UNDECODABLE
from shared.adapters.tables.table import Entity, key_of
from shared.errors import Undecodable

T = TypeVar("T")


def decode_entity(decode: Callable[[Entity], T], entity: Entity) -> T:
    """Returns the object of a row. Raises Undecodable."""
    try:
        return decode(entity)
    except Undecodable:
        raise
    except UNDECODABLE as fault:
        raise Undecodable(key_of(entity), type(fault).__name__) from fault


def decode_all(decode: Callable[[Entity], T], entities: Iterable[Entity], unread: list[str] | None = None) -> list[T]:
    """Returns the objects of the rows that can be decoded. `unread` gets the keys of the other rows."""
    found: list[T] = []
    for entity in entities:
        try:
            found.append(decode_entity(decode, entity))
        except Undecodable as row:
            leave_out(row, unread)
    return found


def row_as(kind: Callable[..., T], row: Mapping[str, Any], /, **given: Any) -> T:
    """Returns the dataclass of a row that has a column for each field. `given` has the fields that the row has in
    another form.

    A column may be absent if its field has a default. Raises Undecodable if any other column is absent. A field `etag`
    gets the row's ETag.
    """
    if isinstance(row, Entity) and any(name == "etag" for name, _ in _fields_of(kind)):
        given["etag"] = row.etag
    values = {
        name: row[name]
        for name, is_required in _fields_of(kind)
        if name not in given and (is_required or row.get(name) is not None)
    }
    return kind(**values, **given)


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Returns the name of each field, with True if the field has no default."""
    return tuple((each.name, each.default is each.default_factory is MISSING) for each in fields(kind) if each.init)


def leave_out(row: Undecodable, unread: list[str] | None = None) -> None:
    """Logs an undecodable row that no other row depends on, and adds the key of the row to `unread`."""
    telemetry.warn("ROW_UNDECODABLE", row=row.row, reason=row.why)
    if unread is not None:
        unread.append(row.row)
