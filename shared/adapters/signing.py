"""Signers of statements: a PEM file, or a key in Azure Key Vault, which never leaves the vault."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
    EllipticCurvePublicNumbers,
)
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from shared.errors import KeyUnavailable
from shared.ports.signing import PublicKey, Signer

#: maximum seconds until a new version of a key signs
REFRESH_S = 3600.0
_CALL_S = 10.0
_API_VERSION = "7.4"
_SCOPE = "https://vault.azure.net/.default"
#: maximum size of a response
_MAX_BYTES = 64 * 1024
#: bytes of each of the two numbers in a signature on P-256 (RFC 7518, section 3.4)
_NUMBER = 32


def signer_of(key: str, identity: Callable[[], AsyncTokenCredential]) -> Signer:
    """Returns the signer for `key`, the value of `LUCIUS_AUDIT_KEY`: the URL of a key in Key Vault, or the path of a
    PEM file.
    """
    return KeyVaultSigner(key, identity()) if key.startswith("https://") else PemSigner(Path(key))


class PemSigner:
    """Implementation of `shared.ports.signing.Signer`. `public_key`, which precedes each signature, reads the file, so
    a new key takes effect immediately.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._private: dict[str, EllipticCurvePrivateKey] = {}

    async def public_key(self) -> PublicKey:
        try:
            private = load_pem_private_key(self._path.read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            # the library's error text can repeat a part of the file
            raise KeyUnavailable(f"{self._path} cannot be read: {type(error).__name__}") from None
        if not isinstance(private, EllipticCurvePrivateKey) or not isinstance(private.curve, SECP256R1):
            raise KeyUnavailable(f"{self._path} has no private key on P-256")
        key = _public(private.public_key())
        self._private = {key.key_id: private}
        return key

    async def sign(self, key: PublicKey, message: bytes) -> bytes:
        private = self._private.get(key.key_id)
        if private is None:
            raise KeyUnavailable(f"{self._path} no longer has the key {key.key_id}")
        return private.sign(message, ECDSA(SHA256()))


class KeyVaultSigner:
    """Implementation of `shared.ports.signing.Signer`.

    The newest version of the key signs. The signer reads the newest version once an hour, and uses the REST API of Key
    Vault (https://learn.microsoft.com/rest/api/keyvault/keys/sign/sign).
    """

    def __init__(
        self, url: str, credential: AsyncTokenCredential, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Sets the URL of the key, `https://VAULT/keys/NAME`."""
        self._url = url
        self._credential = credential
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._read_at: float | None = None
        self._key: PublicKey | None = None
        #: URL of each version that has been the newest one, by key id
        self._versions: dict[str, str] = {}

    async def public_key(self) -> PublicKey:
        async with self._lock:
            now = self._monotonic()
            if self._key is None or self._read_at is None or now - self._read_at >= REFRESH_S:
                self._key, self._read_at = await self._read(), now
            return self._key

    async def sign(self, key: PublicKey, message: bytes) -> bytes:
        digest = hashlib.sha256(message).digest()
        body = {"alg": "ES256", "value": base64.urlsafe_b64encode(digest).rstrip(b"=").decode()}
        try:
            answer = await self._call("POST", f"{self._versions[key.key_id]}/sign", body)
            pair = _decode(answer["value"])
            if len(pair) != 2 * _NUMBER:
                raise ValueError(f"{len(pair)} bytes, not the {2 * _NUMBER} bytes of r || s")
        except (KeyError, TypeError, ValueError) as error:
            raise KeyUnavailable(f"Key Vault returned no valid signature: {error}") from None
        return encode_dss_signature(*(int.from_bytes(each) for each in (pair[:_NUMBER], pair[_NUMBER:])))

    async def _read(self) -> PublicKey:
        answer = await self._call("GET", self._url)
        try:
            found = answer["key"]
            if found["kty"] not in ("EC", "EC-HSM") or found["crv"] != "P-256":
                raise ValueError("the key is not on P-256")
            x, y = (int.from_bytes(_decode(found[name])) for name in ("x", "y"))
            key = _public(EllipticCurvePublicNumbers(x, y, SECP256R1()).public_key())
            version = str(found["kid"])
            # only URLs of versions of this key get the token
            if not version.startswith(f"{self._url}/"):
                raise ValueError("the key id is not a version of the configured key")
        except (KeyError, TypeError, ValueError) as error:
            raise KeyUnavailable(f"Key Vault returned no valid key: {error}") from None
        self._versions[key.key_id] = version
        return key

    async def _call(self, method: str, url: str, body: dict[str, str] | None = None) -> Any:
        try:
            token = await self._credential.get_token(_SCOPE)
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_CALL_S)) as session,
                session.request(
                    method,
                    url,
                    params={"api-version": _API_VERSION},
                    json=body,
                    headers={"Authorization": f"Bearer {token.token}"},
                    allow_redirects=False,
                ) as answer,
            ):
                content = await answer.content.read(_MAX_BYTES)
                if answer.status != 200:
                    raise KeyUnavailable(f"Key Vault returned {answer.status}")
                return json.loads(content)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, AzureError) as error:
            raise KeyUnavailable(f"a call to Key Vault failed: {type(error).__name__}") from error


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _public(key: EllipticCurvePublicKey) -> PublicKey:
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(key_id=hashlib.sha256(der).hexdigest(), pem=pem.decode())
