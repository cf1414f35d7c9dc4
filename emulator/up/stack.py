"""All children of a stack. Each child starts when the children that it needs are ready, and stops before these
children.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from emulator.up.child import Child, ChildSpec, Log
from emulator.up.data_dir import DataDir


class Stack:
    """Waves of children. The children of a wave start together, when all children of the previous wave are ready.

    The children stop in the order of their `stop_rank`.
    """

    def __init__(self, waves: Sequence[Sequence[ChildSpec]], data: DataDir, log: Log) -> None:
        self._data = data
        self._waves = [[Child(spec, data, log, self._write_state) for spec in wave] for wave in waves]
        self._children = [child for wave in self._waves for child in wave]

    async def serve(self, stop: asyncio.Event, on_wave: Callable[[int], Awaitable[None]]) -> None:
        """Serves until `stop` is set. Awaits `on_wave(n)` when wave n is ready. At the last wave, all children serve.

        If a child raises ChildFailed, raises this error after the other children have stopped.
        """
        keepers: list[asyncio.Task[None]] = []
        stopping = asyncio.create_task(stop.wait())
        try:
            for number, wave in enumerate(self._waves):
                keepers += [asyncio.create_task(child.keep_running()) for child in wave]
                ready = asyncio.create_task(_all_ready(wave))
                try:
                    await asyncio.wait({stopping, ready, *keepers}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    ready.cancel()
                if _first_failure(keepers) or stop.is_set():
                    break
                await on_wave(number)
            else:
                await asyncio.wait({stopping, *keepers}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            failure = _first_failure(keepers)
            stopping.cancel()
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            await self._stop()
        if failure:
            raise failure

    def kill(self) -> None:
        """Kills every child."""
        for child in self._children:
            child.kill()

    async def _stop(self) -> None:
        for rank in sorted({child.spec.stop_rank for child in self._children}):
            await asyncio.gather(*(child.stop() for child in self._children if child.spec.stop_rank == rank))

    def _write_state(self) -> None:
        self._data.write_state({child.spec.name: child.state for child in self._children})


async def _all_ready(wave: Sequence[Child]) -> None:
    for child in wave:
        await child.ready.wait()


def _first_failure(keepers: Sequence[asyncio.Task[None]]) -> BaseException | None:
    for keeper in keepers:
        if keeper.done() and not keeper.cancelled() and keeper.exception():
            return keeper.exception()
    return None
