"""Actions of a client and their results: requests, pauses and responses (no I/O).

The generators of the modules `retry` and `series` yield a `Request` or a `Pause`. A client sends or sleeps, and returns
the outcome to the generator. This way both clients share every decision.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Request:
    """An HTTP request to the API. `repeat` allows retries."""

    method: str
    #: quoted path, from the root of the API
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    #: seconds for which the API may delay its response on purpose (long poll)
    long_poll_s: float = 0.0
    #: `False` if the first outcome is the result, even after a temporary fault (health probes, webhook tests,
    #: secret rotations)
    repeat: bool = True


@dataclass(frozen=True)
class Pause:
    """A wait of the client before its next request."""

    seconds: float


@dataclass(frozen=True)
class Response:
    """An HTTP response, read to its end."""

    status: int
    #: headers by name in lower case
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str | None:
        """Returns a header by its name in any case. Returns None if the header is missing."""
        return self.headers.get(name.lower())

    @property
    def retry_after_s(self) -> float | None:
        """Returns `Retry-After` in seconds, also if the header has a date (RFC 9110 10.2.3). Returns None if the header
        is missing or malformed.
        """
        header = self.header("Retry-After")
        if header is None:
            return None
        if header.strip().isdecimal():
            return float(header)
        try:
            at = parsedate_to_datetime(header)
        except ValueError:
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())


@dataclass(frozen=True)
class NoResponse:
    """A request that did not arrive, or whose response was lost."""

    #: reason for people
    reason: str


#: generator that yields a request or a pause, gets the outcome of the request (None after a pause), and returns its
#: result
Flow = Generator[Request | Pause, Response | NoResponse | None, T]
