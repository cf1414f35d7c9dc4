"""Tokens as an attacker would make them, and good ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

AUDIENCE = "api://lucius"


def claims(issuer: str, **changes: Any) -> dict[str, Any]:
    """Returns those of a valid token for tenant_a with every scope; a change to None removes one."""
    now = int(time.time())
    good = {
        "iss": issuer,
        "aud": AUDIENCE,
        "sub": "alice",
        "iat": now,
        "nbf": now,
        "exp": now + 600,
        "scp": "orch:read orch:operate orch:quota orch:audit",
        "roles": ["orch:admin"],
        "tenant_id": "tenant_a",
    }
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def signed(claimed: dict[str, Any], key: RSAPrivateKey, **header: Any) -> str:
    """Signs any claims by RS256."""
    return jwt.PyJWS().encode(json.dumps(claimed).encode(), key, "RS256", header)


def unsigned(claimed: dict[str, Any], **header: Any) -> str:
    return f"{part({'typ': 'JWT', 'alg': 'none', **header})}.{part(claimed)}."


def hmac_signed(claimed: dict[str, Any], secret: bytes, **header: Any) -> str:
    """Signs like a library that takes the algorithm from the token: the public key as a secret of HS256."""
    text = f"{part({'typ': 'JWT', 'alg': 'HS256', **header})}.{part(claimed)}"
    return f"{text}.{encoded(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"


def part(value: Any) -> str:
    return encoded(json.dumps(value).encode())


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
