"""`LUCIUS_AUTH_MODE=jwt`: callers by bearer tokens (RFC 6750, RFC 9068), verified by the app itself (R24).

Only the header `Authorization`, or the ticket of a stream, identifies a caller. `X-MS-CLIENT-PRINCIPAL` can be forged
if the platform's own authentication is off.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import jwt
from jwt.exceptions import (
    DecodeError,
    ExpiredSignatureError,
    ImmatureSignatureError,
    InvalidAudienceError,
    InvalidIssuerError,
    InvalidSignatureError,
    PyJWTError,
)

from shared.access.caller import ANYONE, Caller, caller_from_claims
from shared.access.tenants import TenantRules
from shared.adapters.jwt_keys import ALGORITHM, JwtKeys
from shared.refusals import TokenInvalid, TokenMissing

#: maximum difference between the clocks of the issuer and this machine
LEEWAY_S = 60
#: maximum length of a token; real ones are far shorter
_MAX_TOKEN = 16 * 1024
_MAX_KID = 256
#: maximum length of a key id or an issuer in a log
_MAX_NAMED = 100
#: maximum remaining lifetime of a token; the longest are Entra's with continuous access evaluation, 28 hours
_MAX_LIFE_S = 36 * 60 * 60
#: accepted values of `typ`: that of RFC 9068 2.1, and that of older issuers; others are for other uses (RFC 8725 3.11)
_TYPES = frozenset({"jwt", "at+jwt"})
#: claims of tokens that are not bearer access tokens: bound to a key (RFC 7800), or an ID token
_NOT_BEARER = ("cnf", "nonce")
#: header format of RFC 6750 2.1
_BEARER = re.compile(r"Bearer +([A-Za-z0-9._~+/-]+=*) *", re.IGNORECASE)

_WHY: Sequence[tuple[type[PyJWTError], str]] = (
    (ExpiredSignatureError, "the token has expired; get a new token"),
    (ImmatureSignatureError, "the token is not valid yet; check the clock of the issuer, or repeat the request later"),
    (InvalidAudienceError, "the token is for another audience; request a token for this API"),
    (InvalidIssuerError, "the token is from another issuer; get a token from the issuer of this API"),
    # this class comes before its base class DecodeError
    (InvalidSignatureError, "the signature of the token is invalid; get a new token"),
    (DecodeError, "the token, or one of its claims, cannot be read; get a new token"),
)


class JwtCallers:
    """Implementation of `shared.ports.environment.Callers`."""

    def __init__(
        self,
        keys: JwtKeys,
        *,
        issuer: str,
        audiences: Sequence[str],
        tenants: TenantRules,
        all_tenants_role: str,
        source_claim: str | None = None,
    ) -> None:
        self._keys = keys
        self._issuer = issuer
        self._audiences = list(audiences)
        self._tenants = tenants
        self._all_tenants_role = all_tenants_role
        self._source_claim = source_claim

    async def caller(self, authorization: str | None) -> Caller:
        """Returns the caller of a token. Raises TokenMissing, TokenInvalid, TenantMissing and KeysUnavailable."""
        if not authorization:
            raise TokenMissing
        if (match := _BEARER.fullmatch(authorization)) is None or len(match[1]) > _MAX_TOKEN:
            raise TokenInvalid(
                f"the Authorization header has no bearer token of at most {_MAX_TOKEN} bytes; send Authorization: "
                "Bearer TOKEN"
            )
        token = match[1]
        try:
            return await self._caller(token)
        except TokenInvalid as refused:
            refused.named = _read_names(token)
            raise

    async def _caller(self, token: str) -> Caller:
        try:
            header = jwt.get_unverified_header(token)
            kid = header.get("kid")
            if header.get("alg") != ALGORITHM or not isinstance(kid, str) or len(kid) > _MAX_KID:
                raise TokenInvalid(
                    f"the token must be signed by {ALGORITHM}, with a kid of at most {_MAX_KID} characters; get a new "
                    "token"
                )
            if str(header.get("typ", "jwt")).lower().removeprefix("application/") not in _TYPES:
                raise TokenInvalid("not an access token: typ must be JWT or at+jwt; send an access token")
            key = await self._keys.key(kid)
            if key is None:
                raise TokenInvalid("the token is not signed by a key of the issuer; get a new token")
            claims = jwt.decode(
                token,
                key,
                algorithms=[ALGORITHM],
                audience=self._audiences,
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
            )
        except (PyJWTError, ValueError, RecursionError) as wrong:
            why = next(
                (why for kind, why in _WHY if isinstance(wrong, kind)),
                "the token is invalid, or lacks exp, iss, aud or sub; get a new token",
            )
            raise TokenInvalid(why) from None
        if any(name in claims for name in _NOT_BEARER):
            raise TokenInvalid(
                "not a bearer access token: cnf binds a token to a key, nonce marks an ID token; send another token"
            )
        if int(claims["exp"]) > time.time() + _MAX_LIFE_S:
            raise TokenInvalid(
                f"the token is valid for more than {_MAX_LIFE_S // 3600} hours, the maximum; get a token with a "
                "shorter lifetime"
            )
        return caller_from_claims(
            claims,
            tenants=self._tenants,
            all_tenants_role=self._all_tenants_role,
            source_claim=self._source_claim,
        )


def _read_names(token: str) -> dict[str, str]:
    """Returns key id and issuer of a refused token for logs, shortened, since any sender can write a token."""
    try:
        parts = {"kid": jwt.get_unverified_header(token), "iss": jwt.decode(token, options={"verify_signature": False})}
    except (PyJWTError, ValueError, RecursionError):
        return {}
    found = {name: part[name] for name, part in parts.items() if isinstance(part.get(name), str)}
    return {name: _escape(text[:_MAX_NAMED]) for name, text in found.items()}


def _escape(text: str) -> str:
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in text)


class AnonymousCallers:
    """Implementation of `shared.ports.environment.Callers` without tokens: every caller has every right."""

    async def caller(self, authorization: str | None) -> Caller:
        return ANYONE
