"""Lets web pages use the host: the host's own pages, and pages that `local.settings.json` allows.

`{"Host": {"CORS": "https://a.example", "CORSCredentials": false}}` allows cross-origin requests, as Core Tools does. A
page of any other site is refused before its request is served. A browser lets such a page post forms to loopback, and
after DNS rebinding also read the responses. The browser names the page in `Origin` (Fetch standard, 3.1) and the
resolved host name in `Host`.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Cors:
    """The allowed origins, which may contain `*`. Without origins, cross-origin requests are refused."""

    origins: frozenset[str]
    credentials: bool

    def allows(self, origin: str) -> bool:
        return origin in self.origins or "*" in self.origins

    def headers(self, origin: str | None) -> dict[str, str]:
        """Returns the CORS headers of a response to `origin`."""
        if origin is None or not self.allows(origin):
            return {}
        if self.credentials:
            return {
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Credentials": "true",
                "Vary": "Origin",
            }
        return {"Access-Control-Allow-Origin": "*" if "*" in self.origins else origin, "Vary": "Origin"}

    def preflight(self, request_headers: Mapping[str, str]) -> dict[str, str] | None:
        """Returns the headers of the response to an allowed preflight, else `None`."""
        method = request_headers.get("Access-Control-Request-Method")
        allowed = self.headers(request_headers.get("Origin"))
        if not method or not allowed:
            return None
        request_header_names = request_headers.get("Access-Control-Request-Headers")
        extra = {"Access-Control-Allow-Headers": request_header_names} if request_header_names else {}
        return {**allowed, **extra, "Access-Control-Allow-Methods": method}


def load_cors(app_dir: Path) -> Cors:
    """Reads `Host` of `local.settings.json`."""
    path = app_dir / "local.settings.json"
    section = json.loads(path.read_text("utf-8-sig")).get("Host", {}) if path.exists() else {}
    origins = frozenset(one.strip() for one in str(section.get("CORS", "")).split(",") if one.strip())
    return Cors(origins, bool(section.get("CORSCredentials", False)))


def refusal(host: str | None, origin: str | None, names: Collection[str]) -> str | None:
    """Returns the reason why a request with these headers is refused, as one line, or `None` if the request is allowed.

    `Host` must be an IP address, which DNS cannot rebind, `localhost`, or one of `names`. An `Origin` must
    have the host and port of `Host`.
    """
    if host is not None and not _is_ours(host, names):
        return f"the host {host!a} is not allowed; allow the host with --allowed-host NAME"
    if origin is not None and origin.partition("://")[2].lower() != (host or "").lower():
        return f"pages of {origin!a} cannot use this host; allow the origin in Host.CORS of local.settings.json"
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
