"""AMQP over WebSockets (OASIS "AMQP WebSocket Binding"): each binary message has bytes of the AMQP stream."""

from __future__ import annotations

import asyncio
import contextlib

from aiohttp import WSMsgType, web

from servicebus_emulator.server import WRITE_LIMIT_BYTES, BusServer, Client

PATH = "/$servicebus/websocket"
_SUBPROTOCOLS = ("amqp", "AMQPWSB10")


class _WebSocketTransport:
    """A `server.ByteTransport`: a queue of bytes that a task sends over the WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, client: Client) -> None:
        self._socket = socket
        self._client = client
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._waiting = 0
        self._closing = False

    def write(self, data: bytes) -> None:
        self._waiting += len(data)
        if self._waiting > WRITE_LIMIT_BYTES:
            self._client.pause_writing()
        self._queue.put_nowait(data)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._queue.put_nowait(None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    async def run(self) -> None:
        """Sends the queued bytes until the transport is closed."""
        with contextlib.suppress(ConnectionError):
            while (data := await self._queue.get()) is not None:
                await self._socket.send_bytes(data)
                paused = self._waiting > WRITE_LIMIT_BYTES
                self._waiting -= len(data)
                if paused and self._waiting <= WRITE_LIMIT_BYTES:
                    self._client.resume_writing()
        await self._socket.close()


async def serve(bus: BusServer, request: web.Request) -> web.StreamResponse:
    """Serves one client over a WebSocket, from the upgrade until the connection is closed."""
    socket = web.WebSocketResponse(protocols=_SUBPROTOCOLS)
    await socket.prepare(request)
    client = Client(bus)
    transport = _WebSocketTransport(socket, client)
    client.attach(transport)
    sender = asyncio.create_task(transport.run())
    try:
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                client.data_received(message.data)
    finally:
        client.connection_lost(None)
        transport.close()
        await sender
    return socket
