"""An instant that a caller names."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator, Field

#: Azure Tables holds no instant before 1601, and no job is older than 2000
PATTERN = r"^2[01][0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$"

_FORM = re.compile(PATTERN.removesuffix("$"))


def _is_rfc3339(value: Any) -> Any:
    if not isinstance(value, str) or _FORM.fullmatch(value) is None:
        raise ValueError("must be an instant of RFC 3339 between 2000 and 2200, for example 2026-01-27T10:00:00Z")
    return value


#: RFC 3339 with its zone; no number, and none of the many other forms that parsers take
GivenInstant = Annotated[
    AwareDatetime,
    BeforeValidator(_is_rfc3339),
    Field(json_schema_extra={"pattern": PATTERN}, examples=["2026-01-27T10:00:00Z"]),
]

_SENT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}")


def _is_text(value: Any) -> Any:
    if (isinstance(value, str) and _SENT.match(value) is None) or isinstance(value, int | float):
        raise ValueError("must be an instant with its zone, for example 2026-01-27T10:02:00Z")
    return value


#: an instant with its zone in any of ISO 8601's forms that name date and time, from a service; no number
SentAt = Annotated[AwareDatetime, BeforeValidator(_is_text), Field(examples=["2026-01-27T10:02:00Z"])]
