"""Strings too long for a table property go to a blob and are referenced, never cut (DESIGN 3)."""

from __future__ import annotations

from typing import Any, Protocol

from shared.core.canonical import digest

#: UTF-16 units; Azure Tables takes 32K of them in a string property
MAX_UNITS = 30_000

#: a column of this suffix names the blob that holds the column without it
SUFFIX = "__blob"


class TextStore(Protocol):
    """Blobs of text by name."""

    async def put(self, name: str, text: str) -> None:
        """Writing the same name again is harmless: names are made of their content. Raises LedgerUnavailable."""

    async def get(self, name: str) -> str:
        """Raises LedgerUnavailable."""

    async def remove(self, prefix: str) -> None:
        """All whose names begin so; none is harmless. Raises LedgerUnavailable."""


async def stow(entity: dict[str, Any], store: TextStore) -> dict[str, Any]:
    """The entity with every long string replaced by a reference."""
    long = [name for name, value in entity.items() if isinstance(value, str) and _units(value) > MAX_UNITS]
    if not long:
        return entity
    small = dict(entity)
    for name in long:
        text = small.pop(name)
        blob = f"{entity['PartitionKey']}/{digest(text)}"
        await store.put(blob, text)
        small[name + SUFFIX] = blob
    return small


async def unstow(entity: dict[str, Any], store: TextStore) -> dict[str, Any]:
    """The entity with every reference replaced by its string."""
    referenced = [name for name in entity if name.endswith(SUFFIX)]
    if not referenced:
        return entity
    whole = dict(entity)
    for name in referenced:
        whole[name.removesuffix(SUFFIX)] = await store.get(whole.pop(name))
    return whole


def _units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
