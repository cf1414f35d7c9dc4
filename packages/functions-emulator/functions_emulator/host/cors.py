"""Cross-origin requests as `local.settings.json` allows them: `{"Host": {"CORS": "*", "CORSCredentials": false}}`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Cors:
    """The allowed origins, which may contain `*`; without any, no cross-origin request is allowed."""

    origins: frozenset[str]
    credentials: bool

    def headers(self, origin: str | None) -> dict[str, str]:
        """The CORS headers of a response to `origin`."""
        if origin is None or not (origin in self.origins or "*" in self.origins):
            return {}
        if self.credentials:
            return {
                "Access-Control-Allow-Origin": origin,
                "Access-Control-Allow-Credentials": "true",
                "Vary": "Origin",
            }
        return {"Access-Control-Allow-Origin": "*" if "*" in self.origins else origin, "Vary": "Origin"}

    def preflight(self, request_headers: Mapping[str, str]) -> dict[str, str] | None:
        """The headers of the response to an allowed preflight, else `None`."""
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
