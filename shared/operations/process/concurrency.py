"""Work on many things at the same time, on a bounded number of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

#: where nothing else is said
AT_ONCE = 16

_Piece = TypeVar("_Piece")
_Found = TypeVar("_Found")


async def at_once(
    pieces: Iterable[_Piece], serve: Callable[[_Piece], Awaitable[_Found]], *, limit: int = AT_ONCE
) -> list[_Found]:
    """Returns what `serve` returns for each, in their order, with at most `limit` concurrent calls. Raises what it
    raises first.
    """
    turns = asyncio.Semaphore(limit)

    async def one(piece: _Piece) -> _Found:
        async with turns:
            return await serve(piece)

    return await asyncio.gather(*map(one, pieces))
