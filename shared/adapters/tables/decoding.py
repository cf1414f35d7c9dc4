"""Decodes rows, and turns each exception of a decoder into an error of LUCIUS.

A single row that cannot be decoded raises Undecodable, with its key. A list of many jobs or tenants leaves such a row
out and logs it (`ROW_UNDECODABLE`): the other jobs continue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from shared import telemetry
from shared.adapters.tables.columns import UNDECODABLE
from shared.adapters.tables.table import Entity, Table, key_of
from shared.errors import Undecodable

T = TypeVar("T")

#: maximum of rows that one query leaves out, so that it ends in a store of another release
MAX_LEFT_OUT = 1000


def decoded(decode: Callable[[Entity], T], entity: Entity) -> T:
    """Returns the object of a row. Raises Undecodable."""
    try:
        return decode(entity)
    except Undecodable:
        raise
    except UNDECODABLE as fault:
        raise Undecodable(key_of(entity), type(fault).__name__) from fault


def all_decoded(decode: Callable[[Entity], T], entities: Iterable[Entity], unread: list[str] | None = None) -> list[T]:
    """Returns the objects of the rows that can be decoded; `unread` gets the keys of the others."""
    found: list[T] = []
    for entity in entities:
        try:
            found.append(decoded(decode, entity))
        except Undecodable as row:
            leave_out(row, unread)
    return found


async def first_decoded(
    table: Table,
    query: str,
    parameters: dict[str, Any],
    limit: int | None,
    decode: Callable[[Entity], T | None],
    unread: list[str] | None = None,
    **options: Any,
) -> list[T]:
    """Returns the objects of the first rows that can be decoded, at most `limit`, in the order of their keys.

    `decode` returns None for a row that is not of the list. The query continues past such a row, and past one that
    cannot be decoded: a page is shorter than its limit only at the end of its range. Raises LedgerUnavailable;
    Undecodable after `MAX_LEFT_OUT` rows that cannot be decoded.
    """
    found: list[T] = []
    left_out = 0
    page = min(limit, 1000) if limit is not None else None
    async for entity in table.query_entities(query, parameters=parameters, results_per_page=page, **options):
        try:
            if (one := decoded(decode, entity)) is not None:
                found.append(one)
        except Undecodable as row:
            left_out += 1
            if left_out > MAX_LEFT_OUT:
                raise
            leave_out(row, unread)
        if len(found) == limit:
            break
    return found


def leave_out(row: Undecodable, unread: list[str] | None = None) -> None:
    """Logs a row that others do not wait for."""
    telemetry.warn("ROW_UNDECODABLE", row=row.row, reason=row.why)
    if unread is not None:
        unread.append(row.row)
