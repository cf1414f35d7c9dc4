"""The issuer as a program: discovery, keys, `/authorize`, `POST /token` (RFC 6749 4.1 and 4.4), `POST /rotate`."""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping

import jwt
from aiohttp import web

from emulator.issuer import page
from emulator.issuer.authorization import DISCOVERY, Codes, UnknownClient, allow_sign_in_pages, sign_in_of
from emulator.issuer.key_file import KeyFile, KeyFileError
from emulator.serving import serve

#: default lifetime of a token: about that of Entra ID
_LIFETIME_S = 3600
#: maximum lifetime of a token
_MAX_LIFETIME_S = 86_400

#: claims that the issuer itself puts into each token
_OWN_CLAIMS = ("iss", "aud", "sub", "iat", "nbf", "exp")

Clock = Callable[[], float]


def run(args: argparse.Namespace) -> int:
    """Serves until a signal. Returns the exit code."""
    try:
        return asyncio.run(_serve(args))
    except KeyFileError as error:
        print(f"issuer: {error}", file=sys.stderr)
    except OSError as error:
        print(f"issuer: cannot listen on port {args.port}: {error.strerror}", file=sys.stderr)
    return 1


async def _serve(args: argparse.Namespace) -> int:
    issuer = Issuer(KeyFile(args.data), audience=args.audience, tenant_claim=args.tenant_claim, clock=time.time)
    return await serve(issuer.application(), args.port, pages=allow_sign_in_pages(), listening=issuer.set_url)


class Issuer:
    """A token issuer. Issues tokens for any tenant, scope, role and further claim, without credentials."""

    def __init__(self, keys: KeyFile, *, audience: str, tenant_claim: str, clock: Clock) -> None:
        self.url = ""
        self._keys = keys
        self._audience = audience
        self._tenant_claim = tenant_claim
        self._clock = clock
        self._codes = Codes(clock)

    def set_url(self, url: str) -> None:
        """Sets the URL of the issuer, which is known when the issuer listens."""
        self.url = url

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_get(DISCOVERY, self._discovery)
        app.router.add_get("/keys", self._jwks)
        app.router.add_get("/authorize", self._authorize)
        app.router.add_post("/authorize", self._choose)
        app.router.add_post("/token", self._token)
        app.router.add_post("/rotate", self._rotate)
        return app

    async def _discovery(self, request: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "grant_types_supported": ["authorization_code", "client_credentials"],
                "code_challenge_methods_supported": ["S256"],
                "authorization_response_iss_parameter_supported": True,
                "token_endpoint_auth_methods_supported": ["none"],
                "response_types_supported": ["code"],
                "response_modes_supported": ["query", "fragment"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
            }
        )

    async def _jwks(self, request: web.Request) -> web.Response:
        return web.json_response(self._keys.jwks())

    async def _rotate(self, request: web.Request) -> web.Response:
        return web.json_response({"kid": self._keys.rotate()})

    async def _authorize(self, request: web.Request) -> web.Response:
        """Returns the page for a valid request. Returns a redirect or a page with the error for an invalid request."""
        try:
            sign_in = sign_in_of(request.query)
        except UnknownClient as reason:
            return _page(page.refusal_page(str(reason)), 400)
        if sign_in.error:
            return sign_in.response(self.url, error=sign_in.error)
        return _page(page.authorize_page(sign_in, request.query, _LIFETIME_S))

    async def _choose(self, request: web.Request) -> web.Response:
        """Handles the form of the page, which has the parameters of the request and the choice."""
        form = await request.post()
        try:
            sign_in = sign_in_of(form)
        except UnknownClient as reason:
            return _page(page.refusal_page(str(reason)), 400)
        if sign_in.error or "deny" in form:
            return sign_in.response(self.url, error=sign_in.error or "access_denied")
        choice = {name: str(form.get(name, "")) for name in ("tenant", "expires_in")}
        choice["scope"] = " ".join(map(str, form.getall("granted_scope", [])))
        choice["roles"] = " ".join(map(str, form.getall("role", [])))
        if wrong := _wrong(choice):
            return _page(page.refusal_page(wrong), 400)
        return sign_in.response(self.url, code=self._codes.issue(sign_in, choice))

    async def _token(self, request: web.Request) -> web.Response:
        form = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
        match form.get("grant_type"):
            case "client_credentials":
                if wrong := _wrong(form):
                    return _error_response("invalid_request", wrong)
                return self._granted(form)
            case "authorization_code":
                found = self._codes.redeem(form)
                if found is None:
                    detail = "the code is unknown, used or expired, or has another client, redirect_uri or verifier"
                    return _error_response("invalid_grant", detail)
                sign_in, choice = found
                own = {"aud": sign_in.client, **({"nonce": sign_in.nonce} if sign_in.nonce else {})}
                id_token = self._signed(choice, own) if "openid" in sign_in.scopes else None
                return self._granted(choice, **({"id_token": id_token} if id_token else {}))
            case _:
                detail = "send grant_type=client_credentials or grant_type=authorization_code as a form"
                return _error_response("unsupported_grant_type", detail)

    def _granted(self, form: dict[str, str], **members: str) -> web.Response:
        scope = " ".join(form.get("scope", "").split())
        claims: dict[str, object] = {"aud": self._audience, "jti": secrets.token_hex(16), "scp": scope}
        if tenant := form.get("tenant"):
            claims[self._tenant_claim] = tenant
        if roles := form.get("roles", "").split():
            claims["roles"] = roles
        claims |= _object(form.get("claims", "{}")) or {}
        body = {
            "access_token": self._signed(form, claims),
            "token_type": "Bearer",
            "expires_in": _lifetime_of(form),
            "scope": claims["scp"],
            **members,
        }
        return web.json_response(body, headers={"Cache-Control": "no-store"})

    def _signed(self, form: dict[str, str], claims: Mapping[str, object]) -> str:
        now = int(self._clock())
        subject = form.get("subject") or f"local:{form.get('tenant') or 'operator'}"
        times = {"iat": now, "nbf": now, "exp": now + (_lifetime_of(form) or 0)}
        kid, key = self._keys.signing
        return jwt.encode({"iss": self.url, "sub": subject, **times, **claims}, key, "RS256", headers={"kid": kid})


def _wrong(form: dict[str, str]) -> str | None:
    """Returns the reason to refuse a form, or None for a valid form."""
    if _lifetime_of(form) is None:
        return f"expires_in must be a whole number of seconds from 1 to {_MAX_LIFETIME_S}"
    further = _object(form.get("claims", "{}"))
    if further is None:
        return f"claims must be a JSON object without {', '.join(_OWN_CLAIMS)}"
    if not form.get("tenant") and not form.get("roles") and not further:
        return "send tenant=..., roles=... for an operator of all tenants, or claims={...}"
    return None


def _lifetime_of(form: dict[str, str]) -> int | None:
    """Returns the lifetime in seconds, or None if the text is invalid."""
    text = form.get("expires_in", str(_LIFETIME_S))
    return int(text) if text.isdecimal() and 1 <= int(text) <= _MAX_LIFETIME_S else None


def _object(text: str) -> dict[str, object] | None:
    """Returns the additional claims in a JSON text, or None if the text is not valid claims."""
    try:
        claims = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return claims if isinstance(claims, dict) and not claims.keys() & set(_OWN_CLAIMS) else None


def _page(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html", headers=page.HEADERS)


def _error_response(error: str, description: str) -> web.Response:
    return web.json_response({"error": error, "error_description": description}, status=400)
