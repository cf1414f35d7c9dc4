"""Listening sockets. Each accepted connection gets a protocol of asyncio, over TLS if the client starts with TLS."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


_TLS_HANDSHAKE = b"\x16"


class ListenError(Exception):
    """The program cannot listen on the address."""


class Listener:
    """A listening socket. `factory` makes the protocol of each accepted connection."""

    def __init__(
        self, factory: Callable[[], asyncio.BaseProtocol], tls: ssl.SSLContext | None, handshake_timeout_s: float
    ) -> None:
        self._factory = factory
        self._tls = tls
        self._handshake_timeout_s = handshake_timeout_s
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None

    async def open(self, host: str, port: int) -> int:
        """Starts to listen. Returns the port, which is a free port if `port` is 0. Raises ListenError if the address
        cannot be used, for example because the port is in use.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listening = socket.create_server((host, port), family=family, backlog=1024)
        except OSError as error:
            raise ListenError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
        listening.setblocking(False)
        self._socket = listening
        self._start(self._accept(listening))
        return int(listening.getsockname()[1])

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError as error:  # out of descriptors: open connections continue, and the next one may succeed
                log.error("cannot accept a connection reason=%s", error)
                await asyncio.sleep(0.1)
                continue
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self._start(self._serve(accepted))

    async def _serve(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        tls = None
        try:
            if self._tls is not None:
                async with asyncio.timeout(self._handshake_timeout_s):
                    tls = self._tls if await _peek(accepted) == _TLS_HANDSHAKE else None
            await loop.connect_accepted_socket(self._factory, accepted, ssl=tls)
        except (OSError, TimeoutError) as error:
            log.warning("connection lost in its handshake reason=%s", error)
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise


async def _peek(connection: socket.socket) -> bytes:
    """Returns the first received byte, which stays in the socket's buffer; b"" when the peer has closed."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            readable = loop.create_future()
            loop.add_reader(connection, readable.set_result, None)
            try:
                await readable
            finally:
                loop.remove_reader(connection)
