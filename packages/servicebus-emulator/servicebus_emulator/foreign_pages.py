"""Refuses requests of a browser for a web page of another site.

Any page can open WebSockets to loopback and post forms there, and after DNS rebinding also read the responses. The
browser names the page in `Origin` (Fetch standard, 3.1) and the resolved host name in `Host`. Programs send no
`Origin`, or the origin of the URL that they call.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Middleware

log = logging.getLogger(__name__)


def refusal(host: str | None, origin: str | None, names: Collection[str]) -> str | None:
    """Returns the reason why a request with these headers is refused, as one line, or None if the request is allowed.

    `Host` must be an IP address, which DNS cannot rebind, `localhost`, or one of `names`. An `Origin` must
    have the host and port of `Host`.
    """
    if host is not None and not _is_ours(host, names):
        return f"the host {host!a} is not served here; use localhost, or --allowed-host if the program has this option"
    if origin is not None and origin.partition("://")[2].lower() != (host or "").lower():
        return f"pages of {origin!a} cannot use this program"
    return None


def _is_ours(host: str, names: Collection[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name in {"localhost", *(each.lower() for each in names)}:
            return True
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def refuse_foreign_pages(names: Collection[str] = ()) -> Middleware:
    """Returns a middleware that responds 403 with the line of `refusal` to a refused request, before any upgrade to a
    WebSocket.
    """

    @web.middleware
    async def middleware(request: web.Request, handler: Any) -> web.StreamResponse:
        why = refusal(request.headers.get("Host"), request.headers.get("Origin"), names)
        if why is not None:
            log.warning("request refused reason=%s", why)
            return web.Response(status=403, text=f"{why}\n")
        response: web.StreamResponse = await handler(request)
        return response

    return middleware
