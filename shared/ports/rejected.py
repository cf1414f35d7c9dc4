"""Messages that no job accepted: their ids and their store.

An id is made from the message, so every delivery of a message is one row. The id includes the time, so the row is found
without a search. The rows of a day are in one partition, newest first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol

from shared.contracts.envelope import RESERVED_TENANTS
from shared.core.jobs.routing import normalise
from shared.core.records.canonical import digest
from shared.core.records.strict_json import parse_json

_ID = re.compile(r"rej_(\d{13})_([0-9a-f]{24})")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR_FUTURE_MS = 9_999_999_999_999
_DAY_MS = 86_400_000
#: maximum length of a job's tenant id (`shared.contracts.envelope`)
_MAX_TENANT = 128


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """A row of the table of rejected messages: a message that no job accepted, without its body."""

    #: id, the same for every delivery of the message (`shared.ports.rejected`)
    id: str
    received_at: datetime
    reason: str
    detail: str
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    #: normalised tenant that the message itself names; None if there is none
    tenant: str | None = None
    #: time when a redrive applied it to its job
    redriven_at: datetime | None = None
    #: result of that redrive
    redriven_outcome: str | None = None


@dataclass(frozen=True, kw_only=True)
class RejectedMessage(Rejection):
    """A rejected message with its body."""

    body: str


class RejectedMessages(Protocol):
    """The store of messages that no job accepted and that must not block their lane. Each method raises
    LedgerUnavailable.
    """

    async def quarantine(self, message: RejectedMessage) -> None:
        """Stores a rejected message. Idempotent. The mark of a redrive stays."""

    async def read(self, id_: str) -> RejectedMessage | None:
        """Reads a message. Returns None if the message does not exist. Raises DataLost if its body is lost.

        Raises ValueError for an invalid id.
        """

    async def list_days(
        self, first: date, last: date, *, tenant: str | None, after: str | None, limit: int
    ) -> list[Rejection]:
        """Lists messages received from the first to the last day (UTC), newest first, after the id `after`.

        `tenant` None means all tenants. Raises ValueError for an invalid `after`.
        """

    async def mark(self, message: Rejection, *, redriven_at: datetime, outcome: str) -> None:
        """Records that a redrive applied the message."""

    async def purge(self, tenant: str, *, limit: int) -> int:
        """Deletes at most `limit` messages of a tenant. Returns their number. Raises LedgerUnavailable."""

    async def delete_before(self, day: date, *, limit: int) -> int:
        """Deletes at most `limit` messages of days before `day` and their bodies. Returns their number. Idempotent."""


def rejection_id(received_at: datetime, *, lane: int, message_id: str, sequence_number: int) -> str:
    """Returns `rej_{milliseconds since 1970}_{hash of the message's identity on the bus}`."""
    millis = (received_at - _EPOCH) // timedelta(milliseconds=1)
    return f"rej_{millis:013d}_{digest(f'{lane}:{message_id}:{sequence_number}')[:24]}"


def day_partition(id_: str) -> str:
    """Returns the partition, `YYYYMMDD` in UTC. Raises ValueError for an invalid id."""
    return f"{_instant(id_):%Y%m%d}"


def row_key(id_: str) -> str:
    """Returns the RowKey, which sorts newest first. Raises ValueError for an invalid id."""
    millis, mark = _parts(id_)
    return f"{_FAR_FUTURE_MS - millis:013d}:{mark}"


def row_keys_between(first: date, last: date) -> tuple[str, str]:
    """Returns the bounds of the RowKeys of messages from the first to the last day."""
    newest, oldest = (int(datetime.combine(day, time(), UTC).timestamp() * 1000) for day in (last, first))
    # a day is added to the number: `date` has no day after 9999-12-31
    newest += _DAY_MS
    # `;` is the character after `:`
    return f"{_FAR_FUTURE_MS - newest:013d};", f"{_FAR_FUTURE_MS - oldest:013d};"


def _instant(id_: str) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=_parts(id_)[0])
    except OverflowError:
        raise ValueError("invalid id of a rejected message") from None


def _parts(id_: str) -> tuple[int, str]:
    if (match := _ID.fullmatch(id_)) is None:
        raise ValueError("invalid id of a rejected message")
    return int(match[1]), match[2]


def tenant_named_in(body: str) -> str | None:
    """Returns the normalised tenant that a rejected message names. Returns None if the message names no valid
    tenant.
    """
    try:
        value = parse_json(body.encode("utf-8"))
    except ValueError:
        return None
    tenant_id = value.get("tenant_id") if isinstance(value, dict) else None
    tenant = normalise(tenant_id) if isinstance(tenant_id, str) else ""
    return tenant if 0 < len(tenant) <= _MAX_TENANT and tenant not in RESERVED_TENANTS else None
