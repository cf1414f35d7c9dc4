"""The settings of a service, read once from its environment (docs/guides/platform-services.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_BUS = "LUCIUS_SERVICEBUS_CONNECTION"


class SettingsError(Exception):
    """A setting is missing or invalid, or a child process cannot start. For a setting, the message names the setting
    and the required form.
    """


@dataclass(frozen=True)
class Settings:
    """The settings of one service process."""

    #: connection string of the bus (never logged); empty: managed identity
    servicebus_connection: str = field(default="", repr=False)
    #: host name of the bus, used without a connection string
    servicebus_namespace: str = ""
    #: connection string of the blob account that holds documents and workspaces (never logged); empty: managed identity
    blob_connection: str = field(default="", repr=False)
    #: blob endpoint of the account, used without a connection string
    blob_endpoint: str = ""
    #: number of lanes of the bus
    lanes: int = 16
    #: numbers of the lanes that this process listens on
    listen: tuple[int, ...] = tuple(range(16))
    #: prefix of reply topics, followed by the lane's number
    reply_prefix: str = "global-bus-replies-p"
    #: maximum attempts that wait for a worker; each lane can exceed it by one, since it may already be receiving
    queue_size: int = 32
    #: maximum attempts in progress, each on its own thread or in its own child process
    workers: int = 1
    #: seconds between heartbeats of an attempt that waits or is in progress
    heartbeat_s: float = 30.0
    #: maximum seconds of the work on an attempt; the app's limit of the same name counts from the ACK
    attempt_max_s: float = 14_400.0
    #: maximum memory of each child process of a step with `isolation = "process"`, in MiB; 0: no limit
    memory_mib: int = 0
    #: `bus`, or `http` to use the directive's `callback_urls`
    replies: str = "bus"
    #: seconds for running work to finish after SIGTERM
    grace_s: float = 20.0
    #: maximum input that is read, in MiB
    max_input_mib: int = 64
    #: HTTP port of /health/live and /health/ready; 0: no health probes
    health_port: int = 0
    #: format of logs: `text` or `json`
    logs: str = "text"


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Reads all settings. Raises SettingsError for a missing or invalid setting."""
    lanes = whole_number(environ, "LUCIUS_SERVICEBUS_LANES", 16, 1, 1024)
    bus, namespace = _connection_or_address(environ, _BUS, f"{_BUS}__fullyQualifiedNamespace")
    blobs, blob_endpoint = _connection_or_address(environ, "LUCIUS_BLOB_CONNECTION", "LUCIUS_BLOB_ENDPOINT")
    return Settings(
        servicebus_connection=bus,
        servicebus_namespace=namespace,
        blob_connection=blobs,
        blob_endpoint=blob_endpoint,
        lanes=lanes,
        listen=_lanes(environ, lanes),
        reply_prefix=_topic_prefix(environ, "LUCIUS_SERVICEBUS_REPLY_PREFIX", Settings.reply_prefix),
        queue_size=whole_number(environ, "LUCIUS_SERVICE_QUEUE_SIZE", Settings.queue_size, 1, 10_000),
        workers=whole_number(environ, "LUCIUS_SERVICE_WORKERS", Settings.workers, 1, 64),
        heartbeat_s=_seconds(environ, "LUCIUS_SERVICE_HEARTBEAT_SECONDS", Settings.heartbeat_s),
        attempt_max_s=_seconds(environ, "LUCIUS_ATTEMPT_MAX_SECONDS", Settings.attempt_max_s),
        memory_mib=whole_number(environ, "LUCIUS_SERVICE_MEMORY_MIB", Settings.memory_mib, 0, 2**20),
        replies=_one_of(environ, "LUCIUS_SERVICE_REPLIES", ("bus", "http")),
        grace_s=_seconds(environ, "LUCIUS_SERVICE_GRACE_SECONDS", Settings.grace_s),
        max_input_mib=whole_number(environ, "LUCIUS_SERVICE_MAX_INPUT_MIB", Settings.max_input_mib, 1, 4096),
        health_port=whole_number(environ, "LUCIUS_SERVICE_HEALTH_PORT", 0, 0, 65535),
        logs=_one_of(environ, "LUCIUS_SERVICE_LOGS", ("text", "json")),
    )


def _connection_or_address(environ: Mapping[str, str], connection: str, address: str) -> tuple[str, str]:
    """Returns (connection string, "") or ("", host name or URL for managed identity). The connection string has
    precedence. Raises SettingsError if both settings are unset.
    """
    value, plain = environ.get(connection, "").strip(), environ.get(address, "").strip()
    if not value and not plain:
        raise SettingsError(f"{connection} is not set; set this connection string, or {address} for managed identity")
    return (value, "") if value else ("", plain)


def whole_number(environ: Mapping[str, str], name: str, default: int, minimum: int, maximum: int) -> int:
    """Parses a setting from `minimum` to `maximum`. Returns `default` if the setting is unset. Raises SettingsError."""
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if not minimum <= value <= maximum:
        raise SettingsError(f"{name}={text!r} must be a whole number from {minimum} to {maximum}")
    return value


def _one_of(environ: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    """Parses one of `allowed`. Returns the first allowed value if the setting is unset."""
    value = environ.get(name, "").strip() or allowed[0]
    if value not in allowed:
        raise SettingsError(f"{name}={value!r} must be one of {', '.join(allowed)}")
    return value


def _topic_prefix(environ: Mapping[str, str], name: str, default: str) -> str:
    """Parses the name of a topic without its last number. Service Bus allows 260 characters."""
    value = environ.get(name, "").strip() or default
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,249}", value) is None:
        allowed = "1 to 250 letters, digits, periods, hyphens, underscores and slashes"
        raise SettingsError(f"{name}={value!r} must have {allowed}, and begin with a letter or a digit")
    return value


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 86_400:
        raise SettingsError(f"{name}={text!r} must be a number of seconds above 0 and below 86,400")
    return value


def _lanes(environ: Mapping[str, str], lanes: int) -> tuple[int, ...]:
    """Parses the lanes in `LUCIUS_SERVICE_LANES`, a list such as `0,3,8-11`. Returns all lanes if the setting is
    unset.
    """
    text = environ.get("LUCIUS_SERVICE_LANES", "").strip()
    if not text:
        return tuple(range(lanes))
    chosen: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            chosen.update(range(int(first), int(last or first) + 1))
    except ValueError:
        chosen = set()
    if not chosen or min(chosen) < 0 or max(chosen) >= lanes:
        raise SettingsError(f"LUCIUS_SERVICE_LANES={text!r} must list lanes from 0 to {lanes - 1}, as in 0,3,8-11")
    return tuple(sorted(chosen))
