"""Signed statements: DSSE envelopes around in-toto statements, by ECDSA keys on P-256.

`docs/guides/audit.md` describes the statements of LUCIUS.
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md defines the envelope, and
https://in-toto.io/Statement/v1 defines the statement.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from lucius_verify.json_rows import Row, parse_object

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
#: suffixes of the predicate types
HEADS, ANCHOR = "/audit/heads/v1", "/audit/anchor/v1"
_MAX_PEM = 16_384
#: maximum signatures of one envelope; further ones are not read
_MAX_SIGNATURES = 10

Key = ec.EllipticCurvePublicKey


class NotValid(Exception):
    """The envelope, its signature or its statement is invalid. The message is the reason."""


@dataclass(frozen=True)
class Statement:
    """The statement of an envelope whose signature is valid."""

    kind: str
    predicate: Row
    subject: list[Row]
    key_id: str
    #: SHA-256 of the payload in hex, which the next statement names
    digest: str


def pae(payload_type: str, payload: bytes) -> bytes:
    """Returns the bytes that are signed: DSSE's pre-authentication encoding."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def key_id(key: Key) -> str:
    """Returns the SHA-256 of the key's SubjectPublicKeyInfo (DER), in hex."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def read_key(pem: bytes) -> Key:
    """Reads an ECDSA public key on P-256 in PEM. Raises ValueError."""
    if len(pem) > _MAX_PEM:
        raise ValueError(f"a public key cannot have more than {_MAX_PEM} bytes")
    try:
        key = load_pem_public_key(pem)
    except Exception as wrong:  # OpenSSL raises errors of many types
        raise ValueError("the content is not a public key in PEM") from wrong
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise ValueError("the key is not an ECDSA key on P-256")
    return key


class Keys:
    """The keys that the user named, and the keys in the bundle."""

    def __init__(self, named: Iterable[str]) -> None:
        """Reads the keys that the user named: files with a public key in PEM, or key ids in hex. Raises ValueError."""
        self._keys: dict[str, Key] = {}
        self.named: set[str] = set()
        for each in named:
            if len(each) == 64 and all(digit in "0123456789abcdef" for digit in each.lower()):
                self.named.add(each.lower())
                continue
            try:
                key = read_key(Path(each).read_bytes())
            except (OSError, ValueError) as wrong:
                raise ValueError(f"cannot read the key {each}: {wrong}") from None
            self._keys[key_id(key)] = key
            self.named.add(key_id(key))
        #: ids of keys that signed a statement
        self.used: set[str] = set()

    def add(self, document: Row) -> None:
        """Adds the keys of `GET /v1/audit/keys`. Raises NotValid."""
        try:
            for each in document["keys"]:
                key = read_key(each["pem"].encode())
                if key_id(key) != each["keyid"]:
                    raise ValueError(f"the id of key {each['keyid']} is not the SHA-256 of the key")
                self._keys.setdefault(key_id(key), key)
        except (AttributeError, LookupError, TypeError, ValueError) as wrong:
            raise NotValid(f"invalid public key: {wrong}") from None

    def open(self, envelope: Row, kind: str, file: str) -> Statement:
        """Returns the statement of an envelope after checking its signature. Raises NotValid, Unreadable."""
        try:
            payload = base64.b64decode(envelope["payload"], validate=True)
            if envelope["payloadType"] != PAYLOAD_TYPE:
                raise NotValid(f"the payload type is not {PAYLOAD_TYPE}")
            found = self._signed_by(payload, envelope["signatures"])
            document = parse_object(payload, file)
            if document["_type"] != STATEMENT or not document["predicateType"].endswith(kind):
                raise NotValid("the type of the statement or of its predicate is invalid")
            predicate, subject = document["predicate"], document["subject"]
        except (AttributeError, LookupError, TypeError, binascii.Error) as wrong:
            raise NotValid(f"the file is not a signed statement: {type(wrong).__name__}: {wrong}") from None
        if not isinstance(predicate, Mapping) or not isinstance(subject, list):
            raise NotValid("the statement must have an object as predicate and a list as subject")
        self.used.add(found)
        return Statement(kind, dict(predicate), subject, found, hashlib.sha256(payload).hexdigest())

    def _signed_by(self, payload: bytes, signatures: list[Row]) -> str:
        """Returns the id of the first known key with a valid signature. Tries keys that the user named first."""
        message = pae(PAYLOAD_TYPE, payload)
        for each in sorted(signatures[:_MAX_SIGNATURES], key=lambda each: each.get("keyid") not in self.named):
            key = self._keys.get(each["keyid"])
            if key is None:
                continue
            try:
                key.verify(base64.b64decode(each["sig"], validate=True), message, ec.ECDSA(hashes.SHA256()))
            except InvalidSignature:
                continue
            found: str = each["keyid"]
            return found
        raise NotValid("no valid signature by a named key or a key of the bundle; name the signing key with --key")
