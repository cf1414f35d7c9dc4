"""The issuer's public keys (RFC 7517): fetched on first use, and again after an hour or for an unknown key id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from shared import telemetry
from shared.errors import KeysUnavailable
from shared.time_limits import KEYS_CALL_S

#: seconds after which the keys are fetched again; issuers rotate keys over days, and a withdrawn key stays valid this
#: long
REFRESH_S = 3600.0
#: seconds for which the last keys stay valid while the issuer does not respond
STALE_S = 24 * 3600.0
#: minimum seconds between two fetches once there are keys, so that invalid key ids cause few requests to the issuer
COOLDOWN_S = 30.0
#: minimum seconds between two fetches while there is no key
RETRY_S = 5.0
_MAX_BYTES = 256 * 1024
#: the only accepted algorithm: the token cannot choose another
ALGORITHM = "RS256"

#: clock in seconds that never goes back
Monotonic = Callable[[], float]


class JwtKeys:
    """The issuer's keys by key id. One caller fetches the keys, and concurrent callers wait for that fetch."""

    def __init__(self, url: str, monotonic: Monotonic) -> None:
        self._url = url
        self._monotonic = monotonic
        self._keys: dict[str, PyJWK] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._lock = asyncio.Lock()

    async def key(self, kid: str) -> PyJWK | None:
        """Returns the issuer's key. Returns None if the issuer has no such key. Raises KeysUnavailable if the last
        fetch failed and the cache has no key with this id from the last `STALE_S` seconds.
        """
        if kid in self._keys and self._age() < REFRESH_S:
            return self._keys[kid]
        async with self._lock:
            if (kid not in self._keys or self._age() >= REFRESH_S) and self._may_try():
                await self._fetch()
        if self._age() >= STALE_S:
            raise KeysUnavailable
        found = self._keys.get(kid)
        if found is None and self._fetched_at != self._tried_at:
            # the key may be new, and the last fetch failed
            raise KeysUnavailable
        return found

    def _age(self) -> float:
        return float("inf") if self._fetched_at is None else self._monotonic() - self._fetched_at

    def _may_try(self) -> bool:
        pause_s = COOLDOWN_S if self._keys else RETRY_S
        return self._tried_at is None or self._monotonic() - self._tried_at >= pause_s

    async def _fetch(self) -> None:
        self._tried_at = self._monotonic()
        try:
            self._keys = _signing_keys(await self._download())
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            telemetry.warn("KEYS_UNAVAILABLE", reason=f"{type(error).__name__}: {error}")
        else:
            self._fetched_at = self._tried_at

    async def _download(self) -> bytes:
        timeout = aiohttp.ClientTimeout(total=KEYS_CALL_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(self._url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            body = b""
            async for part in answer.content.iter_any():
                body += part
                if len(body) > _MAX_BYTES:
                    raise ValueError(f"more than {_MAX_BYTES} bytes")
            return body


def _signing_keys(body: bytes) -> dict[str, PyJWK]:
    """Returns the keys that can sign tokens, by id. Leaves out other keys. Raises ValueError if no key is left."""
    try:
        document = json.loads(body)
        listed = document["keys"] if isinstance(document, dict) else []
    except (KeyError, RecursionError):
        listed = []
    found = {}
    for each in listed if isinstance(listed, list) else []:
        if isinstance(each, dict) and _signs(each):
            try:
                found[each["kid"]] = PyJWK.from_dict(each, algorithm=ALGORITHM)
            except (PyJWTError, ValueError, TypeError):
                continue  # a key that the library cannot read verifies no token
    if not found:
        raise ValueError("the key set has no signing key")
    return found


def _signs(key: dict[str, Any]) -> bool:
    return (
        key.get("kty") == "RSA"
        and isinstance(key.get("kid"), str)
        and key.get("use", "sig") == "sig"
        and key.get("alg", ALGORITHM) == ALGORITHM
    )
