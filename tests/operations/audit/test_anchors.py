"""Anchors: one file per day, chained, after any crash, delay or repetition (R91)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from shared.core.audit.heads import json_lines
from shared.core.audit.statements import payload_of, sha256
from shared.errors import LedgerUnavailable
from shared.operations.audit import read_anchors as reading
from shared.operations.audit.read_anchors import read_anchors
from shared.operations.audit.write_anchors import INCOMPLETE_AFTER, part_name, write_anchors
from tests.operations.faults import failing, noted
from tests.operations.support import dispatch, submitted
from tests.worlds.audit import Audited, audited, verified
from tests.worlds.events import ONE, TENANT

__all__ = ["audited"]  # a fixture

DAY = timedelta(days=1)


def to_next_day(audited: Audited, after: timedelta = timedelta(minutes=17)) -> None:
    midnight = datetime.combine(audited.today + DAY, time(), UTC)
    audited.world.clock.advance((midnight + after - audited.world.clock.now()).total_seconds())


async def day_with_jobs(audited: Audited) -> list[str]:
    """Two tenants have a job each; then the day is over."""
    jobs = [await audited.finished(idempotency_key=f"{audited.today} {number}") for number in range(2)]
    await audited.taken()
    to_next_day(audited)
    return jobs


async def test_a_day_has_one_anchor(audited: Audited) -> None:
    jobs = await day_with_jobs(audited)
    day = audited.today - DAY
    assert await write_anchors(audited.world.context) == 1
    statement = await verified(audited, json.loads(audited.kept.files[f"days/{day}.json"]))
    part = audited.kept.files[part_name(TENANT, day)]
    assert statement["predicate"] == {"day": str(day), "previous": "", "parts": [sha256(part)]}
    heads = sorted((await audited.expected_heads(*jobs)).values(), key=lambda each: each.name)
    assert part == json_lines([{"tenant": TENANT, "day": str(day)}, *(each.line for each in heads)])
    before = dict(audited.kept.files)
    assert await write_anchors(audited.world.context) == 0
    assert audited.kept.files == before


async def test_missed_days_are_anchored_later_in_their_order(audited: Audited) -> None:
    await day_with_jobs(audited)
    await write_anchors(audited.world.context)
    first = audited.today - DAY
    await day_with_jobs(audited)
    audited.world.clock.advance(2 * DAY.total_seconds())
    assert await write_anchors(audited.world.context) == 3
    previous = sha256(payload_of(json.loads(audited.kept.files[f"days/{first}.json"])))
    for number in (1, 2, 3):
        anchor = audited.anchor(first + number * DAY)
        assert (anchor["previous"], len(anchor["parts"])) == (previous, 1 if number == 1 else 0)
        previous = sha256(payload_of(json.loads(audited.kept.files[f"days/{first + number * DAY}.json"])))


@pytest.mark.parametrize("fails_at", range(1, 8))
@pytest.mark.parametrize("took_effect", [False, True])
async def test_a_call_that_dies_anywhere(audited: Audited, fails_at: int, took_effect: bool) -> None:
    """The next call uses the existing parts; nothing is written twice, and no part changes."""
    await day_with_jobs(audited)
    kept = audited.kept
    with failing(kept, "create", "read", "names", at=[fails_at], after=took_effect):
        calls = noted(kept, "create", "read", "names")
        await write_anchors(audited.world.context)
    assert len(calls) >= min(fails_at, 6)
    parts = {name: content for name, content in kept.files.items() if name.startswith("parts/")}
    await write_anchors(audited.world.context)
    day = audited.today - DAY
    assert audited.anchor(day)["parts"] == [sha256(kept.files[part_name(TENANT, day)])]
    assert parts.items() <= kept.files.items()


async def test_two_calls_at_once_make_one_anchor(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    await day_with_jobs(audited)
    original, created = audited.kept.create, list[tuple[str, bool]]()

    async def slow(name: str, content: AsyncIterable[bytes]) -> bool:
        await asyncio.sleep(0)
        created.append((name, await original(name, content)))
        return created[-1][1]

    monkeypatch.setattr(audited.kept, "create", slow)
    await asyncio.gather(*(write_anchors(audited.world.context) for _ in range(2)))
    day = audited.today - DAY
    assert sorted(name for name, is_new in created if is_new and not name.startswith("keys/")) == [
        f"days/{day}.json",
        part_name(TENANT, day),
    ]
    assert audited.anchor(day)["parts"] == [sha256(audited.kept.files[part_name(TENANT, day)])]


async def test_an_anchor_waits_for_heads_and_not_for_ever(audited: Audited) -> None:
    """If a job cannot be read, the anchor is written after some hours, and its part says that a head is missing."""
    await audited.finished()
    await audited.taken()
    job_id = await submitted(audited.world, **ONE | {"idempotency_key": "2"})
    await dispatch(audited.world, job_id)
    await audited.hints()
    to_next_day(audited)
    assert await write_anchors(audited.world.context) == 0
    lost = await audited.hints()
    assert [hint.job_id for hint in lost] == [job_id]
    audited.world.clock.advance(INCOMPLETE_AFTER.total_seconds())
    assert await write_anchors(audited.world.context) == 1
    part = audited.kept.files[part_name(TENANT, audited.today - DAY)]
    assert json.loads(part.splitlines()[0])["complete"] is False
    await audited.taken(lost)
    to_next_day(audited)
    assert await write_anchors(audited.world.context) == 1


async def test_an_anchor_names_incomplete_parts_of_an_earlier_call(
    audited: Audited, caplog: pytest.LogCaptureFixture
) -> None:
    """The first call writes the part and no anchor. The part stays incomplete, although the heads are complete later.

    Only the call that writes the anchor logs the warning.
    """
    caplog.set_level("WARNING")
    await audited.finished()
    await audited.taken()
    await dispatch(audited.world, await submitted(audited.world, **ONE | {"idempotency_key": "2"}))
    lost = await audited.hints()
    to_next_day(audited, INCOMPLETE_AFTER)
    with failing(audited.kept, "create", only=lambda name, _: name.startswith("days/")):
        assert await write_anchors(audited.world.context) == 0
    assert "ANCHOR_INCOMPLETE" not in caplog.text
    await audited.taken(lost)
    assert await write_anchors(audited.world.context) == 1
    assert b'"complete":false' in audited.kept.files[part_name(TENANT, audited.today - DAY)]
    assert caplog.text.count('"event": "ANCHOR_INCOMPLETE"') == 1


async def test_an_anchor_names_no_complete_part_of_an_earlier_call(
    audited: Audited, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part is complete, although the heads cannot be read when the anchor is written."""
    caplog.set_level("WARNING")
    await day_with_jobs(audited)
    with failing(audited.kept, "create", only=lambda name, _: name.startswith("days/")):
        assert await write_anchors(audited.world.context) == 0
    assert b'"complete":false' not in audited.kept.files[part_name(TENANT, audited.today - DAY)]

    async def unread(*_: Any, **__: Any) -> None:
        raise LedgerUnavailable("the heads cannot be read")

    monkeypatch.setattr("shared.operations.audit.write_anchors.complete_until", unread)
    audited.world.clock.advance(INCOMPLETE_AFTER.total_seconds())
    assert await write_anchors(audited.world.context) == 1
    assert "ANCHOR_INCOMPLETE" not in caplog.text


async def test_anchors_are_read_with_the_tenants_lines(audited: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is longer than a page continues on the next one."""
    await day_with_jobs(audited)
    await write_anchors(audited.world.context)
    first = audited.today - DAY
    await day_with_jobs(audited)
    await write_anchors(audited.world.context)
    monkeypatch.setattr(reading, "MAX_BYTES", 200)
    found, position = list[Any](), ""
    while True:
        page, following = await read_anchors(
            audited.world.context, TENANT, first=first - DAY, last=audited.today, position=position or None
        )
        assert len({each.day for each in page}) == len(page)
        found += page
        if following is None:
            break
        assert following > position
        position = following
    for day in (first, first + DAY):
        of_day = [each for each in found if each.day == day]
        part = audited.kept.files[part_name(TENANT, day)]
        assert json_lines(line for each in of_day for line in each.lines) == part
        assert len(of_day) > 1
    [other] = (await read_anchors(audited.world.context, "tenant_b", first=first, last=first, position=None))[0]
    assert other.lines == []
    for wrong in ("x", f"{first}", f"{first}:-1", "2000-01-01:0"):
        with pytest.raises(ValueError, match=r".*"):
            await read_anchors(audited.world.context, TENANT, first=first, last=first, position=wrong)


async def test_a_key_that_is_missing_leaves_the_day_for_later(audited: Audited) -> None:
    await day_with_jobs(audited)
    text = audited.key.read_bytes()
    audited.key.unlink()
    assert await write_anchors(audited.world.context) == 0
    audited.key.write_bytes(text)
    assert await write_anchors(audited.world.context) == 1


async def test_without_a_key_nothing_is_written(audited: Audited) -> None:
    await day_with_jobs(audited)
    assert await write_anchors(replace(audited.world.context, audit=None)) == 0
    assert audited.kept.files == {}
