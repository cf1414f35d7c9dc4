"""What the core asks of a shell: send a request, or wait. No I/O happens here."""

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
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    #: seconds that the API may take on purpose before it answers
    long_poll_s: float = 0.0
    #: False: the first answer is what is wanted to know
    repeat: bool = True


@dataclass(frozen=True)
class Pause:
    """Nothing to send for so long."""

    seconds: float


@dataclass(frozen=True)
class Response:
    """An HTTP response, read to its end. `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str | None:
        return self.headers.get(name.lower())

    @property
    def retry_after_s(self) -> float | None:
        """RFC 9110, 10.2.3: seconds or a date."""
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
    """The request did not come through, or its answer did not come back."""

    reason: str


#: yields what to do, is sent what came of a Request (None after a Pause), and returns its result
Flow = Generator[Request | Pause, Response | NoResponse | None, T]
