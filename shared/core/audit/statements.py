"""Signed statements: in-toto Statements v1 in DSSE envelopes, ECDSA on P-256 over SHA-256 (R91).

https://github.com/secure-systems-lab/dsse/blob/master/protocol.md
https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from shared.core.audit.heads import DayHead, json_lines
from shared.core.records.canonical import jcs

PAYLOAD_TYPE = "application/vnd.in-toto+json"
HEADS_TYPE = "https://lucius.dev/audit/heads/v1"
ANCHOR_TYPE = "https://lucius.dev/audit/anchor/v1"


def heads_statement(
    tenant: str, since: datetime, until: datetime, heads: Sequence[DayHead], *, page: int, last: bool, previous: str
) -> bytes:
    """Returns the payload of one page of heads. The pages of a window together cover every event of the window.

    `previous` is the SHA-256 of the payload of the previous page, or "" for the first page.
    """
    lines = [head.line for head in heads]
    predicate = {
        "tenant": tenant,
        "since": format_statement_time(since),
        "until": format_statement_time(until),
        "page": page,
        "last": last,
        "previous": previous,
        "heads": lines,
    }
    return _statement(HEADS_TYPE, "heads", json_lines(lines), predicate)


def anchor_statement(day: date, previous: str, parts: Sequence[str]) -> bytes:
    """Returns the payload of a day's anchor.

    `parts` has the SHA-256 of the file of each tenant with an event on that day. `previous` is the SHA-256 of the
    payload of the previous day, or "" for the first day.
    """
    ordered = sorted(parts)
    predicate = {"day": day.isoformat(), "previous": previous, "parts": ordered}
    return _statement(ANCHOR_TYPE, "parts", "".join(f"{each}\n" for each in ordered).encode(), predicate)


def _statement(type_: str, name: str, content: bytes, predicate: Mapping[str, Any]) -> bytes:
    return jcs(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": sha256(content)}}],
            "predicateType": type_,
            "predicate": predicate,
        }
    )


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Returns the bytes to sign: the pre-authentication encoding of DSSE."""
    return b"DSSEv1 %d %s %d %s" % (len(payload_type.encode()), payload_type.encode(), len(payload), payload)


def dsse_envelope(payload: bytes, key_id: str, signature: bytes) -> dict[str, Any]:
    """Returns the DSSE envelope that contains a payload and the DER signature of the payload."""
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": key_id, "sig": base64.b64encode(signature).decode()}],
    }


def payload_of(envelope: Mapping[str, Any]) -> bytes:
    """Returns the payload of a DSSE envelope. Raises KeyError or ValueError if the envelope is not valid."""
    return base64.b64decode(envelope["payload"], validate=True)


def is_signed(pem: str, message: bytes, signature: bytes) -> bool:
    """Returns `True` if `signature` (DER) of the message is valid for the public key `pem`."""
    # imported late: it takes a hundredth of the start-up time, and LUCIUS_AUTH_MODE=none does not need it
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = load_pem_public_key(pem.encode())
    if not isinstance(key, EllipticCurvePublicKey):
        return False
    try:
        key.verify(signature, message, ECDSA(SHA256()))
    except InvalidSignature:
        return False
    return True


def sha256(content: bytes) -> str:
    """Returns the SHA-256 digest in hex."""
    return hashlib.sha256(content).hexdigest()


def format_statement_time(at: datetime) -> str:
    """Returns the time in UTC, formatted as in RFC 3339."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
