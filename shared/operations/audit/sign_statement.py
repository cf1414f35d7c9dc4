"""Signs statements, and stores the public key of each signing key, past and present (R91)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared import telemetry
from shared.audit_refusals import SigningUnavailable
from shared.core.audit.statements import PAYLOAD_TYPE, dsse_envelope, format_statement_time, pre_authentication
from shared.errors import KeyUnavailable, LedgerUnavailable
from shared.operations.process.context import Context
from shared.operations.process.parts import Audit
from shared.ports.signing import PublicKey

_KEYS = "keys/"


@dataclass(frozen=True, kw_only=True)
class KnownKey:
    """The public key of a past or present signing key."""

    key: PublicKey
    is_active: bool
    #: time when LUCIUS stored the key, before its first signature
    since: datetime


async def sign_statement(context: Context, payload: bytes) -> dict[str, Any]:
    """Returns the DSSE envelope of the payload. Raises LedgerUnavailable, SigningUnavailable."""
    key, signature = await sign(context, PAYLOAD_TYPE, payload)
    return dsse_envelope(payload, key.key_id, signature)


async def sign(context: Context, payload_type: str, payload: bytes) -> tuple[PublicKey, bytes]:
    """Returns the key and the DER signature of the payload. Raises LedgerUnavailable, SigningUnavailable.

    The public key is stored before its first signature, so that each signature can always be verified.
    """
    audit = context.require_audit()
    try:
        key = await audit.signer.public_key()
        if key.key_id not in audit.kept_keys:
            await _keep_key(context, audit, key)
        signature = await audit.signer.sign(key, pre_authentication(payload_type, payload))
    except KeyUnavailable as fault:
        telemetry.record_fault(fault, "SIGNING_FAILED")
        telemetry.increment("audit_signing_failures_total")
        raise SigningUnavailable from fault
    return key, signature


def key_name(key_id: str) -> str:
    """Returns the name of the file with a public key."""
    return f"{_KEYS}{key_id}.json"


async def _keep_key(context: Context, audit: Audit, key: PublicKey) -> None:
    text = json.dumps({"keyid": key.key_id, "pem": key.pem, "from": format_statement_time(context.clock.now())})
    # an existing file stays, with its earlier time
    await audit.kept.create(key_name(key.key_id), chunks(text.encode()))
    audit.kept_keys.add(key.key_id)


async def list_keys(context: Context) -> list[KnownKey]:
    """Returns the public key of every past and present signing key, the oldest first. If the signing key is
    unavailable, no key is active.

    Raises LedgerUnavailable.
    """
    audit, active = context.require_audit(), ""
    with telemetry.tolerate(KeyUnavailable, "SIGNING_FAILED"):
        active = (key := await audit.signer.public_key()).key_id
        if active not in audit.kept_keys:
            await _keep_key(context, audit, key)
    found = []
    for name in await audit.kept.names(_KEYS):
        if (content := await audit.kept.read(name)) is None:
            raise LedgerUnavailable(f"public key {name} not found; restore its blob")
        row = json.loads(content)
        key = PublicKey(key_id=row["keyid"], pem=row["pem"])
        since = datetime.fromisoformat(row["from"])
        found.append(KnownKey(key=key, is_active=key.key_id == active, since=since))
    return sorted(found, key=lambda each: each.since)


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    """Yields the content of a small file."""
    for part in parts:
        yield part
