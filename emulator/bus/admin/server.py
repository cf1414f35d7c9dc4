"""HTTP on the admin port."""

from __future__ import annotations

import time

from aiohttp import web

from emulator.bus.broker.topic import Topic
from emulator.bus.server import BusServer


class AdminServer:
    """Serves `GET /health` and `GET /entities`."""

    def __init__(self, bus: BusServer) -> None:
        self._bus = bus
        app = web.Application()
        app.add_routes([web.get("/health", self._health), web.get("/entities", self._entities)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def listen(self, host: str, port: int) -> int:
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        await self._runner.cleanup()

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "connections": len(self._bus.clients), "cpu_s": time.process_time()})

    async def _entities(self, request: web.Request) -> web.Response:
        counts = {}
        for destination in self._bus.broker.destinations.values():
            entity = destination.entity
            if isinstance(entity, Topic):
                counts.update({item.queue.path: item.queue.counts() for item in entity.subscriptions.values()})
            else:
                counts[entity.path] = entity.counts()
        return web.json_response(counts)
