"""Both transports of rows, and a store that sends them the responses of a test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables.aio import TableServiceClient

from shared.adapters.tables.account import SdkTable
from shared.adapters.tables.direct import DirectAccount, DirectTable
from shared.adapters.tables.table import Entity, Table
from shared.errors import LuciusError
from shared.time_limits import StoreLimits

TRANSPORTS = ("direct", "sdk")


async def found(table: Table, query: str, **parameters: Any) -> list[Entity]:
    return [entity async for entity in table.query_entities(query, parameters=parameters)]


async def outcome(call: Awaitable[object]) -> object:
    """Returns the result of a call, or the class of its error."""
    try:
        return await call
    except LuciusError as error:
        return type(error)


#: limits for a store with wrong responses: minimum waits of retries; connecting and responding are slow only on a busy
#: machine
LIMITS = StoreLimits(connect_s=20, read_s=60, retries=2, backoff_s=0.01)
#: limits for a store that may not respond
SILENT = replace(LIMITS, read_s=0.5)


JSON = "Content-Type: application/json\r\n"
CODE = '{"odata.error":{"code":"ServerSays","message":{"lang":"en","value":"why"}}}'


def answer(status: int, body: str = "", headers: str = JSON, *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} Status\r\n{headers}Content-Length: {size}\r\n\r\n{body}".encode()


class Store:
    """Answers each request with the next of its answers, and the last again and again."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        #: of the requests
        self.heads: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:-1])
                await reader.readexactly(int(lines.get(b"content-length", 0)))
                self.heads.append(head.decode())
                response = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if response is None:
                    continue
                writer.write(response)
                await writer.drain()
                if (
                    not response.startswith(b"HTTP/1.1 ")
                    or b"Content-Length: 100" in response
                    or response.endswith(b" 20")
                ):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
        """Its address; https with `tls`."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()


@asynccontextmanager
async def table_at(name: str, url: str, limits: StoreLimits = LIMITS) -> AsyncIterator[Table]:
    key = AzureNamedKeyCredential("a", "a2V5")
    async with TableServiceClient(url, credential=key, **limits.options) as service:
        direct = DirectAccount(url, key, limits)
        yield SdkTable(service.get_table_client("ledger")) if name == "sdk" else DirectTable(direct, "ledger")
        await direct.close()
