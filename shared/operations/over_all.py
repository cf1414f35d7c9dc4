"""A gate over all tenants as people see it: who is inside, who waits, and what each tenant may have of it (R54)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from shared.core.gates.rules import DIVIDED, EVERY, Gate, GateState
from shared.core.gates.standing import MAX_POSITION, Standing, TenantPart, waiting_of
from shared.core.gates.type_breaker import aligned
from shared.operations import desks, type_breakers
from shared.operations.context import Context
from shared.operations.waiting import first_waiting, oldest

_AT_ONCE = 16


async def state_over_all(context: Context, gate: Gate, *, by_operator: bool) -> GateState:
    """What is set for the gate: of its desk, or for others as it is published. Raises LedgerUnavailable."""
    published = (await desks.directory(context)).over_all.get(gate.id, GateState(gate=gate))
    stored = await context.desks.read(EVERY) if by_operator else None
    return await type_breakers.reading(context, stored.desk.state(gate) if stored is not None else published)


async def parts(context: Context, gate: Gate, sees: Callable[[str], bool]) -> list[TenantPart]:
    """Of each tenant that has to do with the gate, and that the caller sees. Raises LedgerUnavailable."""
    if gate.kind not in DIVIDED:
        return []
    turns = asyncio.Semaphore(_AT_ONCE)

    async def part(tenant: str) -> TenantPart | None:
        async with turns:
            stored = await context.desks.read(tenant)
            if stored is None:
                return None
            desk = stored.desk
            first = await oldest(context, desk, gate)
            return TenantPart(tenant, desk.share(gate).keep, desk.inside_of(gate), waiting_of(desk, gate), first)

    found = await asyncio.gather(*map(part, sorted(filter(sees, await _tenants(context, gate)))))
    return [each for each in found if each is not None]


async def waiting_over_all(context: Context, gate: Gate, tenants: Iterable[str]) -> list[Standing]:
    """The first thousand that wait for the gate, in the order of their ranks; a division decides between tenants.

    Raises LedgerUnavailable.
    """
    found: list[Standing] = []
    for tenant in tenants:
        if (stored := await context.desks.read(tenant)) is not None:
            known = await desks.directory(context)
            found += await first_waiting(context, aligned(stored.desk, known), gate, known)
    return sorted(found, key=lambda each: each.waiting.candidate.rank)[:MAX_POSITION]


async def _tenants(context: Context, gate: Gate) -> set[str]:
    books = context.of_all_tenants.books
    stored = await books.read(gate.id)
    return {*(stored.book.accounts if stored is not None else ()), *(ask.tenant for ask in await books.asks(gate.id))}
