"""Logs and artifacts of runs in Azurite, and links that a managed identity signs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from azure.storage.blob import UserDelegationKey
from azure.storage.blob.aio import BlobServiceClient

from shared.adapters.blob_runs import BlobRuns
from shared.errors import RunsUnavailable
from shared.time_limits import STORE

NOW = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)


@pytest.fixture
async def service(azurite: str) -> AsyncIterator[BlobServiceClient]:
    async with BlobServiceClient.from_connection_string(azurite) as service:
        yield service


async def test_what_the_runner_writes_is_read(azurite: str, service: BlobServiceClient) -> None:
    """Nothing is there before; a position at the end is no error; links lead to the content, as an attachment."""
    runs = BlobRuns.connect(connection=azurite, endpoint="", credential=None, now=lambda: datetime.now(UTC))
    assert await runs.read_log("a/b", "job_1", 1, offset=0, limit=9) is None
    assert await runs.artifacts("a/b", "job_1", 1) == []
    container = service.get_container_client("runs")
    await container.create_container()
    log = container.get_blob_client("a=2Fb/job_1/1.log")
    await log.create_append_blob()
    for _ in range(2):
        part = await runs.read_log("a/b", "job_1", 1, offset=0, limit=9)
        assert part is not None
        assert (part.data, part.written_at) == (b"", None)
    await log.append_block(b"0123456789")
    part = await runs.read_log("a/b", "job_1", 1, offset=2, limit=3)
    assert part is not None
    assert part.data == b"234"
    assert part.written_at is not None
    end = await runs.read_log("a/b", "job_1", 1, offset=10, limit=3)
    assert end is not None
    assert end.data == b""
    for name in ("1/b.txt", "1/a.txt", "10/other.txt"):
        await container.upload_blob(f"a=2Fb/job_1/{name}", name.encode())
    assert [(each.name, each.size) for each in await runs.artifacts("a/b", "job_1", 1)] == [("a.txt", 7), ("b.txt", 7)]
    soon = datetime.now(UTC) + timedelta(minutes=5)
    link = await runs.link("a/b", "job_1", 1, "a.txt", until=soon)
    late = await runs.link("a/b", "job_1", 1, "a.txt", until=datetime.now(UTC) - timedelta(minutes=1))
    async with httpx.AsyncClient() as http:
        response = await http.get(link)
        others = [(await http.get(url)).status_code for url in (link.replace("a.txt?", "b.txt?"), late)]
    assert (response.content, response.headers["Content-Disposition"]) == (b"1/a.txt", 'attachment; filename="a.txt"')
    assert others == [403, 403]


class Signing(BlobServiceClient):
    """Storage that gives a delegation key, which Azurite does only over https with a token."""

    fetched = 0

    async def get_user_delegation_key(self, start: datetime, expiry: datetime, **_: Any) -> UserDelegationKey:  # type: ignore[override]
        self.fetched += 1
        key = UserDelegationKey()
        key.signed_oid = key.signed_tid = "00000000-0000-0000-0000-000000000001"
        key.signed_start, key.signed_expiry = f"{start:%Y-%m-%dT%H:%M:%SZ}", f"{expiry:%Y-%m-%dT%H:%M:%SZ}"
        key.signed_service, key.signed_version, key.value = "b", "2023-11-03", "a2V5"
        return key


class Identity:
    """A managed identity."""

    async def get_token(self, *_: str, **__: Any) -> Any:
        raise AssertionError("no request is sent")


async def test_a_managed_identity_signs_many_links_with_one_key() -> None:
    """With its own user delegation key, over https, for reading one blob; a new key before the old one ends."""
    now = [NOW]
    async with Signing("https://account.blob.core.windows.net", credential=Identity()) as service:  # type: ignore[arg-type]
        runs = BlobRuns(service, lambda: now[0])
        for _ in range(2):
            link = await runs.link("acme", "job_1", 1, "a.txt", until=now[0] + timedelta(minutes=5))
        query = {name: value for name, [value] in parse_qs(urlsplit(link).query).items()}
        assert link.startswith("https://account.blob.core.windows.net/runs/acme/job_1/1/a.txt?")
        assert (query["sp"], query["sr"], query["spr"], query["se"]) == ("r", "b", "https", "2026-01-27T10:05:00Z")
        assert query["skoid"] == "00000000-0000-0000-0000-000000000001"
        assert service.fetched == 1
        now[0] += timedelta(minutes=58)
        await runs.link("acme", "job_1", 1, "a.txt", until=now[0] + timedelta(minutes=5))
        assert service.fetched == 2


async def test_storage_that_is_away_is_an_error_that_passes() -> None:
    async with BlobServiceClient("http://127.0.0.1:9/account", credential=None, **STORE.blob_options) as service:
        runs = BlobRuns(service, lambda: NOW)
        with pytest.raises(RunsUnavailable):
            await runs.read_log("acme", "job_1", 1, offset=0, limit=1)
