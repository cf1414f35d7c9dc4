"""Reads daily anchors, each with the heads of one tenant (R91)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from shared.errors import LedgerUnavailable
from shared.operations.audit.write_anchors import anchor_name, newest_anchor, part_name
from shared.operations.process.context import Context

#: bytes of the tenant's files after which a page ends, and maximum days of a page
MAX_BYTES, MAX_DAYS = 1024 * 1024, 100
_DAY = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Anchor:
    """A day's anchor, with records of the tenant's file of that day. The first record of a file is not a head."""

    day: date
    #: the signed anchor as a DSSE envelope
    envelope: dict[str, Any]
    lines: Sequence[dict[str, Any]]


async def read_anchors(
    context: Context, tenant: str, *, first: date, last: date, position: str | None
) -> tuple[list[Anchor], str | None]:
    """Returns the anchors of a page, and the position of the next page or None. A day whose file exceeds the page
    continues on the next page.

    `position`: `DAY:OFFSET` from the page before. Raises LedgerUnavailable, and ValueError for any other position.
    """
    kept = context.require_audit().kept
    day, offset = first, 0
    if position:
        text, _, number = position.partition(":")
        day, offset = date.fromisoformat(text), int(number)
        if not first <= day <= last or offset < 0:
            raise ValueError("outside of the window")
    newest = await newest_anchor(context)
    found, room = list[Anchor](), MAX_BYTES
    while newest is not None and day <= min(last, newest):
        if room <= 0 or len(found) == MAX_DAYS:
            return found, f"{day.isoformat()}:{offset}"
        envelope = await kept.read(anchor_name(day))
        if envelope is None:
            if found:
                raise LedgerUnavailable(f"anchor of {day} not found; restore its blob")
            # the first anchor is of a later day
            day += _DAY
            continue
        content = await kept.read(part_name(tenant, day), offset=offset, length=MAX_BYTES) or b""
        whole = content[: content.rfind(b"\n") + 1]
        lines = [json.loads(line) for line in whole.splitlines()]
        found.append(Anchor(day=day, envelope=json.loads(envelope), lines=lines))
        room -= len(whole)
        if len(content) == MAX_BYTES and whole:
            return found, f"{day.isoformat()}:{offset + len(whole)}"
        day, offset = day + _DAY, 0
    return found, None
