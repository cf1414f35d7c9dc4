"""Shared access signatures (Azure, "Service Bus access control with Shared Access Signatures")."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from servicebus_emulator.broker.errors import Unauthorized

_PREFIX = "SharedAccessSignature "


@dataclass(frozen=True, slots=True)
class SasKey:
    """The key that signs tokens. `name` is the name of its policy."""

    name: str
    secret: str

    @classmethod
    def parse(cls, text: str) -> SasKey:
        """Reads `KEY` or `NAME=KEY`. The key can have characters `=` only at its end."""
        name, separator, secret = text.rstrip("=").partition("=")
        if not separator:
            return cls("RootManageSharedAccessKey", text)
        return cls(name, secret + text[len(text.rstrip("=")) :])


@dataclass(frozen=True, slots=True)
class Grant:
    """The rights of a token: all entities under `path` ("" is the namespace), until `until_ms` in Unix milliseconds."""

    path: str
    until_ms: int

    def covers(self, path: str) -> bool:
        return path == self.path or not self.path or path.startswith(self.path + "/")


def check_token(token: str, key: SasKey, now_ms: int) -> Grant:
    """Returns the grant of a token. Raises Unauthorized, whose reason never contains the expected signature."""
    if not token.startswith(_PREFIX):
        raise Unauthorized("InvalidToken: a SharedAccessSignature is required.")
    fields = dict(_fields(token.removeprefix(_PREFIX)))
    missing = [name for name in ("sr", "sig", "se", "skn") if name not in fields]
    if missing:
        raise Unauthorized(f"MalformedToken: the token lacks {', '.join(missing)}.")
    if unquote(fields["skn"]) != key.name:
        raise Unauthorized("InvalidSignature: the token's key name is unknown.")
    signed = f"{fields['sr']}\n{fields['se']}".encode()
    expected = base64.b64encode(hmac.new(key.secret.encode(), signed, hashlib.sha256).digest()).decode()
    if not hmac.compare_digest(expected, unquote(fields["sig"])):
        raise Unauthorized("InvalidSignature: the token has an invalid signature.")
    try:
        until_ms = int(float(fields["se"])) * 1000
    except (ValueError, OverflowError) as error:
        raise Unauthorized("MalformedToken: se is not a number.") from error
    if until_ms <= now_ms:
        raise Unauthorized("ExpiredToken: the token is expired.")
    return Grant(resource_path(unquote(fields["sr"])), until_ms)


def _fields(text: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in text.split("&")]
    return [(name, value) for name, _, value in pairs]


def resource_path(resource: str) -> str:
    """Returns the path of a resource URI in lower case. "" is the whole namespace."""
    path = urlsplit(resource).path if "://" in resource else resource
    return path.strip("/").lower()


def check_plain(response: bytes, key: SasKey) -> bool:
    """Returns True if a SASL PLAIN response, `authzid NUL name NUL key` (RFC 4616), has the name and the key."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        return False
    name = hmac.compare_digest(parts[1], key.name.encode())
    return hmac.compare_digest(parts[2], key.secret.encode()) and name
