"""Files that are created once: `KeptBlobs` over Azurite and `KeptInMemory`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from shared.adapters.kept_blobs import KeptBlobs, KeptInMemory
from shared.errors import LedgerUnavailable
from shared.operations.audit.sign_statement import chunks
from shared.ports.signing import Kept


@pytest.fixture(params=["memory", "blobs"])
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    if request.param == "memory":
        yield KeptInMemory()
        return
    blobs = KeptBlobs.connect(connection=request.getfixturevalue("azurite"), endpoint=None, credential=None)
    yield blobs
    await blobs.close()


async def test_a_file_is_created_once(kept: Kept) -> None:
    """Also one of several blocks from two writers."""
    folder = f"{uuid.uuid4().hex}/"
    assert await kept.names(folder) == []
    assert await kept.read(f"{folder}a") is None
    large = [b"%d" % number * 1_000_000 for number in range(6)]
    assert await kept.create(f"{folder}b", chunks(*large))
    assert not await kept.create(f"{folder}b", chunks(b"another"))
    assert not await kept.create(f"{folder}b", chunks(*large[::-1]))
    assert await kept.read(f"{folder}b") == b"".join(large)
    assert await kept.read(f"{folder}b", offset=999_999, length=2) == b"01"
    assert await kept.read(f"{folder}b", offset=6_000_000, length=10) == b""
    created = await asyncio.gather(*(kept.create(f"{folder}a", chunks(b"%d" % number)) for number in range(4)))
    assert sum(created) == 1
    assert await kept.read(f"{folder}a") == b"%d" % created.index(True)
    assert await kept.names(folder) == [f"{folder}a", f"{folder}b"]


async def test_a_file_whose_writer_fails_is_not_there(kept: Kept) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x" * 5_000_000
        raise LedgerUnavailable("the tables do not answer")

    name = uuid.uuid4().hex
    with pytest.raises(LedgerUnavailable, match="tables"):
        await kept.create(name, failing())
    assert await kept.read(name) is None
    assert await kept.create(name, chunks(b"again"))
