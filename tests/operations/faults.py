"""Methods of ports and modules that fail, that run other work, or whose calls are recorded, in a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine
from functools import partial
from typing import Any

from shared.errors import LedgerUnavailable

_Method = Callable[..., Coroutine[Any, Any, Any]]


class Fault:
    """Intercepts methods of `target` until it `ends`, or its `with` is over."""

    def __init__(self, target: Any, names: tuple[str, ...], call: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._target = target
        self._real: dict[str, _Method] = {name: getattr(target, name) for name in names}
        for name, real in self._real.items():
            setattr(target, name, partial(call, real))

    def ends(self) -> None:
        for name, real in self._real.items():
            setattr(self._target, name, real)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.ends()


def failing(
    target: Any,
    *names: str,
    error: BaseException | type[BaseException] = LedgerUnavailable,
    only: Callable[..., Any] = lambda *_, **__: True,
    at: Container[int] | None = None,
    after: bool = False,
) -> Fault:
    """Raises `error` in methods of `target`, before they take effect, or `after` they did.

    `only`: whether calls with such arguments fail; `at`: which ones of those, from 1.
    """
    count = 0

    async def call(real: _Method, *args: Any, **fields: Any) -> Any:
        nonlocal count
        # others come meanwhile
        await asyncio.sleep(0)
        fails = bool(only(*args, **fields))
        count += fails
        fails = fails and (at is None or count in at)
        if fails and not after:
            raise error
        answer = await real(*args, **fields)
        if fails:
            raise error
        return answer

    return Fault(target, names, call)


def noted(target: Any, *names: str) -> list[tuple[Any, ...]]:
    """Returns a list that gets each further call of methods of `target`: the name and the positional arguments."""
    found: list[tuple[Any, ...]] = []

    def note(name: str) -> None:
        async def call(real: _Method, *args: Any, **fields: Any) -> Any:
            found.append((name, *args))
            # others come meanwhile
            await asyncio.sleep(0)
            return await real(*args, **fields)

        Fault(target, (name,), call)

    for name in names:
        note(name)
    return found


def meanwhile(target: Any, name: str, act: Callable[[], Awaitable[Any]], *, after: bool = False) -> None:
    """Awaits `act` before the next call of a method of `target` takes effect, or `after` it did."""

    async def call(real: _Method, *args: Any, **fields: Any) -> Any:
        fault.ends()
        if not after:
            await act()
        answer = await real(*args, **fields)
        if after:
            await act()
        return answer

    fault = Fault(target, (name,), call)
