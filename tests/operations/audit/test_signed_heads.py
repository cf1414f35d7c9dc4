"""Signed pages of heads: chained, complete, and only of windows that are (R91)."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.tables.keys import JOB_ROW, event_row, head_row
from shared.adapters.tables.table import merge_row, row_at
from shared.audit_refusals import AuditOff, HeadsIncomplete, HeadsMissing, SigningUnavailable
from shared.core.audit.statements import payload_of, sha256
from shared.core.jobs.history import event_hash
from shared.errors import Conflict
from shared.operations.audit import signed_heads
from shared.operations.audit.complete_heads import SETTLED, check_heads
from shared.operations.audit.read_anchors import read_anchors
from shared.operations.audit.sign_statement import list_keys
from shared.operations.audit.signed_heads import sign_heads
from shared.operations.audit.write_anchors import write_anchors
from shared.ports.heads import Completed
from shared.refusals import FilterInvalid
from tests.operations.support import dispatch, submitted
from tests.worlds.audit import Audited, audited, verified, write_key
from tests.worlds.events import ONE, TENANT, sends
from tests.worlds.gates import OCR, ruled

__all__ = ["audited"]  # a fixture

#: more than `SETTLED`
LATER_S = SETTLED.total_seconds() + 60


async def pages(audited: Audited, **window: Any) -> list[dict[str, Any]]:
    """The predicates of all pages of a window, each verified and chained to the one before."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    previous = ""
    while True:
        given = {"since": None, "until": None} | window
        envelope, cursor = await sign_heads(audited.world.context, TENANT, **given, cursor=cursor)
        statement = await verified(audited, envelope)
        predicate = statement["predicate"]
        assert (predicate["previous"], predicate["page"]) == (previous, len(found) + 1)
        assert predicate["last"] == (cursor is None)
        previous = sha256(payload_of(envelope))
        found.append(predicate)
        if cursor is None:
            return found


async def test_pages_have_every_head_once(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_heads, "MAX_HEADS", 2)
    jobs = [await audited.finished(idempotency_key=str(number)) for number in range(4)]
    await ruled(audited.world, OCR, max_active=5)
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    found = await pages(audited)
    assert [len(page["heads"]) for page in found] == [2, 2, 1]
    heads = [head for page in found for head in page["heads"]]
    expected = await audited.expected_heads(*jobs)
    assert [head for head in heads if "job_id" in head] == [
        each.line for each in sorted(expected.values(), key=lambda each: each.name)
    ]
    assert [head["log"] for head in heads if "log" in head] == [f"quota:{OCR.id}"]
    assert {page["tenant"] for page in found} == {TENANT}
    assert len({(page["since"], page["until"]) for page in found}) == 1


async def test_a_cursor_leaves_out_nothing(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter may want to hide events, so a cursor is signed, and valid for one tenant."""
    monkeypatch.setattr(signed_heads, "MAX_HEADS", 1)
    for number in range(3):
        await audited.finished(idempotency_key=str(number))
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    context = audited.world.context
    _, cursor = await sign_heads(context, TENANT, since=None, until=None, cursor=None)
    assert cursor is not None
    text, signature = cursor.split(".")
    place = json.loads(base64.urlsafe_b64decode(text))
    other = base64.urlsafe_b64encode(json.dumps({**place, "after": "DAY:20990101:"}).encode()).decode()
    for forged in (f"{other}.{signature}", text, "", "x.y", f"{text}."):
        with pytest.raises(ValueError, match=r".*"):
            await sign_heads(context, TENANT, since=None, until=None, cursor=forged)
    with pytest.raises(ValueError, match="another tenant"):
        await sign_heads(context, "tenant_b", since=None, until=None, cursor=cursor)
    # a rotation between two pages: the export begins again
    write_key(audited.key)
    with pytest.raises(ValueError, match="not signed here"):
        await sign_heads(context, TENANT, since=None, until=None, cursor=cursor)


@pytest.mark.parametrize("lost", ["of a living job", "of an ended job", "of a quota"])
async def test_a_window_with_a_row_without_head_is_not_signed(audited: Audited, lost: str) -> None:
    """Its hint was lost. The request finds the row, writes a hint again, and returns a time for the next request."""
    await audited.finished()
    await audited.taken()
    match lost:
        case "of a living job":
            job_id = await submitted(audited.world, **ONE | {"idempotency_key": "2"})
            await dispatch(audited.world, job_id)
        case "of an ended job":
            job_id = await audited.finished(idempotency_key="2")
        case _:
            await ruled(audited.world, OCR, max_active=5)
            job_id = ""
    await audited.hints()
    audited.world.clock.advance(LATER_S)
    with pytest.raises(HeadsIncomplete) as refused:
        await pages(audited)
    assert refused.value.headers["Retry-After"] == "60"
    await audited.taken()
    heads = [head for page in await pages(audited) for head in page["heads"]]
    assert any(head.get("job_id") == job_id or head.get("log") == f"quota:{OCR.id}" for head in heads)


async def test_a_window_must_be_over_and_have_heads(audited: Audited) -> None:
    with pytest.raises(HeadsMissing) as missing:
        await pages(audited)
    assert missing.value.members == {"earliest": None}
    await audited.finished()
    await audited.taken()
    begins = audited.world.clock.now()
    audited.world.clock.advance(LATER_S)
    now = audited.world.clock.now()
    with pytest.raises(HeadsIncomplete) as early:
        await pages(audited, until=now)
    assert early.value.headers["Retry-After"] == str(int(SETTLED.total_seconds()))
    for window in ({"since": begins - timedelta(days=1)}, {"until": begins - timedelta(days=1)}):
        with pytest.raises(HeadsMissing) as before:
            await pages(audited, **window)
        assert before.value.members["earliest"] == begins.isoformat().replace("+00:00", "Z")
    with pytest.raises(FilterInvalid) as empty:
        await pages(audited, since=begins, until=begins)
    assert empty.value.code == "UNTIL_INVALID"
    [page] = await pages(audited, since=begins, until=now - SETTLED)
    assert (page["since"], page["until"]) == tuple(
        each.isoformat().replace("+00:00", "Z") for each in (begins, now - SETTLED)
    )


async def test_a_purge_leaves_no_window_that_could_be_signed(audited: Audited) -> None:
    """A tenant whose rows are purged has no heads: a window before the purge would be signed as empty."""
    await audited.finished()
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    await pages(audited)
    while await audited.feed.purge(TENANT, limit=100):
        pass
    assert await audited.recorded() == {}
    with pytest.raises(HeadsMissing):
        await pages(audited)


@pytest.mark.parametrize("ahead", ["the check", "a row"])
async def test_a_clock_that_jumps_back_signs_no_window_too_early(audited: Audited, ahead: str) -> None:
    """The clock is an hour ahead at the check of the heads, or at a job's event: later rows have earlier times."""
    world = audited.world
    job_id = await submitted(world, **ONE)
    await dispatch(world, job_id)
    await audited.taken()
    world.clock.advance(LATER_S)
    world.clock.advance(3600)
    if ahead == "the check":
        await pages(audited)
    else:
        await sends(world, job_id, "ACK")
    world.clock.advance(-3600)
    await sends(world, job_id, "RESULT")
    # lost
    await audited.hints()
    world.clock.advance(LATER_S)
    with pytest.raises(HeadsIncomplete):
        await pages(audited)
    await audited.taken()
    [head] = (await audited.expected_heads(job_id)).values()
    [page] = await pages(audited)
    assert page["heads"] == [head.line]


async def test_a_window_without_an_end_ends_five_minutes_ago(audited: Audited) -> None:
    """Also after a check by a clock that was four minutes ahead."""
    await audited.finished()
    await audited.taken()
    audited.world.clock.advance(LATER_S + 240)
    await pages(audited)
    audited.world.clock.advance(-240)
    [page] = await pages(audited)
    assert page["until"] == (audited.world.clock.now() - SETTLED).isoformat().replace("+00:00", "Z")


async def test_a_busy_tenant_is_signed(audited: Audited) -> None:
    """Rows that are newer than the window may have no heads yet."""
    await audited.finished()
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    job_id = await submitted(audited.world, **ONE | {"idempotency_key": "2"})
    await dispatch(audited.world, job_id)
    await audited.hints()
    assert len(await pages(audited)) == 1


async def test_requests_check_once_a_minute(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that requests ever newer windows causes one check a minute."""
    checks: list[str] = []

    async def counted(context: Any, tenant: str, is_over: Any, **options: Any) -> Any:
        checks.append(tenant)
        return await check_heads(context, tenant, is_over, **options)

    monkeypatch.setattr("shared.operations.audit.complete_heads.check_heads", counted)
    await audited.finished()
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    for _ in range(5):
        await pages(audited)
        audited.world.clock.advance(10)
    with pytest.raises(HeadsIncomplete):
        await pages(audited, until=audited.world.clock.now() - SETTLED)
    assert checks == [TENANT]


async def test_a_long_check_goes_on_in_the_next_call(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.operations.audit.complete_heads._PAGE", 1)
    for number in range(3):
        await submitted(audited.world, **ONE | {"idempotency_key": str(number)})
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    goal = audited.world.clock.now() - SETTLED
    known = await check_heads(audited.world.context, TENANT, lambda: True)
    assert (known.until, known.goal) == (None, goal)
    while known.until is None:
        after = known.after
        audited.world.clock.advance(60)
        known = await check_heads(audited.world.context, TENANT, lambda: True)
        assert known.until is not None or known.after > after
    assert (known.until, known.goal, known.after) == (goal, None, "")


async def test_two_checks_at_once(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race heads: one writes its result, the other one reads it; the heads never count as complete until an earlier
    time."""
    await audited.finished()
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    context, heads = audited.world.context, audited.audit.heads
    original, conflicts = heads.write_completed, list[str]()

    async def late(tenant: str, completed: Completed) -> Completed:
        # both have read before either writes
        await asyncio.sleep(0)
        try:
            return await original(tenant, completed)
        except Conflict:
            conflicts.append(tenant)
            raise

    monkeypatch.setattr(heads, "write_completed", late)
    found = await asyncio.gather(*(check_heads(context, TENANT, lambda: False) for _ in range(2)))
    assert (conflicts, len({each.until for each in found})) == ([TENANT], 1)
    goal = audited.world.clock.now() - SETTLED
    assert (await heads.read_completed(TENANT)).until == goal


async def test_a_key_that_is_gone_stops_signing_only(audited: Audited) -> None:
    await audited.finished()
    await audited.taken()
    audited.world.clock.advance(LATER_S)
    await pages(audited)
    [key] = await list_keys(audited.world.context)
    assert key.is_active
    audited.key.unlink()
    with pytest.raises(SigningUnavailable):
        await pages(audited)
    assert [replace(each, is_active=True) for each in await list_keys(audited.world.context)] == [key]
    job_id = await audited.finished(idempotency_key="2")
    await audited.taken()
    assert (await audited.expected_heads(job_id)).items() <= (await audited.recorded()).items()
    audited.world.clock.advance(60)
    write_key(audited.key)
    await pages(audited)
    assert [each.is_active for each in await list_keys(audited.world.context)] == [False, True]


async def test_without_a_key_every_request_is_refused(audited: Audited) -> None:
    with pytest.raises(AuditOff):
        await sign_heads(audited.context_without().context, TENANT, since=None, until=None, cursor=None)


async def test_a_noted_head_shows_a_history_that_was_rewritten(audited: Audited) -> None:
    """A forger with access to the tables changes a row, computes every later hash again, and changes the head.

    The chain is valid, and LUCIUS signs the new head. A page that was saved before does not match, nor does the day's
    anchor.
    """
    job_id = await audited.finished()
    await audited.taken()
    audited.world.clock.advance(24 * 3600)
    await write_anchors(audited.world.context)
    [page] = await pages(audited)
    [noted] = page["heads"]
    ledger, previous = audited.world.ledger, ""
    for event in await ledger.events(job_id):
        values = vars(event) | {"prev_hash": previous or event.prev_hash}
        values |= {"actor": "user:somebody-else"} if event.seq == 1 else {}
        previous = event_hash(values)
        row = row_at(job_id, event_row(event.seq))
        changes = {"actor": values["actor"], "prev_hash": values["prev_hash"], "hash": previous}
        await ledger._rows.write(merge_row({**row, **changes}))
    await ledger._rows.write(merge_row({**row_at(job_id, JOB_ROW), "event_hash": previous}))
    [head] = (await audited.recorded()).values()
    await audited.feed._rows.write(merge_row({**row_at(TENANT, head_row(head.day, job_id)), "hash": previous}))

    forged = await ledger.events(job_id)
    assert all(after.prev_hash == before.hash for before, after in itertools.pairwise(forged))
    assert all(event.hash == event_hash(vars(event)) for event in forged)
    audited.world.clock.advance(3600)
    [page] = await pages(audited)
    assert page["heads"] == [{"job_id": job_id, "seq": forged[-1].seq, "hash": forged[-1].hash}]
    assert (noted["seq"], noted["hash"] == forged[-1].hash) == (forged[-1].seq, False)
    [anchor], _ = await read_anchors(audited.world.context, TENANT, first=head.day, last=head.day, position=None)
    assert anchor.lines[1:] == [noted]
