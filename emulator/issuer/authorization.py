"""Sign-in by authorization code with PKCE (RFC 6749 4.1, RFC 7636): the request of a page, and its code."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

from servicebus_emulator.foreign_pages import refusal, refuse_foreign_pages

DISCOVERY = "/.well-known/openid-configuration"
#: RFC 6749 4.1.2 recommends at most ten minutes; the page redeems a code immediately
CODE_LIFETIME_S = 60
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: RFC 7636 4.2: the SHA-256 of a verifier, in base64url without padding
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
#: parameters of an authorization request
PARAMETERS = (
    *("client_id", "redirect_uri", "response_type", "response_mode", "state", "nonce", "scope", "prompt"),
    *("code_challenge", "code_challenge_method"),
)
_MODES = ("query", "fragment")


class UnknownClient(Exception):
    """The error of a request without a client, or with a redirect URL that is invalid or on another machine.

    The issuer shows the error to the user, and does not send the error to a page.
    """


@dataclass(frozen=True)
class SignIn:
    """An authorization request whose client and redirect URL are acceptable."""

    client: str
    redirect: str
    state: str
    nonce: str
    challenge: str
    scopes: frozenset[str]
    mode: str
    #: an error code of RFC 6749 4.1.2.1 or OpenID Connect 3.1.2.6; None if the page can ask the user
    error: str | None

    def response(self, issuer: str, **parameters: str) -> web.Response:
        """Returns the redirect to the page. `iss` (RFC 9207) names the issuer that responded."""
        answer = urlencode({**parameters, "state": self.state, "iss": issuer})
        separator = "#" if self.mode == "fragment" else "&" if "?" in self.redirect else "?"
        headers = {"Location": f"{self.redirect}{separator}{answer}", "Cache-Control": "no-store"}
        return web.Response(status=303, headers=headers)


def sign_in_of(values: Mapping[str, Any]) -> SignIn:
    """Reads an authorization request from a query or a form. Raises UnknownClient if the client is missing or the
    redirect URL is not acceptable.
    """
    given = {name: value for name, value in values.items() if isinstance(value, str)}
    client, redirect = given.get("client_id", ""), given.get("redirect_uri", "")
    if not client:
        raise UnknownClient("the request has no client_id")
    if not _is_loopback(redirect) or "#" in redirect:
        raise UnknownClient("redirect_uri must be a URL on this machine, without a fragment")
    mode = given.get("response_mode", "query")
    challenge = given.get("code_challenge", "")
    error = None
    if given.get("response_type") != "code":
        error = "unsupported_response_type"
    elif mode not in _MODES or given.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(challenge):
        error = "invalid_request"
    elif given.get("prompt") == "none":
        # this issuer has no sessions, so it must ask
        error = "login_required"
    return SignIn(
        client=client,
        redirect=redirect,
        state=given.get("state", ""),
        nonce=given.get("nonce", ""),
        challenge=challenge,
        scopes=frozenset(given.get("scope", "").split()),
        mode=mode if mode in _MODES else "query",
        error=error,
    )


def _is_loopback(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and "@" not in parts.netloc and parts.hostname in _LOOPBACK
    except ValueError:
        return False


class Codes:
    """Codes that are not redeemed yet. Each code is valid for a minute, and for one request, even if that request is
    invalid.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._issued: dict[str, tuple[float, SignIn, dict[str, str]]] = {}

    def issue(self, sign_in: SignIn, choice: dict[str, str]) -> str:
        """Issues a code. `choice` has the fields of the token that the caller gets for the code."""
        now = self._clock()
        self._issued = {code: each for code, each in self._issued.items() if each[0] > now}
        code = secrets.token_urlsafe(24)
        self._issued[code] = (now + CODE_LIFETIME_S, sign_in, choice)
        return code

    def redeem(self, form: Mapping[str, str]) -> tuple[SignIn, dict[str, str]] | None:
        """Returns the sign-in and the choice. Returns None if the code is unknown, used or expired, or has another
        client, redirect URL or verifier.
        """
        ends, sign_in, choice = self._issued.pop(form.get("code", ""), (0.0, None, {}))
        if sign_in is None or ends <= self._clock():
            return None
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        own = (sign_in.client, sign_in.redirect, sign_in.challenge)
        return (sign_in, choice) if own == (form.get("client_id"), form.get("redirect_uri"), challenge) else None


def allow_sign_in_pages() -> Middleware:
    """Makes a middleware that lets pages on other ports of this machine read the discovery document and redeem codes.

    The middleware refuses every other request of a foreign page, such as a `client_credentials` request.
    """
    refuse = refuse_foreign_pages()

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if origin is None or not _is_loopback(origin) or not await _is_of_sign_in(request):
            return await refuse(request, handler)
        if why := refusal(request.headers.get("Host"), None, ()):
            return web.Response(status=403, text=f"{why}\n")
        response: web.StreamResponse = await handler(request)
        response.headers.update({"Access-Control-Allow-Origin": origin, "Vary": "Origin"})
        return response

    return middleware


async def _is_of_sign_in(request: web.Request) -> bool:
    if request.method == "GET":
        return request.path == DISCOVERY
    if (request.method, request.path) != ("POST", "/token"):
        return False
    return (await request.post()).get("grant_type") == "authorization_code"
