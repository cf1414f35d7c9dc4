"""Counts the jobs of all tenants before a limit over all tenants is divided (R54)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.gates.divided import Account, Book
from shared.core.gates.rules import Directory, Gate
from shared.errors import Conflict
from shared.operations import desk_turns
from shared.operations.at_once import at_once
from shared.operations.context import Context
from shared.ports.books import StoredBook

#: tenants whose jobs are counted between two writes of the book
_PIECE = 100
#: maximum time of a count within one division; the next division continues it
_OPENING = timedelta(seconds=15)
#: time of the second count after the limit was set: until then a process may not have known of the limit
_SECOND_COUNT = timedelta(minutes=1)


def is_opened(known: Directory, book: Book, gate: Gate, now: datetime) -> bool:
    """Returns whether the jobs of all tenants are in the book; True if the gate has no number."""
    state = known.over_all.get(gate.id)
    if state is None or state.max_active is None:
        return True
    since = known.over_all_since.get(gate.id, now)
    if now >= since + _SECOND_COUNT:
        since += _SECOND_COUNT
    return book.opened_at is not None and book.opened_at >= since


async def count_all(
    context: Context, gate: Gate, stored: StoredBook | None, book: Book, now: datetime
) -> StoredBook | None:
    """Counts the jobs of every awake tenant, before a slot is lent; returns the book with them, None: more follow.

    Raises Conflict, AlreadyExists, and other LuciusErrors.
    """
    awake = await context.index.awake_tenants(now=now)
    tenants = sorted(tenant for each in awake if (tenant := each.tenant) > (book.opening or ""))
    until = now + _OPENING

    async def inside(tenant: str) -> int:
        desk, _ = await desk_turns.read_opened(context, tenant)
        return desk.inside_of(gate)

    while tenants and context.clock.now() < until:
        piece, tenants = tenants[:_PIECE], tenants[_PIECE:]
        accounts = dict(book.accounts)
        for tenant, count in zip(piece, await at_once(piece, inside), strict=True):
            if count:
                account = accounts.get(tenant, Account())
                accounts[tenant] = replace(account, lent=max(account.lent, count), used=count)
        book = replace(book, accounts=accounts, opening=piece[-1], unmet=True, divided_at=now)
        stored = await _write(context, book, stored)
    if tenants:
        return None
    return await _write(context, replace(book, opening=None, opened_at=now, unmet=True, divided_at=now), stored)


async def _write(context: Context, book: Book, before: StoredBook | None) -> StoredBook:
    """Returns the book as stored. Raises Conflict, AlreadyExists, LedgerUnavailable."""
    await context.books.write(book, before=before)
    stored = await context.books.read(book.gate_id)
    if stored is None or stored.book != book:
        raise Conflict
    return stored
