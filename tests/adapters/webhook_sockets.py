"""Receivers of webhooks on loopback, and lookups of names that lead there."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from shared.adapters.webhook_http import Lookup

Receiver = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BODY = b'{"specversion":"1.0"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#: seconds far above the machine's need, far below the test's own limit
LONG_S = 60.0
LOOPBACK = frozenset({"127.0.0.1:*", "receiver.test:*"})


@asynccontextmanager
async def listening(receive: Receiver, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Yields the port of a server on loopback that reads a request's head and body, then calls `receive`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"Content-Length" in head:
                await reader.readexactly(len(BODY))
            await receive(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answering(content: bytes) -> Receiver:
    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return receive


def leading_to(*addresses: str) -> Lookup:
    async def lookup(host: str, port: int) -> list[str]:
        return list(addresses)

    return lookup
