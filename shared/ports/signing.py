"""The signer of statements, and the store of anchors and public keys."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """A public ECDSA key on P-256, with its id."""

    #: SHA-256 of the SubjectPublicKeyInfo (DER), in hex
    key_id: str
    #: SubjectPublicKeyInfo in PEM
    pem: str


class Signer(Protocol):
    """The signing key of `LUCIUS_AUDIT_KEY`. Each method raises KeyUnavailable."""

    async def public_key(self) -> PublicKey:
        """Returns the public key of the current signing key."""

    async def sign(self, key: PublicKey, message: bytes) -> bytes:
        """Returns the DER signature with this key, ECDSA with SHA-256."""


class Kept(Protocol):
    """Files that are created once and never change. Each method raises LedgerUnavailable."""

    async def create(self, name: str, content: AsyncIterable[bytes]) -> bool:
        """Creates the file completely. Returns `False` if the file already exists, and does not change the existing
        file.
        """

    async def read(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        """Returns a part of the file, which is empty after the end of the file. Returns None if the file does not
        exist.
        """

    async def names(self, prefix: str) -> list[str]:
        """Returns the names of the files with this prefix, in order."""
