"""Signed heads, anchors and public keys."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field

from shared.api.response import Cursor, Instant, Response

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class DsseSignature(Response):
    """Signature of a DSSE envelope."""

    keyid: Sha256
    """SHA-256 of the public key's SubjectPublicKeyInfo (DER), in hex."""
    sig: str
    """Signature over DSSE's pre-authentication encoding of the payload: ECDSA with SHA-256 on P-256, DER, in base64."""


class DsseEnvelope(Response):
    """DSSE envelope of an in-toto Statement v1."""

    payloadType: Literal["application/vnd.in-toto+json"]
    payload: str
    """Statement as canonical JSON (RFC 8785), in base64."""
    signatures: list[DsseSignature]


class HeadsPage(Response):
    """Signed page of heads: the last event of each job, and of each log of a quota or incident, on each day."""

    envelope: DsseEnvelope
    """Signed statement with the tenant, the window, the page number and the digest of the previous page."""
    next: Cursor
    """Cursor of the next page. Null on the last page."""


class Anchor(Response):
    """A day's anchor: signed digests of the heads of all tenants."""

    day: date
    envelope: DsseEnvelope
    """Signed statement with the digests of each tenant's file and of the previous day's anchor."""
    lines: list[dict[str, Any]]
    """Records of the tenant's file, or an empty list if the tenant had no event on this day. The first record has the
    tenant and the day, and `complete` is `false` if heads are missing. Each other record is a head. The file has the
    canonical JSON (RFC 8785) of each record, and a newline after each record."""


class AnchorPage(Response):
    """Anchors, oldest first. A day that exceeds a page continues on the next page."""

    anchors: list[Anchor]
    next: Cursor


class AuditKey(Response):
    """Public key that signs, or signed, heads and anchors."""

    keyid: Sha256
    pem: str
    """Public key (SubjectPublicKeyInfo) in PEM."""
    state: Literal["active", "retired"]
    """`active` if the key signs now. While LUCIUS cannot read the signing key, every key is `retired`."""
    first_signed_at: Instant
    """Time when LUCIUS stored the key, before its first signature."""


class AuditKeys(Response):
    """The current key, and every key that ever signed heads or anchors, oldest first."""

    keys: list[AuditKey]
