"""Where the API is and how it is asked: what both shells are given."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

from lucius_client.exchange import Request

DEFAULT_URL = "http://127.0.0.1:7071"
#: seconds for a connection and between two bytes; what the API holds back on purpose comes on top
TIMEOUT_S = 30.0

#: a bearer token, or what is asked for one before each request: then renewing it is the callable's business
Token = str | Callable[[], str | None] | None
#: the same, and what is asked may be awaited
AsyncToken = str | Callable[[], str | Awaitable[str | None] | None] | None


def token_of(token: Token) -> str | None:
    return token() if callable(token) else token


async def token_of_async(token: AsyncToken) -> str | None:
    value = token() if callable(token) else token
    return await value if inspect.isawaitable(value) else value


def headers_of(request: Request, token: str | None) -> dict[str, str]:
    return {
        "Accept": "application/json",
        "User-Agent": _user_agent(),
        **request.headers,
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }


def lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _user_agent() -> str:
    try:
        return f"lucius-client/{version('lucius-client')}"
    except PackageNotFoundError:
        return "lucius-client"
