"""The app's settings: the only module that reads the environment (names as in CONTRACT "Settings")."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from shared import build
from shared.core.plan import TimingDefaults
from shared.errors import SettingsError
from shared.settings_table import SETTINGS

#: the repository's root, where `protocols/` and `infra/bicep/topology.json` stand
ROOT = Path(__file__).resolve().parent.parent

#: name of the app setting that bindings and the publisher share; identity forms add `__fullyQualifiedNamespace`
SERVICEBUS_SETTING = "LUCIUS_SERVICEBUS_CONNECTION"

_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
#: RFC 2104 3: a key shorter than the hash weakens it
_MIN_KEY_BYTES = 32

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
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

    defaults: TimingDefaults
    idempotency_ttl_days: float
    #: None: ended jobs are kept for ever
    retention_days: float | None
    default_mode: str
    sweep_schedule: str
    #: None: no limit, and no cost
    max_inflight_per_tenant: int | None
    max_inflight: int | None
    max_inflight_burst: int | None
    protocols_path: Path
    topology_path: Path
    #: neither: the protocol files rule
    appconfig_connection: str | None = field(repr=False)
    appconfig_endpoint: str | None
    appconfig_refresh_s: float

    #: the app's own address as services see it, without a slash at its end
    public_url: str | None
    #: (key id, secret): the first signs callback tokens, all verify; empty: no callbacks
    callback_keys: tuple[tuple[str, bytes], ...] = field(repr=False)

    #: the commit that whoever packaged the app wrote down
    build_commit: str | None

    auth_mode: str
    #: these three are there with `jwt`
    auth_issuer: str
    auth_audiences: tuple[str, ...]
    auth_jwks_url: str
    auth_tenant_claim: str
    auth_all_tenants_role: str
    allowed_ref_schemes: frozenset[str]
    allowed_ref_hosts: frozenset[str]


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads and checks everything at once, from the process's environment by default.

    Raises SettingsError naming every setting that is wrong.
    """
    environ = os.environ if environ is None else environ
    read = _Reader(environ)
    in_azure = bool(environ.get("WEBSITE_SITE_NAME"))
    backend = read.choice("LUCIUS_STORAGE_BACKEND", ("tables", "memory"))
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
    auth_mode = read.choice("LUCIUS_AUTH_MODE", ("none", "jwt"), default="jwt" if in_azure else "none")
    if auth_mode == "none" and in_azure:
        read.wrong.append("LUCIUS_AUTH_MODE=none is refused in Azure")
    if auth_mode == "jwt":
        for name in ("LUCIUS_AUTH_ISSUER", "LUCIUS_AUTH_AUDIENCE", "LUCIUS_AUTH_JWKS_URL"):
            if read.text(name) is None:
                read.wrong.append(f"{name} is not set: LUCIUS_AUTH_MODE=jwt needs it")
    schemes = read.names("LUCIUS_ALLOWED_REF_SCHEMES") or {"https", "s3", "abfss"} | (set() if in_azure else {"http"})
    settings = Settings(
        servicebus_connection=servicebus,
        servicebus_namespace=namespace,
        lanes=read.whole("LUCIUS_SERVICEBUS_LANES", least=1),
        reply_prefix=read.name("LUCIUS_SERVICEBUS_REPLY_PREFIX"),
        reply_subscription=read.name("LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION"),
        storage_backend=backend,
        table_connection=table,
        table_endpoint=table_endpoint,
        blob_connection=blob,
        blob_endpoint=blob_endpoint,
        ledger_table=read.name("LUCIUS_LEDGER_TABLE"),
        index_table=read.name("LUCIUS_INDEX_TABLE"),
        tenants_table=read.name("LUCIUS_TENANTS_TABLE"),
        rejected_table=read.name("LUCIUS_REJECTED_TABLE"),
        workspace_uri=read.text("LUCIUS_WORKSPACE_URI") or f"{_blob_uri(blob, blob_endpoint)}/workspace",
        defaults=TimingDefaults(
            ack_timeout_s=read.number("LUCIUS_ACK_TIMEOUT_SECONDS"),
            lease_s=read.number("LUCIUS_STEP_RESULT_TIMEOUT_SECONDS"),
            max_attempts=read.whole("LUCIUS_MAX_ATTEMPTS", least=1),
            dispatch_backoffs=read.backoffs("LUCIUS_DISPATCH_BACKOFF_SECONDS"),
            ack_backoffs=read.backoffs("LUCIUS_ACK_BACKOFF_SECONDS"),
            execution_backoffs=read.backoffs("LUCIUS_EXECUTION_BACKOFF_SECONDS"),
        ),
        idempotency_ttl_days=read.number("LUCIUS_IDEMPOTENCY_TTL_DAYS"),
        retention_days=read.number("LUCIUS_RETENTION_DAYS") if read.text("LUCIUS_RETENTION_DAYS") else None,
        max_inflight_per_tenant=read.limit("LUCIUS_MAX_INFLIGHT_PER_TENANT"),
        max_inflight=read.limit("LUCIUS_MAX_INFLIGHT"),
        max_inflight_burst=read.limit("LUCIUS_MAX_INFLIGHT_BURST"),
        sweep_schedule=read.name("LUCIUS_SWEEP_SCHEDULE"),
        default_mode=read.choice("LUCIUS_DEFAULT_MODE", ("DEFAULT", "BURST")),
        protocols_path=Path(read.text("LUCIUS_PROTOCOLS_PATH") or ROOT / "protocols"),
        topology_path=Path(read.text("LUCIUS_TOPOLOGY_PATH") or ROOT / "infra" / "bicep" / "topology.json"),
        appconfig_connection=read.parts("LUCIUS_APPCONFIG_CONNECTION", ("Endpoint", "Id", "Secret")),
        appconfig_endpoint=read.text("LUCIUS_APPCONFIG_ENDPOINT"),
        appconfig_refresh_s=read.number("LUCIUS_APPCONFIG_REFRESH_SECONDS"),
        public_url=read.url("LUCIUS_PUBLIC_URL"),
        callback_keys=read.keys("LUCIUS_CALLBACK_KEYS"),
        build_commit=build.commit(environ, ROOT),
        auth_mode=auth_mode,
        auth_issuer=read.name("LUCIUS_AUTH_ISSUER"),
        auth_audiences=tuple(filter(None, (each.strip() for each in read.name("LUCIUS_AUTH_AUDIENCE").split(",")))),
        auth_jwks_url=read.guarded_url("LUCIUS_AUTH_JWKS_URL"),
        auth_tenant_claim=read.name("LUCIUS_AUTH_TENANT_CLAIM"),
        auth_all_tenants_role=read.name("LUCIUS_AUTH_ALL_TENANTS_ROLE"),
        allowed_ref_schemes=frozenset(schemes),
        allowed_ref_hosts=frozenset(read.names("LUCIUS_ALLOWED_REF_HOSTS")),
    )
    if settings.retention_days is not None and settings.retention_days < settings.idempotency_ttl_days:
        # a repeated request would be answered with a job that is gone
        read.wrong.append("LUCIUS_RETENTION_DAYS must not be less than LUCIUS_IDEMPOTENCY_TTL_DAYS")
    if read.wrong:
        raise SettingsError("; ".join(read.wrong))
    return settings


class _Reader:
    """Reads one setting at a time, its default from the table, and collects what is wrong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._defaults = {setting.name: setting.default for setting in SETTINGS}
        self.wrong: list[str] = []

    def text(self, name: str) -> str | None:
        return self._environ.get(name, "").strip() or self._defaults.get(name) or None

    def name(self, name: str) -> str:
        return self.text(name) or ""

    def names(self, name: str) -> set[str]:
        return {part.strip().lower() for part in (self.text(name) or "").split(",") if part.strip()}

    def parts(self, name: str, wanted: tuple[str, ...]) -> str | None:
        """A connection string that has these parts."""
        value = self.text(name)
        if value is not None and not all(f";{part}=" in f";{value}" for part in wanted):
            self.wrong.append(f"{name} must have the form {';'.join(f'{part}=...' for part in wanted)}")
        return value

    def url(self, name: str) -> str | None:
        value = self.text(name)
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment):
            return value.rstrip("/")
        self.wrong.append(f"{name} must be an http or https address, for example https://lucius.example.com")
        return None

    def guarded_url(self, name: str) -> str:
        """An address whose answer is trusted: https, or http where nobody stands between; "" if not set."""
        value = self.name(name)
        try:
            parts = urlsplit(value)
            good = bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
        except ValueError:
            good = False
        if value and not (
            good and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK))
        ):
            self.wrong.append(f"{name} must be an https address (http on loopback only)")
        return value

    def keys(self, name: str) -> tuple[tuple[str, bytes], ...]:
        found: list[tuple[str, bytes]] = []
        for part in filter(None, (each.strip() for each in self.name(name).split(","))):
            kid, _, encoded = part.partition(":")
            try:
                secret = base64.b64decode(encoded, validate=True)
            except ValueError:
                secret = b""
            if not _KEY_ID.fullmatch(kid) or len(secret) < _MIN_KEY_BYTES or kid in dict(found):
                # never the value: it is a secret
                self.wrong.append(
                    f"{name} must be kid:base64key with commas between, each key of at least {_MIN_KEY_BYTES} bytes "
                    "and each kid once, of letters, digits, - and _"
                )
                return ()
            found.append((kid, secret))
        return tuple(found)

    def choice(self, name: str, allowed: tuple[str, ...], *, default: str | None = None) -> str:
        value = self.text(name) or default
        if value in allowed:
            return value
        self.wrong.append(f"{name} must be one of {', '.join(allowed)}")
        return allowed[0]

    def number(self, name: str) -> float:
        return self._numbers(name, "must be a number above 0", most=1)[0]

    def backoffs(self, name: str) -> tuple[float, ...]:
        return self._numbers(name, "must be seconds above 0 with commas between, for example 30,120,600")

    def limit(self, name: str) -> int | None:
        return self.whole(name, least=1) if self.text(name) is not None else None

    def whole(self, name: str, *, least: int) -> int:
        value = self.name(name)
        if value.isdecimal() and int(value) >= least:
            return int(value)
        self.wrong.append(f"{name} must be a whole number of at least {least}")
        return least

    def _numbers(self, name: str, form: str, *, most: int = 50) -> tuple[float, ...]:
        try:
            numbers = tuple(float(part) for part in self.name(name).split(","))
        except ValueError:
            numbers = ()
        if 0 < len(numbers) <= most and all(0 < number < float("inf") for number in numbers):
            return numbers
        self.wrong.append(f"{name} {form}")
        return (1.0,)


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
