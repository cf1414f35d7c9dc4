"""The configuration that both clients share: URL, timeout, token and headers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

from lucius_client.exchange import Request

DEFAULT_URL = "http://127.0.0.1:7071"
#: seconds for connecting and between two received bytes, in addition to the time of a long poll
TIMEOUT_S = 30.0

#: bearer token, or a function that is called for one before each request and renews it when necessary
Token = str | Callable[[], str | None] | None
#: like `Token`, but the function may return an awaitable
AsyncToken = str | Callable[[], str | Awaitable[str | None] | None] | None


def token_of(token: Token) -> str | None:
    """Returns the bearer token for the next request, or None to send no `Authorization` header."""
    return token() if callable(token) else token


async def token_of_async(token: AsyncToken) -> str | None:
    """Returns the token as `token_of` does. Awaits the result of an asynchronous token function."""
    value = token() if callable(token) else token
    return await value if inspect.isawaitable(value) else value


def headers_of(request: Request, token: str | None) -> dict[str, str]:
    """Returns all headers for `request`. Headers of the request have precedence over the common headers."""
    return {
        "Accept": "application/json",
        "User-Agent": _user_agent(),
        **request.headers,
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Returns headers with their names in lower case, for `Response`."""
    return {name.lower(): value for name, value in headers.items()}


def _user_agent() -> str:
    try:
        return f"lucius-client/{version('lucius-client')}"
    except PackageNotFoundError:
        return "lucius-client"
