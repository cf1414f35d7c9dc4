"""What a client is to do, and what comes of it: requests, pauses and responses (no I/O).

The code that decides (`retry`, `series`) is a generator that yields a `Request` or a `Pause`. A client sends or sleeps,
and sends the outcome back into the generator. This is how both clients share every decision.
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
    """One HTTP request."""

    method: str
    #: from the root of the API, quoted
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    #: seconds that the API may delay its response on purpose (long poll)
    long_poll_s: float = 0.0
    #: False: the first outcome is the result, also when it may pass (probes of health)
    repeat: bool = True


@dataclass(frozen=True)
class Pause:
    """Send nothing for some time."""

    seconds: float


@dataclass(frozen=True)
class Response:
    """An HTTP response, read to its end."""

    status: int
    #: by name in lower case
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str | None:
        """One header by its name in any case; None if it is missing."""
        return self.headers.get(name.lower())

    @property
    def retry_after_s(self) -> float | None:
        """`Retry-After` in seconds, also if it is a date (RFC 9110 10.2.3); None: missing or malformed."""
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
    """The request did not arrive, or its response did not come back."""

    #: for people
    reason: str


#: yields a request or a pause, is sent the outcome of the request (None after a pause), and returns its result
Flow = Generator[Request | Pause, Response | NoResponse | None, T]
