"""Signed pages of the heads of a tenant's histories (R91)."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

from shared.audit_refusals import HeadsIncomplete, HeadsMissing, SigningUnavailable
from shared.core.audit.heads import day_of
from shared.core.audit.statements import heads_statement, is_signed, pre_authentication, sha256
from shared.errors import KeyUnavailable
from shared.operations.audit.complete_heads import SETTLED, complete_until, read_completed
from shared.operations.audit.sign_statement import sign, sign_statement
from shared.operations.process.context import Context
from shared.refusals import FilterInvalid

#: maximum heads of a page
MAX_HEADS = 5000
#: maximum time for which a request waits for the check of a tenant's heads
_CHECK_FOR = timedelta(seconds=20)
#: minimum time between the ends of two checks that requests start
_CHECKED_EVERY = timedelta(minutes=1)
_MICROSECOND = timedelta(microseconds=1)
#: type of the signed cursor, so that a cursor cannot pass as a statement
_CURSOR_TYPE = "application/vnd.lucius.cursor+json"


@dataclass(frozen=True, kw_only=True)
class _Place:
    """The position of the next page in a window."""

    tenant: str
    since: datetime
    until: datetime
    page: int = 1
    #: SHA-256 of the payload of the page before; "" for the first page
    previous: str = ""
    #: position of the last head of the page before
    after: str = ""


async def sign_heads(
    context: Context, tenant: str, *, since: datetime | None, until: datetime | None, cursor: str | None
) -> tuple[dict[str, Any], str | None]:
    """Returns the DSSE envelope of a page, and the cursor of the next page. With `cursor`, ignores `since` and `until`.

    Defaults: the window starts at the time since which all heads are retained, and ends five to six minutes ago. The
    pages together have whole days, so heads of the first and last day can be outside of the window. The cursor is
    signed, so a caller cannot skip a head.

    Raises HeadsIncomplete, HeadsMissing, LedgerUnavailable, SigningUnavailable, FilterInvalid if `until` is not after
    the start of the window, and ValueError for an unknown cursor.
    """
    heads = context.require_audit().heads
    if cursor is not None:
        place = await _read_cursor(context, cursor)
        if place.tenant != tenant:
            raise ValueError("of another tenant")
    else:
        place = await _begin(context, tenant, since, until)
    # one more head shows whether this is the last page
    found = await heads.list_days(
        tenant, day_of(place.since), day_of(place.until - _MICROSECOND), after=place.after, limit=MAX_HEADS + 1
    )
    is_last, page = len(found) <= MAX_HEADS, found[:MAX_HEADS]
    payload = heads_statement(
        tenant,
        place.since,
        place.until,
        [head for _, head in page],
        page=place.page,
        last=is_last,
        previous=place.previous,
    )
    envelope = await sign_statement(context, payload)
    if is_last:
        return envelope, None
    following = replace(place, page=place.page + 1, previous=sha256(payload), after=page[-1][0])
    return envelope, await _write_cursor(context, following)


async def _begin(context: Context, tenant: str, since: datetime | None, until: datetime | None) -> _Place:
    """Returns the position of the first page. Raises LedgerUnavailable, FilterInvalid, and HeadsIncomplete or
    HeadsMissing unless the heads of the whole window are recorded.
    """
    now = context.clock.now()
    newest = now - SETTLED
    # without `until`, the result of a check within the last minute is enough
    needed = until if until is not None else newest - _CHECKED_EVERY
    begins = (await context.require_events().feed.head(tenant)).heads_since
    if begins is None:
        raise HeadsMissing(None)
    # the heads of one day are deleted together
    retained = day_of(now - timedelta(days=context.settings.change_log_days)) + timedelta(days=1)
    begins = max(begins, datetime.combine(retained, time(), UTC))
    if (since is not None and since < begins) or (since is None and until is not None and until <= begins):
        raise HeadsMissing(begins)
    since = since if since is not None else begins
    if until is not None and until <= since:
        raise FilterInvalid(
            "until", f"must be after the start of the window, {since.isoformat()}, not {until.isoformat()}"
        )
    if until is not None and until > newest:
        known = await read_completed(context, tenant)
        raise HeadsIncomplete(known.until, (until - newest).total_seconds())
    complete = await _complete_until(context, tenant, needed)
    # a check by a clock that was ahead can have a later end
    until = until if until is not None else min(complete, newest)
    if until <= since:
        raise HeadsIncomplete(complete, (since + SETTLED + _CHECKED_EVERY - now).total_seconds())
    return _Place(tenant=tenant, since=since, until=until)


async def _complete_until(context: Context, tenant: str, until: datetime) -> datetime:
    """Returns the time until which heads are complete. Raises HeadsIncomplete, LedgerUnavailable."""
    whole, now = context.of_all_tenants, context.clock.now
    known, is_late = (await read_completed(whole, tenant)).until, now() + _CHECK_FOR
    is_fresh = known is not None and known > now() - SETTLED - _CHECKED_EVERY
    if not is_fresh:
        known = await complete_until(whole, tenant, until, lambda: now() >= is_late)
    if known is None or known < until:
        raise HeadsIncomplete(known, _CHECKED_EVERY.total_seconds())
    return known


async def _write_cursor(context: Context, place: _Place) -> str:
    values = {**vars(place), "since": place.since.isoformat(), "until": place.until.isoformat()}
    text = json.dumps(values).encode()
    _, signature = await sign(context, _CURSOR_TYPE, text)
    return ".".join(base64.urlsafe_b64encode(each).decode() for each in (text, signature))


async def _read_cursor(context: Context, cursor: str) -> _Place:
    """Decodes a cursor. Raises SigningUnavailable, and ValueError for an invalid cursor or after a key rotation."""
    try:
        text, signature = (base64.b64decode(each, altchars=b"-_", validate=True) for each in cursor.split("."))
    except binascii.Error as wrong:
        raise ValueError("no cursor") from wrong
    try:
        key = await context.require_audit().signer.public_key()
    except KeyUnavailable as fault:
        raise SigningUnavailable from fault
    if not is_signed(key.pem, pre_authentication(_CURSOR_TYPE, text), signature):
        raise ValueError("not signed here")
    values = json.loads(text)
    return _Place(
        **{
            **values,
            "since": datetime.fromisoformat(values["since"]),
            "until": datetime.fromisoformat(values["until"]),
        }
    )
