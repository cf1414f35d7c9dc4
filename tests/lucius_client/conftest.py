"""Fixtures of the tests of the client and of the command."""

from __future__ import annotations

import functools
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lucius_client import AsyncClient, Client, Retries

#: loading the machine's certificates takes 25 ms, and each client of a test would load them
_create_default_context = functools.cache(ssl.create_default_context)


@pytest.fixture(autouse=True)
def _certificates_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ssl, "create_default_context", _create_default_context)


@pytest.fixture
def tenant() -> str:
    """A tenant of this test alone."""
    return f"client-{uuid.uuid4()}"


FAST_RETRIES = Retries(attempts=4, first_s=0.001)


class EitherClient:
    """One of the two clients, with one way to call it."""

    def __init__(self, kind: type[Client] | type[AsyncClient]) -> None:
        self._kind = kind

    async def call(self, url: str, call: Callable[[Any], Any], **options: Any) -> Any:
        client = self._kind(url, **{"retries": FAST_RETRIES, **options})
        try:
            result = call(client)
            if isinstance(result, AsyncIterator):
                return [each async for each in result]
            if hasattr(result, "__await__"):
                return await result
            return list(result) if hasattr(result, "__next__") else result
        finally:
            closed = client.close()
            if closed is not None:
                await closed


@pytest.fixture(params=[Client, AsyncClient])
def either(request: pytest.FixtureRequest) -> EitherClient:
    return EitherClient(request.param)
