"""Writes one signed anchor a day, over the heads of every tenant with new rows on that day (R91).

A tenant's part is a file of its heads. The anchor has the digests of all parts, and of the anchor of the day before.
Files are created once and never changed.

Of two concurrent processes, one creates each file and the other reads it. A call that dies leaves parts, which the next
call uses. Days are anchored in order, and a missed day is anchored later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, time, timedelta

from shared import telemetry
from shared.core.audit.heads import day_of, json_lines
from shared.core.audit.statements import anchor_statement, payload_of, sha256
from shared.core.records.canonical import encode_key, jcs
from shared.errors import LuciusError
from shared.operations.audit.complete_heads import SETTLED, complete_until, list_open_incidents
from shared.operations.audit.sign_statement import chunks, sign_statement
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context

#: maximum time of one call; its function also removes old rows
BUDGET = timedelta(minutes=2)
#: maximum wait of an anchor for incomplete heads, after the end of its day; then their parts are marked as incomplete
INCOMPLETE_AFTER = timedelta(hours=6)
#: maximum rows of a query, and maximum bytes of a read
_PAGE, _READ = 1000, 4 * 1024 * 1024
#: maximum tenants at the same time
_AT_ONCE = 8
_DAYS = "days/"
_DAY = timedelta(days=1)


def anchor_name(day: date) -> str:
    """Returns the name of the file with the anchor's DSSE envelope."""
    return f"{_DAYS}{day.isoformat()}.json"


def part_name(tenant: str, day: date) -> str:
    """Returns the name of the tenant's file of the day."""
    return f"parts/{encode_key(tenant)}/{day.isoformat()}.jsonl"


async def write_anchors(context: Context) -> int:
    """Anchors each past day after the last anchor. Without any anchor, begins with yesterday. Returns the number of new
    anchors.

    Logs faults of LUCIUS instead of raising them. The next call continues.
    """
    if context.audit is None or context.events is None:
        return 0
    written, began = 0, context.clock.now()

    def is_over() -> bool:
        return context.clock.now() - began >= BUDGET

    try:
        newest = await newest_anchor(context)
        day = newest + _DAY if newest is not None else day_of(began) - _DAY
        while _end(day) + SETTLED <= context.clock.now() and not is_over():
            if not await _anchor(context, day, is_over):
                break
            written += 1
            newest, day = day, day + _DAY
        # without any anchor, the last day counts as missing since its end
        since = _end(newest) if newest is not None else _end(day)
        telemetry.set_gauge("anchor_age_seconds", max(0.0, (context.clock.now() - since).total_seconds()))
    except (LuciusError, KeyError, ValueError) as fault:
        telemetry.record_fault(fault, "ANCHOR_FAILED")
    return written


async def newest_anchor(context: Context) -> date | None:
    """Returns the last day that has an anchor, or None if no day has one. Raises LedgerUnavailable."""
    names = await context.require_audit().kept.names(_DAYS)
    return date.fromisoformat(names[-1].removeprefix(_DAYS).removesuffix(".json")) if names else None


def _end(day: date) -> datetime:
    return datetime.combine(day + _DAY, time(), UTC)


async def _anchor(context: Context, day: date, is_over: Callable[[], bool]) -> bool:
    """Writes the day's anchor if its heads are complete. Returns `True` if the day has its anchor. Raises
    LedgerUnavailable, SigningUnavailable.
    """
    kept = context.require_audit().kept
    tenants = sorted(await context.require_events().feed.tenants())
    incomplete = await _find_incomplete(context, tenants, _end(day), is_over)
    if is_over() or (incomplete and context.clock.now() < _end(day) + INCOMPLETE_AFTER):
        telemetry.info("ANCHOR_WAITS", day=str(day), count=len(incomplete))
        return False

    async def one(tenant: str) -> tuple[str | None, bool]:
        return await _write_part(context, tenant, day, is_complete=tenant not in incomplete)

    written = await run_concurrently(tenants, one, limit=_AT_ONCE)
    parts = [digest for digest, _ in written if digest is not None]
    before = await kept.read(anchor_name(day - _DAY))
    previous = sha256(payload_of(json.loads(before))) if before is not None else ""
    envelope = await sign_statement(context, anchor_statement(day, previous, parts))
    if await kept.create(anchor_name(day), chunks(json.dumps(envelope).encode())):
        telemetry.info("ANCHORED", day=str(day), count=len(parts))
        # an earlier call may have written a part, which does not change
        if count := sum(not is_complete for _, is_complete in written):
            telemetry.warn("ANCHOR_INCOMPLETE", day=str(day), count=count)
    return True


async def _find_incomplete(
    context: Context, tenants: list[str], end: datetime, is_over: Callable[[], bool]
) -> set[str]:
    """Returns the tenants whose heads may not yet be complete until the time `end`."""
    incidents = await list_open_incidents(context)

    async def is_complete(tenant: str) -> bool:
        with telemetry.tolerate(LuciusError, "HEADS_UNCHECKED", tenant_id=tenant):
            known = await complete_until(context, tenant, end, is_over, incidents=incidents)
            return known is not None and known >= end
        return False

    checked = await run_concurrently(tenants, is_complete, limit=_AT_ONCE)
    return {tenant for tenant, complete in zip(tenants, checked, strict=True) if not complete}


async def _write_part(context: Context, tenant: str, day: date, *, is_complete: bool) -> tuple[str | None, bool]:
    """Writes the tenant's file of the day, unless it exists. Returns the digest of the file, or None if the tenant has
    no event of that day, and `False` if the file is marked as incomplete. Raises LedgerUnavailable.
    """
    audit, name = context.require_audit(), part_name(tenant, day)
    if (stored := await _read_part(context, name)) is not None:
        return stored
    first = await audit.heads.list_days(tenant, day, day, limit=_PAGE)
    if not first:
        return None, is_complete
    digest = hashlib.sha256()

    async def content() -> AsyncIterator[bytes]:
        about = {"tenant": tenant, "day": day.isoformat()}
        digest.update(line := jcs(about if is_complete else {**about, "complete": False}) + b"\n")
        yield line
        page = first
        while page:
            digest.update(lines := json_lines(head.line for _, head in page))
            yield lines
            page = (
                await audit.heads.list_days(tenant, day, day, after=page[-1][0], limit=_PAGE)
                if len(page) == _PAGE
                else []
            )

    if await audit.kept.create(name, content()):
        return digest.hexdigest(), is_complete
    return await _read_part(context, name) or (None, is_complete)


async def _read_part(context: Context, name: str) -> tuple[str, bool] | None:
    """Returns the SHA-256 of a file in hex, and `False` if the file is marked as incomplete. Returns None if the file
    does not exist. Raises LedgerUnavailable.
    """
    kept, digest, offset, is_complete = context.require_audit().kept, hashlib.sha256(), 0, True
    while (content := await kept.read(name, offset=offset, length=_READ)) is not None:
        if not offset:
            is_complete = b'"complete":false' not in content.partition(b"\n")[0]
        digest.update(content)
        offset += len(content)
        if len(content) < _READ:
            return digest.hexdigest(), is_complete
    return None
