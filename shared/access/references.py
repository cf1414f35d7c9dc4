"""Which references a job may name: policy only, nothing is opened (R34)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit


@dataclass(frozen=True)
class ReferencePolicy:
    """Allow lists, matched exactly and without case; no hosts means any host.

    An entry of `hosts` may name a container as well: `account.blob.core.windows.net/documents` allows that one only.
    """

    schemes: frozenset[str]
    hosts: frozenset[str] = frozenset()

    @property
    def host_names(self) -> frozenset[str]:
        """Without their containers."""
        return frozenset(host.partition("/")[0] for host in self.hosts)

    def violation(self, uri: str) -> str | None:
        """Why `uri` is not allowed; None if it is."""
        if "\\" in uri or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in uri):
            return "must not contain spaces, control characters or backslashes"
        try:
            parts = urlsplit(uri)
            host = parts.hostname
            parts.port  # noqa: B018 - raises where the port is no number
        except ValueError as wrong:
            return f"is not a URI: {wrong}"
        if not parts.scheme:
            return "must be an absolute URI, for example https://account.blob.core.windows.net/documents/a.pdf"
        if parts.scheme.lower() not in self.schemes:
            return f"has scheme {parts.scheme!r}; allowed: {', '.join(sorted(self.schemes))}"
        if not host:
            return "names no host"
        # abfss://container@account is that scheme's own form; elsewhere an @ hides the real host
        if "@" in parts.netloc and parts.scheme.lower() != "abfss":
            return "must not contain user information"
        if self.hosts and host.lower() not in self.hosts:
            if host.lower() not in self.host_names:
                return f"has host {host!r}, which is not among the allowed hosts"
            return self._container_refused(parts, host.lower())
        return None

    def _container_refused(self, parts: SplitResult, host: str) -> str | None:
        segments = [unquote(segment) for segment in parts.path.split("/")[1:]]
        if any(segment in (".", "..") or "/" in segment for segment in segments):
            return "must not contain the path segments . and .., or an encoded slash"
        container = parts.username if parts.scheme.lower() == "abfss" else next(iter(segments), "")
        if f"{host}/{(container or '').lower()}" in self.hosts:
            return None
        return f"has container {container!r} of host {host!r}, which is not among the allowed ones"
