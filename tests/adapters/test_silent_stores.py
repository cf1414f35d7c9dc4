"""Stores, issuer and engine that take a call and never answer: each call ends by itself (R43)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from shared.adapters import durable_orchestrations, jwt_keys
from shared.adapters.app_configuration import AppConfigurationStore
from shared.adapters.blobs import BlobTexts
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.adapters.jwt_keys import JwtKeys
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.ledger import TablesLedger
from shared.errors import (
    ConfigurationUnavailable,
    KeysUnavailable,
    LedgerUnavailable,
    OrchestrationUnavailable,
    Transient,
)
from shared.ports.ledger import Stored
from shared.time_limits import StoreLimits
from tests.jobs import planned

#: of the calls to a store that never answers
SHORT = StoreLimits(connect_s=0.2, read_s=0.2, retries=1)
#: base64, as Azure's accounts have them
KEY = "a2V5"

Call = Callable[[int], Awaitable[object]]


def _store(port: int) -> str:
    endpoints = "".join(f"{kind}Endpoint=http://127.0.0.1:{port}/a;" for kind in ("Table", "Blob"))
    return f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey={KEY};{endpoints}"


async def _ledger(port: int, use: Callable[[TablesLedger], Awaitable[object]]) -> None:
    account = TablesAccount.connect(
        connection=_store(port), endpoint=None, credential=None, version_table="luciustenants", limits=SHORT
    )
    texts = BlobTexts.connect(connection=_store(port), endpoint=None, credential=None, limits=SHORT)
    try:
        await use(TablesLedger(account, "ledger", texts))
    finally:
        await account.close()
        await texts.close()


async def _texts(port: int, use: Callable[[BlobTexts], Awaitable[object]]) -> None:
    texts = BlobTexts.connect(connection=_store(port), endpoint=None, credential=None, limits=SHORT)
    try:
        await use(texts)
    finally:
        await texts.close()


async def _configuration(port: int, use: Callable[[AppConfigurationStore], Awaitable[object]]) -> None:
    connection = f"Endpoint=http://127.0.0.1:{port};Id=i;Secret={KEY}"
    store = AppConfigurationStore.connect(connection=connection, endpoint=None, credential=None, limits=SHORT)
    try:
        await use(store)
    finally:
        await store.close()


class SilentClient:
    """A durable client whose host accepts every call and responds to none."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[None]]:
        async def call(*_: object) -> None:
            await asyncio.sleep(600)

        return call


ENGINE = DurableOrchestrations(SilentClient(), "job")  # type: ignore[arg-type]  # it has every method

STORED = Stored(planned(), "etag")

CALLS: dict[str, tuple[type[Transient], Call]] = {
    "a row": (LedgerUnavailable, lambda port: _ledger(port, lambda ledger: ledger.read("job_1"))),
    "a transaction": (LedgerUnavailable, lambda port: _ledger(port, lambda ledger: ledger.remove(STORED))),
    "a search": (LedgerUnavailable, lambda port: _ledger(port, lambda ledger: ledger.find_event("job_1", "cause"))),
    "a blob read": (LedgerUnavailable, lambda port: _texts(port, lambda texts: texts.get("a"))),
    "a blob written": (LedgerUnavailable, lambda port: _texts(port, lambda texts: texts.put("a", "b"))),
    "blobs removed": (LedgerUnavailable, lambda port: _texts(port, lambda texts: texts.remove("a"))),
    "a probe": (
        LedgerUnavailable,
        lambda port: BlobTexts.connect(connection=_store(port), endpoint=None, credential=None, limits=SHORT).check(),
    ),
    "a version": (ConfigurationUnavailable, lambda port: _configuration(port, lambda store: store.version())),
    "settings": (ConfigurationUnavailable, lambda port: _configuration(port, lambda store: store.read())),
    "keys": (KeysUnavailable, lambda port: JwtKeys(f"http://127.0.0.1:{port}/keys", time.monotonic).key("k")),
    "an event": (OrchestrationUnavailable, lambda _: ENGINE.raise_event("job_1", "ack", {})),
    "a start": (OrchestrationUnavailable, lambda _: ENGINE.start("job_1", {})),
    "a state": (OrchestrationUnavailable, lambda _: ENGINE.look_up("job_1")),
}


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_to_a_silent_store_ends(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the transient error of its port, long before the SDKs' own timeouts."""
    monkeypatch.setattr(jwt_keys, "KEYS_CALL_S", 0.3)
    monkeypatch.setattr(durable_orchestrations, "ENGINE_CALL_S", 0.3)
    error, made = CALLS[call]
    async with _silent() as port:
        with pytest.raises(error):
            await asyncio.wait_for(made(port), 60)


@asynccontextmanager
async def _silent() -> AsyncIterator[int]:
    """Yields the port of a server that reports that a table exists, and nothing else."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line.startswith(b"POST /a/Tables"):
                writer.write(
                    b"HTTP/1.1 409 Conflict\r\nx-ms-error-code: TableAlreadyExists\r\nContent-Length: 0\r\n\r\n"
                )

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
