"""Serves the work of many tenants in turns until the time is over: 16 units at the same time, and no tenant blocks
another (R19).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from shared.operations.process.concurrency import run_concurrently

#: maximum units of work, and tenants whose work is listed, at the same time
AT_ONCE = 16
#: units between two checks of the clock, and the maximum of one tenant per turn if no other waits
_ROUND = 256

_Piece = TypeVar("_Piece")


async def in_turns(
    tenants: Sequence[str],
    page: Callable[[str, int], Awaitable[Sequence[_Piece]]],
    serve: Callable[[_Piece], Awaitable[None]],
    is_over: Callable[[], bool],
    *,
    pieces: int | None = None,
) -> str | None:
    """Serves the results of `page(tenant, limit)` until no tenant has more, and returns None.

    If the time is over first, returns the next tenant. The first turn is always taken. `pieces`: maximum number of
    units between two checks of the time (default: 256).

    A page shorter than its limit is the last page of a tenant. A page must not repeat a unit. Raises errors of `page`
    and `serve`.
    """
    waiting = deque(tenants)
    while waiting:
        turn = [waiting.popleft() for _ in range(min(AT_ONCE, len(waiting)))]
        limit = max(1, (pieces or _ROUND) // len(turn))
        pages = await asyncio.gather(*(page(tenant, limit) for tenant in turn))
        await run_concurrently([piece for found in pages for piece in found], serve, limit=AT_ONCE)
        waiting.extend(tenant for tenant, found in zip(turn, pages, strict=True) if len(found) >= limit)
        if waiting and is_over():
            return waiting[0]
    return None


def from_anywhere(pieces: Sequence[_Piece], random: Callable[[], float]) -> list[_Piece]:
    """Returns the pieces in rotated order from a random start, so that no piece is always the last if the time is too
    short.

    `random`: returns a number from 0 to below 1. It is called only for two or more pieces.
    """
    first = int(random() * len(pieces)) if len(pieces) > 1 else 0
    return [*pieces[first:], *pieces[:first]]


def from_on(tenants: Sequence[str], first: str | None) -> list[str]:
    """Returns the tenants in sorted order, rotated to start with `first`, or with the next tenant if `first` is
    missing.
    """
    ordered = sorted(tenants)
    return [each for each in ordered if first is None or each >= first] + [
        each for each in ordered if first is not None and each < first
    ]
