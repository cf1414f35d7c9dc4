"""Rows of protocol versions, over the memory and the real tables."""

from __future__ import annotations

from dataclasses import replace

from shared.ports.protocol_versions import StoredVersion
from tests.adapters.conftest import Storage
from tests.jobs import START

VERSION = StoredVersion(
    protocol_id="ocr",
    version=9,
    work_digest="d",
    definition={"protocol_id": "ocr", "description": "x" * 40_000},
    schemas={"ocr.schema.json": {"type": "object"}},
    first_loaded_at=START,
)


async def test_the_first_writer_of_a_version_wins(storage: Storage) -> None:
    """A long definition is returned complete; a second write changes nothing; versions are in order."""
    versions = storage.protocol_versions
    assert await versions.add(VERSION)
    assert not await versions.add(replace(VERSION, work_digest="other"))
    later = replace(VERSION, version=10, definition={})
    assert await versions.add(later)
    assert await versions.read() == [VERSION, later]
