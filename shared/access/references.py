"""Which references a job may name: policy only, nothing is opened (R34)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

#: ports that a URI need not name
_DEFAULT_PORTS = {"https": 443, "http": 80}
#: members of a query that let whoever reads them in: shared access signatures of Azure, signed URLs of S3 and GCS
_CREDENTIALS = frozenset(
    {"sig", "signature", "token", "access_token", "awsaccesskeyid", "x-amz-credential", "x-amz-security-token"}
    | {"x-amz-signature", "x-goog-credential", "x-goog-signature"}
)
#: stands for the tenant in an entry of a list
_TENANT = "{tenant}"


@dataclass(frozen=True)
class Workspace:
    """The folder of a tenant in the workspace: `{base}/{system}/{tenant}/`."""

    #: a URI
    base: str
    system: str
    #: normalised
    tenant: str

    @property
    def prefix(self) -> str:
        return f"{self.base.rstrip('/')}/{self.system}/{quote(self.tenant, safe='')}/"


@dataclass(frozen=True)
class ReferencePolicy:
    """Allow lists, matched without case; no `hosts` means any host.

    An entry of `hosts` is `HOST`, `HOST/CONTAINER` or `HOST/CONTAINER/PREFIX`, in which `{tenant}` stands for the
    tenant; a port that is not the scheme's own stands behind the host. Whatever the lists say, a tenant's references
    may lead into its own folder of the workspace, and into no other part of that container.
    """

    schemes: frozenset[str]
    hosts: frozenset[str] = frozenset()
    workspace: Workspace | None = None

    @property
    def host_names(self) -> frozenset[str]:
        """Without their containers and ports."""
        return frozenset(host.partition("/")[0].partition(":")[0] for host in self.hosts)

    def violation(self, uri: str) -> str | None:
        """Why `uri` is not allowed; None if it is."""
        if self.workspace is not None and uri.startswith(self.workspace.prefix):
            # what the tenant's name is written with is no path of the caller's
            return _unsafe(f"https://own/{uri.removeprefix(self.workspace.prefix)}", frozenset({"https"}))
        if (wrong := _unsafe(uri, self.schemes)) is not None:
            return wrong
        parts = urlsplit(uri)
        folders = _folders(parts)
        if self.workspace is not None and (is_own := _is_own(self.workspace, parts, folders)) is not None:
            return None if is_own else "leads into the workspace, and not into this tenant's folder of it"
        return self._unlisted(parts, folders) if self.hosts else None

    def _unlisted(self, parts: SplitResult, folders: list[str]) -> str | None:
        host = (parts.hostname or "").lower()
        if parts.port not in (None, _DEFAULT_PORTS.get(parts.scheme.lower())):
            host = f"{host}:{parts.port}"
        places = [place[1:] for place in (entry.split("/") for entry in self.hosts) if place[0] == host]
        if not places:
            return f"has host {host!r}, which is not among the allowed hosts"
        tenant = self.workspace.tenant if self.workspace is not None else ""
        for place in places:
            expected = [tenant if folder == _TENANT else folder.lower() for folder in place if folder]
            if _lower(folders[: len(expected)]) == expected:
                return None
        return (
            f"has container {folders[0] if folders else ''!r} of host {host!r}, or a folder in it, that is not allowed"
        )


def _unsafe(uri: str, schemes: frozenset[str]) -> str | None:
    """What is wrong with the URI itself, wherever it leads."""
    if "\\" in uri or any(ord(char) <= 0x20 or ord(char) == 0x7F for char in uri):
        return "must not contain spaces, control characters or backslashes"
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018 - raises where the port is no number
    except ValueError as malformed:
        return f"is not a URI: {malformed}"
    scheme = parts.scheme.lower()
    if not scheme:
        return "must be an absolute URI, for example https://account.blob.core.windows.net/documents/a.pdf"
    if scheme not in schemes:
        return f"has scheme {parts.scheme!r}; allowed: {', '.join(sorted(schemes))}"
    if not parts.hostname:
        return "names no host"
    # abfss://container@account is that scheme's own form; elsewhere an @ hides the real host
    if parts.password is not None or ("@" in parts.netloc and scheme != "abfss"):
        return "must not contain user information"
    readings = _readings(parts.path)
    if (
        parts.path.startswith("//")
        or any(folder in (".", "..") for path in readings for folder in path.split("/"))
        or len({path.count("/") for path in readings}) > 1
    ):
        return "must not contain the path segments . and .., an empty first one, or an encoded slash"
    for name, _ in parse_qsl(f"{parts.query}&{parts.fragment}", keep_blank_values=True):
        if name.lower() in _CREDENTIALS:
            return f"must not carry a credential ({name[:40]}): give the service a right of its own to read it"
    return None


def _readings(path: str) -> list[str]:
    """The path as it is and decoded, as often as any reader might."""
    readings = [path]
    while (decoded := unquote(readings[-1])) != readings[-1]:
        readings.append(decoded)
    return readings


def _folders(parts: SplitResult) -> list[str]:
    """The container and the folders below it, decoded."""
    folders = _readings(parts.path)[-1].split("/")[1:]
    return [parts.username or "", *folders] if parts.scheme.lower() == "abfss" else folders


def _is_own(workspace: Workspace, parts: SplitResult, folders: list[str]) -> bool | None:
    """Whether it is in the tenant's folder of the workspace; None: it is not in the workspace's container at all."""
    base = urlsplit(workspace.base)
    container = _lower([folder for folder in _folders(base) if folder])
    if _account(parts) != _account(base) or _lower(folders[: len(container)]) != container:
        return None
    return _lower(folders[len(container) :][:2]) == [workspace.system, workspace.tenant]


def _account(parts: SplitResult) -> str:
    """The storage account of a host: its blob and dfs endpoints and its secondary lead to the same data."""
    host = (parts.hostname or "").lower()
    first, _, rest = host.partition(".")
    return first.removesuffix("-secondary") if ".core." in rest else f"{host}:{parts.port}"


def _lower(folders: list[str]) -> list[str]:
    return [folder.lower() for folder in folders]
