"""Strings that exceed the limit of a table property. The module stores such strings in blobs with a reference, and
never cuts them (R33).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from shared.adapters.tables.table import Entity
from shared.core.records.canonical import digest

#: maximum UTF-16 units of a string property; Azure Tables accepts 32K
MAX_UNITS = 30_000

#: maximum bytes of the strings in a transaction; Azure Tables accepts 4 MiB with the encoding around them
MAX_TRANSACTION_BYTES = 2 * 1024 * 1024
#: maximum units of a string if the transaction would be too large: 60 rows of them stay well below the limit
MAX_UNITS_IF_LARGE = 1_000

#: suffix of a column with the name of the blob that has the original column
SUFFIX = "__blob"


class TextStore(Protocol):
    """A store of texts by name, as blobs."""

    async def put(self, name: str, text: str) -> None:
        """Writes a text. Idempotent, since the name is made from the content. Raises LedgerUnavailable."""

    async def get(self, name: str) -> str:
        """Returns a text. Raises DataLost if the text does not exist. Raises LedgerUnavailable."""

    async def remove(self, prefix: str) -> object:
        """Deletes all texts whose names begin with this prefix. Idempotent. Raises LedgerUnavailable."""


async def offload(entity: dict[str, Any], store: TextStore, *, max_units: int = MAX_UNITS) -> dict[str, Any]:
    """Returns the entity with a reference in place of every string of more than `max_units` UTF-16 units."""
    # a character has one or two units
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
    """Returns the rows of one transaction with references to blobs in place of strings of more than `MAX_UNITS` UTF-16
    units. If the other strings together exceed `MAX_TRANSACTION_BYTES`, strings of more than `MAX_UNITS_IF_LARGE` are
    replaced too. Raises LedgerUnavailable.
    """
    # most rows are small, and a character has one or two units
    if sum(len(value) for entity in entities for value in entity.values() if isinstance(value, str)) <= MAX_UNITS // 2:
        return list(entities)
    small = [await offload(entity, store) for entity in entities]
    texts = [value for entity in small for value in entity.values() if isinstance(value, str)]
    # a character has one to four bytes
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
