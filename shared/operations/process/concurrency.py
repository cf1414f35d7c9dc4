"""Runs calls for several items concurrently, up to a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

#: default number of concurrent calls
AT_ONCE = 16

_Piece = TypeVar("_Piece")
_Found = TypeVar("_Found")


async def run_concurrently(
    pieces: Iterable[_Piece], serve: Callable[[_Piece], Awaitable[_Found]], *, limit: int = AT_ONCE
) -> list[_Found]:
    """Returns the results of `serve` in order, with at most `limit` concurrent calls. Raises the first error of
    `serve`, while the other calls continue.
    """
    turns = asyncio.Semaphore(limit)

    async def one(piece: _Piece) -> _Found:
        async with turns:
            return await serve(piece)

    return await asyncio.gather(*map(one, pieces))
