"""The id of a rejected message, and where its row stands: newest first within the partition of its day.

The id is a function of the message, so that every delivery of it is one row, and holds the instant, so that the
row is found without a search.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from shared.core.canonical import digest
from shared.core.strict_json import parse_json

_ID = re.compile(r"rej_(\d{13})_([0-9a-f]{24})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_FUTURE_MS = 9_999_999_999_999


def rejection_id(received_at: datetime, *, lane: int, message_id: str, sequence_number: int) -> str:
    """`rej_{milliseconds since 1970}_{hash of the message's identity on the bus}`."""
    millis = (received_at - _EPOCH) // timedelta(milliseconds=1)
    return f"rej_{millis:013d}_{digest(f'{lane}:{message_id}:{sequence_number}')[:24]}"


def day_partition(id_: str) -> str:
    """The partition, `YYYYMMDD` in UTC. Raises ValueError if this is no such id."""
    return f"{_instant(id_):%Y%m%d}"


def row_key(id_: str) -> str:
    """The RowKey; sorts newest first. Raises ValueError if this is no such id."""
    millis, mark = _parts(id_)
    return f"{_FAR_FUTURE_MS - millis:013d}:{mark}"


def _instant(id_: str) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=_parts(id_)[0])
    except OverflowError:
        raise ValueError("no such id") from None


def _parts(id_: str) -> tuple[int, str]:
    if (match := _ID.fullmatch(id_)) is None:
        raise ValueError("no such id")
    return int(match[1]), match[2]


def tenant_named_in(body: str) -> str | None:
    """The tenant that a rejected message names; None if it is not told."""
    try:
        value = parse_json(body.encode("utf-8"))
    except ValueError:
        return None
    tenant_id = value.get("tenant_id") if isinstance(value, dict) else None
    return tenant_id if isinstance(tenant_id, str) else None
