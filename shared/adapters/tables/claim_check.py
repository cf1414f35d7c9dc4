"""Strings that are too long for a table property: stored in a blob and referenced, never cut (R33)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from shared.adapters.tables.table import Entity
from shared.core.canonical import digest

#: UTF-16 units; Azure Tables takes 32K of them in a string property
MAX_UNITS = 30_000

#: Azure Tables takes 4 MiB in a transaction; the encoding around the strings is not counted here
MAX_TRANSACTION_BYTES = 2 * 1024 * 1024
#: of a string in a transaction that would be larger: 60 rows of them stay well below
MAX_UNITS_IF_LARGE = 1_000

#: a column of this suffix names the blob that holds the column without it
SUFFIX = "__blob"


class TextStore(Protocol):
    """Blobs of text by name."""

    async def put(self, name: str, text: str) -> None:
        """Writes a text. Idempotent: names are made of their content. Raises LedgerUnavailable."""

    async def get(self, name: str) -> str:
        """Raises DataLost where there is none, and LedgerUnavailable."""

    async def remove(self, prefix: str) -> object:
        """Deletes all texts whose names begin with this prefix. Idempotent. Raises LedgerUnavailable."""


async def offload(entity: dict[str, Any], store: TextStore, *, max_units: int = MAX_UNITS) -> dict[str, Any]:
    """Returns the entity with every long string replaced by a reference."""
    # a character is one or two units
    half = max_units // 2
    long = [
        name
        for name, value in entity.items()
        if isinstance(value, str) and len(value) > half and _units(value) > max_units
    ]
    if not long:
        return entity
    small = dict(entity)
    for name in long:
        text = small.pop(name)
        blob = f"{entity['PartitionKey']}/{digest(text)}"
        await store.put(blob, text)
        small[name + SUFFIX] = blob
    return small


async def offload_all(entities: Sequence[dict[str, Any]], store: TextStore) -> list[dict[str, Any]]:
    """Does the same for the rows of one transaction, which together must not exceed its size limit."""
    # most rows are small, and a character is one or two units
    if sum(len(value) for entity in entities for value in entity.values() if isinstance(value, str)) <= MAX_UNITS // 2:
        return list(entities)
    small = [await offload(entity, store) for entity in entities]
    texts = [value for entity in small for value in entity.values() if isinstance(value, str)]
    # a character is one to four bytes
    if 4 * sum(map(len, texts)) <= MAX_TRANSACTION_BYTES:
        return small
    if sum(len(text.encode()) for text in texts) <= MAX_TRANSACTION_BYTES:
        return small
    return list(await asyncio.gather(*(offload(entity, store, max_units=MAX_UNITS_IF_LARGE) for entity in small)))


async def restore(entity: Entity, store: TextStore) -> Entity:
    """Returns the entity with every reference replaced by its string. Raises DataLost, LedgerUnavailable."""
    referenced = [name for name in entity if name.endswith(SUFFIX)]
    if not referenced:
        return entity
    whole = Entity(entity, entity.metadata["etag"], entity.int64)
    for name in referenced:
        whole[name.removesuffix(SUFFIX)] = await store.get(whole.pop(name))
    return whole


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
