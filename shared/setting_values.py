"""The declaration of a setting, and the parsers of values from text of the environment.

A parser's ValueError states the required form, and never repeats a value that can contain a secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from shared.access.tenants import plain_tenant, public_client
from shared.access.webhook_addresses import listed_host
from shared.core.records.strict_json import parse_json
from shared.errors import excerpt

_T = TypeVar("_T")

#: form of
#: https://learn.microsoft.com/azure/key-vault/general/about-keys-secrets-certificates#objects-identifiers-and-versioning
_VAULT_KEY = re.compile(r"https://[\w.-]+/keys/[A-Za-z0-9-]{1,127}")
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")
#: minimum length of a key: one shorter than the hash weakens it (RFC 2104 3)
_MIN_KEY_BYTES = 32
_MAX_BACKOFFS = 50
#: form of Microsoft's "Naming rules and restrictions for Azure resources"; `tables` is a resource of the Table service
#: itself
_TABLE = re.compile(r"(?!(?i:tables)\Z)[A-Za-z][A-Za-z0-9]{2,62}")
_CONTAINER = re.compile(r"(?=.{3,63}\Z)[a-z0-9]+(-[a-z0-9]+)*")
_SUBSCRIPTION = re.compile(r"(?=.{1,50}\Z)[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
#: form of a topic's name without the lane's number at its end; the whole name has at most 260 characters
_TOPIC_PREFIX = re.compile(r"(?=.{1,250}\Z)[A-Za-z0-9][A-Za-z0-9._/-]*")
_DEV_STORAGE = "UseDevelopmentStorage=true"
_DEV_BLOB_URI = "http://127.0.0.1:10000/devstoreaccount1"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
#: a century: longer times would exceed the range of datetimes
_MAX_DAYS = 100 * 365
_MAX_SECONDS = _MAX_DAYS * 86_400


@dataclass(frozen=True)
class Setting:
    """An environment variable that the app reads."""

    name: str
    parse: Callable[[str], Any]
    #: default as text; "": none
    default: str
    help: str
    #: `True` if it is a member of the template's parameter `tuning`; the template sets or omits other settings
    tuning: bool
    #: `True` if it is only for local stacks; a deployment never sets it
    local: bool


def setting(
    name: str,
    parse: Callable[[str], _T],
    default: str = "",
    *,
    help: str,
    secret: bool = False,
    tuning: bool = False,
    local: bool = False,
) -> _T:
    """Declares a field of `Settings`. `repr` omits a secret."""
    declared = Setting(name, parse, default, help, tuning, local)
    return cast(_T, field(metadata={"setting": declared}, repr=not secret))


def text(value: str) -> str:
    return value


def optional(parse: Callable[[str], _T]) -> Callable[[str], _T | None]:
    """Returns a parser that returns None for an empty setting, else the value of `parse`."""
    return lambda value: parse(value) if value else None


def choice(*allowed: str, older: Mapping[str, str] | None = None) -> Callable[[str], str]:
    """Returns a parser of one of these names, exactly. An `older` name is replaced by its new name."""

    def parse(value: str) -> str:
        value = (older or {}).get(value, value)
        if value not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}, not {excerpt(value)}")
        return value

    return parse


def whole_number(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError(f"must be a whole number of at least 1, not {excerpt(value)}")
    return int(value)


def number(value: str) -> float:
    [parsed] = _numbers(value, "must be a number above 0", most=1)
    return parsed


def share(value: str) -> float:
    try:
        parsed = float(value)
    except ValueError:
        parsed = -1.0
    if not 0 <= parsed <= 1:
        raise ValueError(f"must be a number from 0 to 1, not {excerpt(value)}")
    return parsed


def seconds(value: str) -> float:
    parsed = number(value)
    if parsed > _MAX_SECONDS:
        raise ValueError(f"must be at most 3,153,600,000 seconds (100 years), not {excerpt(value)}")
    return parsed


def at_least(least: float) -> Callable[[str], float]:
    """Returns a parser of seconds, from `least` to 100 years."""

    def parse(value: str) -> float:
        if (parsed := seconds(value)) < least:
            raise ValueError(f"must be at least {least:g} seconds, not {excerpt(value)}")
        return parsed

    return parse


def days(value: str) -> float:
    parsed = number(value)
    if parsed > _MAX_DAYS:
        raise ValueError(f"must be at most 36,500 days (100 years), not {excerpt(value)}")
    return parsed


def days_from(least: float) -> Callable[[str], float]:
    """Returns a parser of days, from `least` to 100 years."""

    def parse(value: str) -> float:
        if (parsed := days(value)) < least:
            raise ValueError(f"must be at least {least:g} days, not {excerpt(value)}")
        return parsed

    return parse


def lifetime(value: str) -> timedelta | None:
    """Parses a number of days. Returns None, which means unlimited, for 0."""
    if value.strip() == "0":
        return None
    _numbers(value, "must be a number of days above 0, or 0 for unlimited", most=1)
    return timedelta(days=days(value))


def backoffs(value: str) -> tuple[float, ...]:
    """Parses seconds before the next attempt, separated by commas."""
    return _numbers(
        value,
        f"must be 1 to {_MAX_BACKOFFS} numbers of seconds above 0, separated by commas (30,120,600)",
        most=_MAX_BACKOFFS,
    )


def _numbers(value: str, form: str, *, most: int) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in value.split(","))
    except ValueError:
        numbers = ()
    if not (0 < len(numbers) <= most and all(0 < number < float("inf") for number in numbers)):
        raise ValueError(f"{form}, not {excerpt(value)}")
    return numbers


def names(value: str) -> frozenset[str]:
    """Parses names separated by commas. Returns the set of names in lower case."""
    return frozenset(part.strip().lower() for part in value.split(",") if part.strip())


def texts(value: str) -> tuple[str, ...]:
    """Parses texts separated by commas, and keeps their order."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def connection_string(*parts: str) -> Callable[[str], str]:
    """Returns a parser of a connection string that must have these parts."""

    def parse(value: str) -> str:
        if not all(f";{part}=" in f";{value}" for part in parts):
            raise ValueError(f"must have the form {';'.join(f'{part}=...' for part in parts)}")
        return value

    return parse


def address(value: str) -> str:
    """Parses an http or https URL without query and fragment. Returns the URL without slashes at its end."""
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(
            "must be an http or https URL without query and fragment, for example https://lucius.example.com"
        )
    return value.rstrip("/")


def table_name(value: str) -> str:
    if _TABLE.fullmatch(value) is None:
        raise ValueError(
            "must be a table name of 3 to 63 letters and digits that begins with a letter and differs from tables, not "
            f"{excerpt(value)}"
        )
    return value


def topic_prefix(value: str) -> str:
    """Parses the name of a topic without the number at its end."""
    if _TOPIC_PREFIX.fullmatch(value) is None:
        raise ValueError(
            "must be 1 to 250 letters, digits, periods, hyphens, underscores and slashes that begin with a letter or a "
            f"digit, not {excerpt(value)}"
        )
    return value


def subscription_name(value: str) -> str:
    if _SUBSCRIPTION.fullmatch(value) is None:
        raise ValueError(
            "must be 1 to 50 letters, digits, periods, hyphens and underscores that begin and end with a letter or a "
            f"digit, not {excerpt(value)}"
        )
    return value


def container_uri(value: str) -> str:
    """Parses the URL of a blob container. Its name is the last part of the path."""
    container = address(value).rpartition("/")[2]
    if not urlsplit(value).path.strip("/") or _CONTAINER.fullmatch(container) is None:
        raise ValueError(
            "must end with the name of a blob container, 3 to 63 lower-case letters, digits and single hyphens, not "
            f"{excerpt(container)}"
        )
    return value


def trusted_address(value: str) -> str:
    """Parses a URL whose content is trusted: https, or http on loopback."""
    try:
        parts = urlsplit(value)
        good = bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        good = False
    if not good or not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)):
        raise ValueError("must be an https URL (http on loopback only) with a host and without user information")
    return value


def signing_key(value: str) -> str:
    """Parses the path of a file, or the URL of a key in Key Vault without its version."""
    if "://" not in value:
        return value
    if _VAULT_KEY.fullmatch(value) is None:
        raise ValueError("must be the path of a PEM file, or https://VAULT/keys/NAME without a version")
    return value


def keys(value: str) -> tuple[tuple[str, bytes], ...]:
    """Parses `kid:base64key,...` to pairs (key id, secret). The error never includes the value, which is a secret."""
    parsed: dict[str, bytes] = {}
    for part in texts(value):
        kid, _, encoded = part.partition(":")
        try:
            secret = base64.b64decode(encoded, validate=True)
        except ValueError:
            secret = b""
        if not _KEY_ID.fullmatch(kid) or len(secret) < _MIN_KEY_BYTES or kid in parsed:
            raise ValueError(
                f"must be a list of kid:base64key, separated by commas. Each key has at least {_MIN_KEY_BYTES} bytes. "
                "Each kid occurs once, and has 1 to 32 letters, digits, hyphens and underscores"
            )
        parsed[kid] = secret
    return tuple(parsed.items())


def hosts(value: str) -> frozenset[str]:
    """Parses `HOST`, `HOST:PORT` and `HOST:*`, separated by commas, with or without `TENANT@`. Default port: 443."""
    try:
        return frozenset(listed_host(each.lower()) for each in texts(value))
    except ValueError:
        raise ValueError(
            "must be a list of HOST, HOST:PORT or HOST:*, separated by commas, with IPv6 addresses in brackets. "
            "TENANT@ can precede a host"
        ) from None


def tenants(value: str) -> Mapping[str, Mapping[str, str]]:
    """Parses JSON that maps values of claims to tenants. The result has normalised tenants."""
    try:
        given = parse_json(value.encode()) if value else {}
        items = [(claim, text, plain_tenant(name)) for claim, names in given.items() for text, name in names.items()]
    except (ValueError, AttributeError):
        items = [("", "", None)]
    mapped: dict[str, dict[str, str]] = {}
    for claim, text, tenant in items:
        if tenant is None:
            raise ValueError(
                'must be JSON that maps values of claims to valid tenant names, for example {"azp": {"ID": "contoso"}}'
            )
        if everybodys := public_client(text):
            raise ValueError(
                f"must not map the id of {everybodys}, a public client, to a tenant: every user can use that client"
            )
        mapped.setdefault(claim, {})[text] = tenant
    return mapped


def blob_uri(connection: str, endpoint: str) -> str:
    """Returns the blob service's URI: `endpoint`, or without an endpoint the URI of the connection string. If neither
    names a service, returns the URI of the local emulator Azurite.
    """
    if endpoint:
        return endpoint.rstrip("/")
    if not connection or connection.strip(";").lower() == _DEV_STORAGE.lower():
        return _DEV_BLOB_URI
    parts = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
    if "BlobEndpoint" in parts:
        return parts["BlobEndpoint"].rstrip("/")
    scheme = parts.get("DefaultEndpointsProtocol", "https")
    suffix = parts.get("EndpointSuffix", "core.windows.net")
    uri = f"{scheme}://{parts.get('AccountName', '')}.blob.{suffix}"
    return uri if urlsplit(uri).hostname else _DEV_BLOB_URI
