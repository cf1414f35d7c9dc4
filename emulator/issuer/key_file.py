"""The signing keys, stored on disk so that tokens stay valid when the issuer restarts."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from jwt.algorithms import RSAAlgorithm

#: maximum published keys: the current one, and earlier ones whose tokens may still be valid
_MAX_KEYS = 3


class KeyFileError(Exception):
    """The keys cannot be read or stored. The message is the reason."""


class KeyFile:
    """The file `DIR/issuer.json` with `[{"kid": ..., "pem": ...}]`, the newest key first. The first key signs, and all
    keys are published.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "issuer.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._keys = _read(self._path) if self._path.exists() else []
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KeyFileError(f"{self._path} cannot be used: {error}") from None
        if not self._keys:
            self.rotate()

    @property
    def signing(self) -> tuple[str, RSAPrivateKey]:
        """Returns the id of the signing key, and the key."""
        return self._keys[0]

    def rotate(self) -> str:
        """Creates a new signing key and returns its id. Up to two previous keys stay published. Raises
        KeyFileError if the file cannot be written.
        """
        kid = f"local-{secrets.token_hex(6)}"
        self._keys = [(kid, generate_private_key(public_exponent=65537, key_size=2048)), *self._keys][:_MAX_KEYS]
        written = self._path.with_suffix(".new")
        try:
            with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump([{"kid": each, "pem": _pem(key)} for each, key in self._keys], file)
            written.replace(self._path)
        except OSError as error:
            raise KeyFileError(f"{self._path} cannot be written: {error.strerror}") from None
        return kid

    def jwks(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the JSON Web Key Set (RFC 7517) with public halves only."""
        return {
            "keys": [
                {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", "alg": "RS256"}
                for kid, key in self._keys
            ]
        }


def _read(path: Path) -> list[tuple[str, RSAPrivateKey]]:
    keys = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        key = serialization.load_pem_private_key(entry["pem"].encode(), password=None)
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("not an RSA key")
        keys.append((entry["kid"], key))
    return keys


def _pem(key: RSAPrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
