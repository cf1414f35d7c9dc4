"""The app's settings: the only module that reads the environment (names as in CONTRACT "Settings")."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from shared.core.plan import Defaults
from shared.errors import SettingsError

#: the repository's root, where `protocols/` and `infra/bicep/topology.json` stand
ROOT = Path(__file__).resolve().parent.parent

#: name of the app setting that bindings and the publisher share; identity forms add `__fullyQualifiedNamespace`
SERVICEBUS_SETTING = "LUCIUS_SERVICEBUS_CONNECTION"

_DEV_STORAGE = "UseDevelopmentStorage=true"
_DEV_BLOB_URI = "http://127.0.0.1:10000/devstoreaccount1"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything that is configured, read once. Secrets are kept out of `repr`."""

    #: one of the two is set
    servicebus_connection: str | None = field(repr=False)
    servicebus_namespace: str | None
    lanes: int
    reply_prefix: str
    reply_subscription: str

    storage_backend: str
    table_connection: str | None = field(repr=False)
    table_endpoint: str | None
    blob_connection: str | None = field(repr=False)
    blob_endpoint: str | None
    ledger_table: str
    index_table: str
    tenants_table: str
    rejected_table: str
    #: every attempt gets a folder below this URI
    workspace_uri: str

    defaults: Defaults
    idempotency_ttl_days: float
    default_mode: str
    protocols_path: Path
    topology_path: Path

    auth_mode: str
    allowed_ref_schemes: frozenset[str]
    allowed_ref_hosts: frozenset[str]


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads and checks everything at once, from the process's environment by default.

    Raises SettingsError naming every setting that is wrong.
    """
    environ = os.environ if environ is None else environ
    read = _Reader(environ)
    in_azure = bool(environ.get("WEBSITE_SITE_NAME"))
    backend = read.choice("LUCIUS_STORAGE_BACKEND", ("tables", "memory"), "tables")
    servicebus = read.text(SERVICEBUS_SETTING)
    namespace = read.text(f"{SERVICEBUS_SETTING}__fullyQualifiedNamespace")
    table, table_endpoint = read.text("LUCIUS_TABLE_CONNECTION"), read.text("LUCIUS_TABLE_ENDPOINT")
    blob, blob_endpoint = read.text("LUCIUS_BLOB_CONNECTION"), read.text("LUCIUS_BLOB_ENDPOINT")
    if servicebus is None and namespace is None:
        read.wrong.append(f"{SERVICEBUS_SETTING} (or {SERVICEBUS_SETTING}__fullyQualifiedNamespace) is not set")
    if backend == "tables" and table is None and table_endpoint is None:
        read.wrong.append("LUCIUS_TABLE_CONNECTION (or LUCIUS_TABLE_ENDPOINT) is not set")
    if backend == "tables" and blob is None and blob_endpoint is None:
        read.wrong.append("LUCIUS_BLOB_CONNECTION (or LUCIUS_BLOB_ENDPOINT) is not set")
    auth_mode = read.choice("LUCIUS_AUTH_MODE", ("none", "jwt"), "jwt" if in_azure else "none")
    if auth_mode == "none" and in_azure:
        read.wrong.append("LUCIUS_AUTH_MODE=none is refused in Azure")
    if auth_mode == "jwt":
        read.wrong.append("LUCIUS_AUTH_MODE=jwt is not built yet; this version serves on a laptop only, with none")
    schemes = read.names("LUCIUS_ALLOWED_REF_SCHEMES") or {"https", "s3", "abfss"} | (set() if in_azure else {"http"})
    settings = Settings(
        servicebus_connection=servicebus,
        servicebus_namespace=namespace,
        lanes=read.whole("LUCIUS_SERVICEBUS_LANES", 16, least=1),
        reply_prefix=read.text("LUCIUS_SERVICEBUS_REPLY_PREFIX") or "global-bus-replies-p",
        reply_subscription=read.text("LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION") or "lucius-invoker",
        storage_backend=backend,
        table_connection=table,
        table_endpoint=table_endpoint,
        blob_connection=blob,
        blob_endpoint=blob_endpoint,
        ledger_table=read.text("LUCIUS_LEDGER_TABLE") or "luciusledger",
        index_table=read.text("LUCIUS_INDEX_TABLE") or "luciusindex",
        tenants_table=read.text("LUCIUS_TENANTS_TABLE") or "luciustenants",
        rejected_table=read.text("LUCIUS_REJECTED_TABLE") or "luciusrejected",
        workspace_uri=read.text("LUCIUS_WORKSPACE_URI") or f"{_blob_uri(blob, blob_endpoint)}/workspace",
        defaults=Defaults(
            ack_timeout_s=read.seconds("LUCIUS_ACK_TIMEOUT_SECONDS", 30),
            lease_s=read.seconds("LUCIUS_STEP_RESULT_TIMEOUT_SECONDS", 900),
            max_attempts=read.whole("LUCIUS_MAX_ATTEMPTS", 3, least=1),
            dispatch_backoffs=read.backoffs("LUCIUS_DISPATCH_BACKOFF_SECONDS", (30, 120, 600)),
            ack_backoffs=read.backoffs("LUCIUS_ACK_BACKOFF_SECONDS", (60, 300, 900)),
            execution_backoffs=read.backoffs("LUCIUS_EXECUTION_BACKOFF_SECONDS", (5, 30, 120)),
        ),
        idempotency_ttl_days=read.seconds("LUCIUS_IDEMPOTENCY_TTL_DAYS", 30),
        default_mode=read.choice("LUCIUS_DEFAULT_MODE", ("DEFAULT", "BURST"), "DEFAULT"),
        protocols_path=Path(read.text("LUCIUS_PROTOCOLS_PATH") or ROOT / "protocols"),
        topology_path=Path(read.text("LUCIUS_TOPOLOGY_PATH") or ROOT / "infra" / "bicep" / "topology.json"),
        auth_mode=auth_mode,
        allowed_ref_schemes=frozenset(schemes),
        allowed_ref_hosts=frozenset(read.names("LUCIUS_ALLOWED_REF_HOSTS")),
    )
    if read.wrong:
        raise SettingsError("; ".join(read.wrong))
    return settings


class _Reader:
    """Reads one setting at a time and collects what is wrong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.wrong: list[str] = []

    def text(self, name: str) -> str | None:
        return self._environ.get(name, "").strip() or None

    def names(self, name: str) -> set[str]:
        return {part.strip().lower() for part in (self.text(name) or "").split(",") if part.strip()}

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.text(name)
        if value is not None and value not in allowed:
            self.wrong.append(f"{name} must be one of {', '.join(allowed)}")
        return value or default

    def seconds(self, name: str, default: float) -> float:
        value = self.text(name)
        if value is None:
            return default
        number = self._number(value)
        if number is None:
            self.wrong.append(f"{name} must be a number above 0")
            return default
        return number

    def whole(self, name: str, default: int, *, least: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        if not value.isdecimal() or int(value) < least:
            self.wrong.append(f"{name} must be a whole number of at least {least}")
            return default
        return int(value)

    def backoffs(self, name: str, default: tuple[float, ...]) -> tuple[float, ...]:
        value = self.text(name)
        if value is None:
            return default
        numbers = [self._number(part) for part in value.split(",")]
        if any(number is None for number in numbers):
            self.wrong.append(f"{name} must be numbers of seconds above 0 with commas between, for example 30,120,600")
            return default
        return tuple(number for number in numbers if number is not None)

    @staticmethod
    def _number(text: str) -> float | None:
        try:
            number = float(text)
        except ValueError:
            return None
        return number if 0 < number < float("inf") else None


def _blob_uri(connection: str | None, endpoint: str | None) -> str:
    """The blob service's URI, from whichever of the two is set."""
    if endpoint is not None:
        return endpoint.rstrip("/")
    if connection is None or connection.strip(";").lower() == _DEV_STORAGE.lower():
        return _DEV_BLOB_URI
    parts = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
    if "BlobEndpoint" in parts:
        return parts["BlobEndpoint"].rstrip("/")
    scheme = parts.get("DefaultEndpointsProtocol", "https")
    suffix = parts.get("EndpointSuffix", "core.windows.net")
    uri = f"{scheme}://{parts.get('AccountName', '')}.blob.{suffix}"
    return uri if urlsplit(uri).hostname else _DEV_BLOB_URI
