"""What signs statements, and where anchors and public keys are kept."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """An ECDSA key on P-256."""

    #: SHA-256 of its SubjectPublicKeyInfo (DER), in hex
    key_id: str
    #: SubjectPublicKeyInfo
    pem: str


class Signer(Protocol):
    """The key of the setting. Each method raises KeyUnavailable."""

    async def public_key(self) -> PublicKey:
        """The key that signs now."""

    async def sign(self, key: PublicKey, message: bytes) -> bytes:
        """Returns the DER signature, ECDSA with SHA-256, by this key."""


class Kept(Protocol):
    """Files that are created once and never changed. Each method raises LedgerUnavailable."""

    async def create(self, name: str, content: AsyncIterable[bytes]) -> bool:
        """Creates the file as a whole; False: there is one of that name already, which stays as it is."""

    async def read(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        """Returns a part of the file; empty past its end. None: there is no such file."""

    async def names(self, prefix: str) -> list[str]:
        """Returns the names of the files with the prefix, in their order."""
