"""The policy for the references that a job can name, and for the retention of their content (R34, R47). The policy
opens no reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from shared.core.jobs.plan import SYSTEM, Workspace

#: default port of each scheme
_DEFAULT_PORTS = {"https": 443, "http": 80}
#: query parameters that grant access: shared access signatures of Azure, signed URLs of S3 and GCS
_CREDENTIALS = frozenset(
    {"sig", "signature", "token", "access_token", "awsaccesskeyid", "x-amz-credential", "x-amz-security-token"}
    | {"x-amz-signature", "x-goog-credential", "x-goog-signature"}
)
#: hosts that every reader parses in the same way; IPv6 without a zone
_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
#: names of a reference's other fields that contain a credential; compared in lower case without `-` and `_`
_SECRETS = frozenset(name.replace("-", "").replace("_", "") for name in _CREDENTIALS) | {
    *("sas", "sastoken", "sharedaccesskey", "sharedaccesssignature", "accountkey", "connectionstring", "apikey"),
    *("authorization", "credential", "credentials", "password", "secret", "clientsecret"),
}
#: separators between the assignments of a query or of a connection string
_BETWEEN = re.compile(r"[?&#;,\s]+")
#: spaces, control characters and backslashes
_REFUSED = re.compile(r"[\x00-\x20\x7F\\]")
_CONTAINER = re.compile(r"[$A-Za-z0-9-]+")
#: placeholder for the tenant in an entry of a list
_TENANT = "{tenant}"


@dataclass(frozen=True)
class ReferencePolicy:
    """Allow lists, compared without case. No `hosts` means any host.

    An entry of `hosts` is `HOST`, `HOST/CONTAINER` or `HOST/CONTAINER/PREFIX`, in which `{tenant}` stands for the
    tenant. A port that differs from the scheme's default follows the host. In any case, a tenant's references can lead
    into the tenant's own folder of the workspace, and into no other part of that container.
    """

    schemes: frozenset[str]
    hosts: frozenset[str] = frozenset()
    workspace: Workspace | None = None
    #: setting or key that has `hosts`, for messages
    listed_in: str = "LUCIUS_ALLOWED_REF_HOSTS"

    def violation(self, uri: str) -> str | None:
        """Returns the reason why `uri` is not allowed. Returns None if `uri` is allowed."""
        if (wrong := _unsafe(uri, self.schemes)) is not None:
            return wrong
        parts = urlsplit(uri)
        folders = _folders(parts, _readings(parts.path)[-1])
        if self.workspace is not None and (is_own := _is_own(self.workspace, parts, folders)) is not None:
            return None if is_own else "is in the workspace, but outside of this tenant's folder"
        return self._unlisted(parts, folders) if self.hosts else None

    def _unlisted(self, parts: SplitResult, folders: list[str]) -> str | None:
        host = _host(parts)
        places = [place[1:] for place in (entry.split("/") for entry in self.hosts) if place[0] == host]
        if not places:
            return f"has host {host!r}, which {self.listed_in} does not allow"
        tenant = self.workspace.folder.lower() if self.workspace is not None else ""
        for place in places:
            expected = [tenant if folder == _TENANT else folder.lower() for folder in place if folder]
            if _lower(folders[: len(expected)]) == expected:
                return None
        return (
            f"has a path in container {folders[0] if folders else ''!r} of host {host!r} that {self.listed_in} does "
            "not allow"
        )


@dataclass(frozen=True)
class Retention:
    """The retention of attempts' results in the workspace (R47)."""

    #: URI of the container or folder of the workspace
    workspace_uri: str
    #: time after the last write; None means no limit
    kept: timedelta | None

    def end(self, uri: str, written_at: datetime) -> datetime | None:
        """Returns the time from which the content can be deleted.

        Returns None if the content is outside of the workspace, or if results have no retention.
        """
        if self.kept is None or not _lies_in(self.workspace_uri, uri):
            return None
        return written_at + self.kept


def credential_member(ref: Mapping[str, Any]) -> str | None:
    """Returns the name of the first field of a reference, besides `uri`, that has a credential at any depth. Returns
    None if no field has a credential.

    A credential is a field with a name of `_SECRETS`, or a query (`sig=...`) or connection string that assigns a value
    to such a name.
    """
    for member, value in ref.items():
        if member != "uri" and _holds_credential({member: value}):
            return member
    return None


def _holds_credential(value: Any) -> bool:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            if any(_is_secret(name) for name in each):
                return True
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        elif isinstance(each, str) and any(map(_is_secret, _assigned(each))):
            return True
    return False


def _assigned(text: str) -> list[str]:
    """Returns the names to which a query or a connection string assigns values."""
    return [unquote(part.partition("=")[0]) for part in _BETWEEN.split(text) if "=" in part]


def _is_secret(name: str) -> bool:
    return name.lower().replace("-", "").replace("_", "") in _SECRETS


def _lies_in(base: str, uri: str) -> bool:
    parts = urlsplit(uri)
    return _below(urlsplit(base), parts, _folders(parts, _readings(parts.path)[-1])) is not None


def _unsafe(uri: str, schemes: frozenset[str]) -> str | None:
    """Returns the reason why the URI is unsafe for every target. Returns None if the URI is safe."""
    if _REFUSED.search(uri) is not None:
        return "must not contain spaces, control characters or backslashes"
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - raises if the port is not a number
    except ValueError as malformed:
        return f"is not a URI: {malformed}"
    scheme = parts.scheme.lower()
    if not scheme:
        return "must be an absolute URI, for example https://account.blob.core.windows.net/documents/a.pdf"
    if scheme not in schemes:
        return f"has scheme {parts.scheme!r}; allowed: {', '.join(sorted(schemes))}"
    if not parts.hostname:
        return "must name a host, as in https://HOST/..."
    if not _HOST.fullmatch(parts.hostname):
        return "has a host with other characters than letters, digits, periods, hyphens and underscores"
    if scheme == "abfss" and not parts.username:
        return "must name a container, as in abfss://CONTAINER@ACCOUNT/..."
    if scheme == "abfss" and not _CONTAINER.fullmatch(parts.username or ""):
        return f"has container {(parts.username or '')[:63]!r}; a name has letters, digits, hyphens and $"
    # abfss://container@account is the form of that scheme; elsewhere an @ hides the real host
    if parts.password is not None or ("@" in parts.netloc and scheme != "abfss"):
        return "must not contain user information before the host"
    readings = _readings(parts.path)
    if (
        (parts.path.startswith("//") and scheme != "s3")
        or any(folder in (".", "..") for path in readings for folder in path.split("/"))
        or len({path.count("/") for path in readings}) > 1
    ):
        return "must not contain a path segment . or .., an empty first segment, or an encoded slash"
    for name, _ in parse_qsl(f"{parts.query}&{parts.fragment}", keep_blank_values=True):
        if name.lower() in _CREDENTIALS:
            return f"must not contain a credential ({name[:40]}); give the service a role of its own"
    return None


def _readings(path: str) -> list[str]:
    """Returns a list: the path unchanged, decoded once, decoded twice, and so on until decoding changes nothing."""
    readings = [path]
    while (decoded := unquote(readings[-1])) != readings[-1]:
        readings.append(decoded)
    return readings


def _folders(parts: SplitResult, path: str) -> list[str]:
    """Returns the container and the folders below it. `path` is one of the `_readings` of the URI's path."""
    folders = path.split("/")[1:]
    return [parts.username or "", *folders] if parts.scheme.lower() == "abfss" else folders


def _is_own(workspace: Workspace, parts: SplitResult, folders: list[str]) -> bool | None:
    """Returns True if the URI is in the tenant's folder of the workspace, or None if the URI is not in the workspace's
    container.
    """
    container = _below(urlsplit(workspace.base), parts, folders)
    if container is None:
        return None
    own = [*container, *_lower([SYSTEM, workspace.folder])]
    # decoded once, as services do, and as often as any service might
    once = _folders(parts, unquote(parts.path))
    return _lower(folders[: len(own)]) == own == _lower(once[: len(own)])


def _below(base: SplitResult, parts: SplitResult, folders: list[str]) -> list[str] | None:
    """Returns the container and folders of `base`, in lower case, if the URI leads below `base` under any name of its
    account. Returns None if the URI leads elsewhere.
    """
    container = _lower([folder for folder in _folders(base, _readings(base.path)[-1]) if folder])
    same = _account(parts) == _account(base) and _lower(folders[: len(container)]) == container
    return container if same else None


def _account(parts: SplitResult) -> str:
    """Returns the storage account of a host. The account's blob, dfs and secondary endpoints have the same data."""
    host = _host(parts)
    first, _, rest = host.partition(".")
    if ".core." in rest or rest.endswith(".storage.azure.net"):
        return first.removesuffix("-secondary")
    name, _, port = host.partition(":")
    return f"loopback:{port}" if name == "localhost" or name.startswith("127.") else host


def _host(parts: SplitResult) -> str:
    """Returns the host in lower case, without a trailing dot, with a port that differs from the scheme's default."""
    host = (parts.hostname or "").lower().rstrip(".")
    return host if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme.lower())) else f"{host}:{parts.port}"


def _lower(folders: list[str]) -> list[str]:
    return [folder.lower() for folder in folders]
