"""The issuer as a program: discovery, keys, `POST /token` (RFC 6749 4.4), `POST /rotate`."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import time
from collections.abc import Callable

import jwt
from aiohttp import web

from emulator.issuer.key_file import KeyFile, KeyFileError
from emulator.serving import serve

#: lifetime of a token where the form has no `expires_in`: about that of Entra ID
_LIFETIME_S = 3600
#: largest `expires_in`
_MAX_LIFETIME_S = 86_400

#: what the issuer itself puts into each token
_OWN_CLAIMS = ("iss", "aud", "sub", "iat", "nbf", "exp")

Clock = Callable[[], float]


def run(args: argparse.Namespace) -> int:
    """Serves until a signal; returns the exit code."""
    try:
        return asyncio.run(_serve(args))
    except KeyFileError as error:
        print(f"issuer: {error}", file=sys.stderr)
    except OSError as error:
        print(f"issuer: port {args.port} cannot be listened on: {error.strerror}", file=sys.stderr)
    return 1


async def _serve(args: argparse.Namespace) -> int:
    issuer = Issuer(KeyFile(args.data), audience=args.audience, tenant_claim=args.tenant_claim, clock=time.time)
    return await serve(issuer.application(), args.port, listening=issuer.set_url)


class Issuer:
    """Issues any token that is requested, without a login: it listens on loopback only."""

    def __init__(self, keys: KeyFile, *, audience: str, tenant_claim: str, clock: Clock) -> None:
        self.url = ""
        self._keys = keys
        self._audience = audience
        self._tenant_claim = tenant_claim
        self._clock = clock

    def set_url(self, url: str) -> None:
        """Sets the address of the issuer, which is known once it listens."""
        self.url = url

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/keys", self._jwks)
        app.router.add_post("/token", self._token)
        app.router.add_post("/rotate", self._rotate)
        return app

    async def _discovery(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint": f"{self.url}/token",
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["none"],
                "response_types_supported": [],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def _jwks(self, request: web.Request) -> web.Response:
        return web.json_response(self._keys.jwks())

    async def _rotate(self, request: web.Request) -> web.Response:
        return web.json_response({"kid": self._keys.rotate()})

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
        if form.get("grant_type") != "client_credentials":
            return _error_response("unsupported_grant_type", "send grant_type=client_credentials as a form")
        lifetime = form.get("expires_in", str(_LIFETIME_S))
        if not lifetime.isdecimal() or not 1 <= int(lifetime) <= _MAX_LIFETIME_S:
            return _error_response("invalid_request", f"expires_in must be seconds from 1 to {_MAX_LIFETIME_S}")
        further = _object(form.get("claims", "{}"))
        if further is None:
            return _error_response("invalid_request", f"claims must be a JSON object without {', '.join(_OWN_CLAIMS)}")
        if not form.get("tenant") and not form.get("roles") and not further:
            detail = "send tenant=..., roles=... for an operator of all tenants, or claims={...}"
            return _error_response("invalid_request", detail)
        now = int(self._clock())
        claims: dict[str, object] = {
            "iss": self.url,
            "aud": self._audience,
            "sub": form.get("subject") or f"local:{form.get('tenant') or 'operator'}",
            "iat": now,
            "nbf": now,
            "exp": now + int(lifetime),
            "jti": secrets.token_hex(16),
            "scp": " ".join(form.get("scope", "").split()),
        }
        if tenant := form.get("tenant"):
            claims[self._tenant_claim] = tenant
        if roles := form.get("roles", "").split():
            claims["roles"] = roles
        claims |= further
        kid, key = self._keys.signing
        return web.json_response(
            {
                "access_token": jwt.encode(claims, key, algorithm="RS256", headers={"kid": kid}),
                "token_type": "Bearer",
                "expires_in": int(lifetime),
                "scope": claims["scp"],
            },
            headers={"Cache-Control": "no-store"},
        )


def _object(text: str) -> dict[str, object] | None:
    """Claims as another issuer would put them into a token; None: wrong."""
    try:
        claims = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) and not claims.keys() & set(_OWN_CLAIMS) else None


def _error_response(error: str, description: str) -> web.Response:
    """An error response of RFC 6749 5.2."""
    return web.json_response({"error": error, "error_description": description}, status=400)
