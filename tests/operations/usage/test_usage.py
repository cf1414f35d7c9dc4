"""Tenants' usage, counted by the sweeper's rollups and by each process (R68)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.api.usage import seen_source
from shared.core.usage import Axis, Counted, Group, hour_of
from shared.errors import LedgerUnavailable
from shared.operations.sweeper import usage as folds
from shared.operations.sweeper.sweep import sweep
from shared.operations.sweeper.usage import AGAIN_AFTER, roll_up_hour, roll_up_usage
from shared.operations.usage import read_usage as reading
from shared.operations.usage.read_usage import read_usage
from shared.ports.usage import FoldPosition, SeenSource
from shared.refusals import LimitReached
from tests.jobs import START
from tests.memory_stores import MemoryUsage
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.operations.support import create_numbered, limited, one_pass
from tests.worlds.gates import ended, posted

HOUR = timedelta(hours=1)
FIRST = hour_of(START)


@pytest.fixture
def counting(world: World) -> World:
    """Returns a world with two active jobs per tenant; others wait, or are refused past three waiting ones."""
    return limited(
        replace(world, context=replace(world.context, usage=MemoryUsage())), max_inflight_per_tenant=2, overflow="stage"
    )


def kept(world: World) -> MemoryUsage:
    assert isinstance(world.context.usage, MemoryUsage)
    return world.context.usage


async def folded(world: World, hour: datetime = FIRST) -> Mapping[Group, Counted]:
    found = await kept(world).hours("tenant_a", hour, hour + HOUR)
    return found[0].jobs if found else {}


def at(world: World, instant: datetime) -> None:
    world.clock.time = instant


async def test_an_hour_is_folded_and_a_day_later_again(counting: World) -> None:
    """Jobs that were admitted or ended meanwhile count then; between the two nothing is read."""
    first, *_ = await posted(counting, 1, 2, 3, source="Scanner-7")
    await posted(counting, 4)
    await sweep(counting.context, counting.orchestrations)
    assert await folded(counting) == {}
    at(counting, FIRST + HOUR + timedelta(minutes=6))
    await sweep(counting.context, counting.orchestrations)
    once = {
        ("OCR", "scanner-7"): Counted(3, 2, 1, 0, Counter({0: 2})),
        ("OCR", ""): Counted(1, 0, 1, 0, Counter()),
    }
    assert await folded(counting) == once
    await ended(counting, first)
    await sweep(counting.context, counting.orchestrations)
    assert await folded(counting) == once
    at(counting, FIRST + HOUR + AGAIN_AFTER + timedelta(minutes=1))
    await sweep(counting.context, counting.orchestrations)
    again = await folded(counting)
    waited = again["OCR", "scanner-7"]
    assert (waited.created, waited.admitted, waited.ended, waited.waits.total()) == (3, 3, 1, 3)
    # the admitted one had waited for little more than an hour
    assert waited.wait_s(1) == 7200
    assert await kept(counting).list_fold_again(FIRST + timedelta(days=9), after="", limit=9) == []


async def test_a_fold_again_is_the_same(counting: World) -> None:
    """By two sweepers at once, and by one that died before it wrote its position."""
    await posted(counting, 1, 2, 3)
    at(counting, FIRST + 2 * HOUR)

    async def all_of_it() -> None:
        await roll_up_usage(await one_pass(counting), kept(counting), lambda: False)

    await all_of_it()
    once = await folded(counting)
    assert once["OCR", ""].created == 3
    await kept(counting).write_position(0, FoldPosition(FIRST))
    await all_of_it()
    assert await folded(counting) == once
    assert len(await kept(counting).list_fold_again(FIRST + timedelta(days=9), after="", limit=9)) == 1


async def test_an_hour_without_jobs_leaves_no_row(counting: World) -> None:
    """Neither of its own nor for a second fold; the next hours continue."""
    await posted(counting, 1)
    at(counting, FIRST + 3 * HOUR + timedelta(minutes=6))
    await kept(counting).write_position(0, FoldPosition(FIRST))
    await sweep(counting.context, counting.orchestrations)
    assert [
        each.hour for each in await kept(counting).hours("tenant_a", FIRST - HOUR, FIRST + 9 * HOUR) if each.folded
    ] == [FIRST]
    assert (await kept(counting).read_position(0)).next == FIRST + 3 * HOUR


async def test_many_rows_are_read_in_pieces(counting: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page at a time; when the time is over the next sweep continues at that position, with the same sums."""
    monkeypatch.setattr(folds, "_PAGE", 2)
    await posted(counting, *range(7))
    asked: list[int] = []
    real = counting.index.list_jobs

    async def listed(tenant: str, **fields: Any) -> Any:
        rows = await real(tenant, **fields)
        asked.append(len(rows))
        return rows

    monkeypatch.setattr(counting.index, "list_jobs", listed)
    for expected in (False, False, False, True):
        done = await roll_up_hour(counting.context, kept(counting), "tenant_a", FIRST, lambda: True, again=False)
        assert (done, bool(await folded(counting))) == (expected, expected)
    assert asked == [2, 2, 2, 1]
    assert sum(each.created for each in (await folded(counting)).values()) == 7
    assert (await kept(counting).read_folding("tenant_a", FIRST)).cursor is None


async def test_a_pass_whose_time_is_over_goes_on_with_the_next_tenant(counting: World) -> None:
    """A bounded number at once; none is omitted, and none sleeps before its hour is folded."""
    for number in range(20):
        await create_numbered(counting, number, tenant_id=f"t{number:02d}")
    at(counting, FIRST + HOUR + timedelta(minutes=6))
    one = await one_pass(counting)
    first = await roll_up_usage(one, kept(counting), lambda: True)
    assert (first, await kept(counting).read_position(0)) == (FIRST, FoldPosition(FIRST, "t16"))
    assert await roll_up_usage(one, kept(counting), lambda: True) == FIRST + HOUR
    found = [await kept(counting).hours(f"t{number:02d}", FIRST, FIRST + HOUR) for number in range(20)]
    assert [len(each) for each in found] == [1] * 20


@pytest.mark.parametrize("fault", [KeyError("created_at"), LedgerUnavailable("503")])
async def test_a_tenant_whose_list_cannot_be_read_keeps_no_other_from_its_hours(
    counting: World, fault: Exception
) -> None:
    """An outage keeps them for six hours at most; the second fold makes up for the tenant."""
    for number in range(3):
        await create_numbered(counting, number, tenant_id=f"t{number}")

    at(counting, FIRST + HOUR + timedelta(minutes=6))
    with failing(counting.index, "list_jobs", error=fault, only=lambda tenant, **_: tenant == "t1"):
        first = await roll_up_usage(await one_pass(counting), kept(counting), lambda: False)
        assert first == (FIRST if isinstance(fault, LedgerUnavailable) else FIRST + HOUR)
        found = [await kept(counting).hours(f"t{number}", FIRST, FIRST + HOUR) for number in range(3)]
        assert [len(each) for each in found] == [1, 0, 1]
        at(counting, FIRST + 7 * HOUR)
        assert await roll_up_usage(await one_pass(counting), kept(counting), lambda: False) > FIRST
    at(counting, FIRST + HOUR + AGAIN_AFTER)
    await roll_up_usage(await one_pass(counting), kept(counting), lambda: False)
    assert len(await kept(counting).hours("t1", FIRST, FIRST + HOUR)) == 1


async def test_jobs_that_were_cleared_away_stay_counted(counting: World) -> None:
    """A second fold that finds fewer rows than the first changes nothing."""
    [job_id] = await posted(counting, 1)
    await roll_up_hour(counting.context, kept(counting), "tenant_a", FIRST, lambda: False, again=False)
    once = await folded(counting)
    await counting.index.delete_listing(replace((await counting.job(job_id)).job, completed_at=START))
    await posted(counting, 2)
    await create_numbered(counting, 3)
    assert await roll_up_hour(counting.context, kept(counting), "tenant_a", FIRST, lambda: False, again=True)
    assert (await folded(counting))["OCR", ""].created == 2
    for job in ("job_4", "job_6"):
        await counting.index.delete_listing(replace((await counting.job(job)).job, completed_at=START))
    assert await roll_up_hour(counting.context, kept(counting), "tenant_a", FIRST, lambda: False, again=True)
    assert (await folded(counting))["OCR", ""].created == 2 > once["OCR", ""].created


async def test_a_fault_keeps_nobody(counting: World) -> None:
    """Usage rows that cannot be written stop no sweep, no creation and no refusal; the next pass folds."""

    class Away:
        def __getattr__(self, name: str) -> Any:
            async def away(*_: Any, **__: Any) -> Any:
                raise LedgerUnavailable("away")

            return away

    usage: Any = Away()
    broken = replace(counting, context=replace(counting.context, usage=usage))
    await posted(broken, 1, source="s")
    at(counting, FIRST + HOUR + timedelta(minutes=6))
    report = await sweep(broken.context, broken.orchestrations)
    assert report.looked_at == 1
    await sweep(counting.context, counting.orchestrations)
    assert (await folded(counting))["OCR", "s"].created == 1


async def test_what_is_refused_is_counted_once_a_minute(world: World) -> None:
    """The first at once, then the number of the later ones, by type and source; the hour is that of the refusal."""
    small = limited(replace(world, context=replace(world.context, usage=MemoryUsage())), max_inflight_per_tenant=1)
    await posted(small, 0)

    async def refused(*numbers: int) -> list[dict[Group, int]]:
        for number in numbers:
            with pytest.raises(LimitReached):
                await create_numbered(small, number, source="S")
        return [dict(each.refused) for each in await kept(small).hours("tenant_a", FIRST, FIRST + 9 * HOUR)]

    assert await refused(1) == [{("OCR", "s"): 1}]
    assert await refused(2, 3) == [{("OCR", "s"): 1}]
    small.clock.advance(60)
    assert await refused(4) == [{("OCR", "s"): 4}]
    at(small, FIRST + HOUR - timedelta(seconds=1))
    await refused(5)
    at(small, FIRST + HOUR)
    assert await refused(6) == [{("OCR", "s"): 5}]
    small.clock.advance(60)
    await sweep(small.context, small.orchestrations)
    assert [dict(each.refused) for each in await kept(small).hours("tenant_a", FIRST, FIRST + 9 * HOUR)] == [
        {("OCR", "s"): 5},
        {("OCR", "s"): 1},
    ]


async def test_the_peak_is_the_most_that_a_look_saw(counting: World) -> None:
    """Of the hour, by type and source; a process that started within the hour lowers no value."""
    first, second, _ = await posted(counting, 1, 2, 3, source="s")
    await sweep(counting.context, counting.orchestrations)
    for number, job_id in enumerate((first, second)):
        await ended(counting, job_id, number + 1)
    other = limited(counting)
    await sweep(other.context, other.orchestrations)
    [hour] = await kept(counting).hours("tenant_a", FIRST, FIRST + HOUR)
    assert hour.peaks == {("", ""): 2, ("type", "OCR"): 2, ("source", "s"): 2}


async def test_a_source_costs_one_write_an_hour(counting: World) -> None:
    """For any number of jobs that name it; the row has the first job and, to the hour, the last."""
    writes = noted(counting.context.usage, "see_source")
    jobs = await posted(counting, 1, 2, 3, source=" Scanner-7 ")
    await posted(counting, 4)
    assert [source.name for _, _, source in writes] == ["scanner-7"]
    at(counting, FIRST + HOUR)
    [later] = await posted(counting, 5, source="scanner-7")
    assert [source.name for _, _, source in writes] == ["scanner-7"] * 2
    [found] = await kept(counting).sources("tenant_a", after="", limit=9)
    assert (found.first_job, found.first_at, found.last_job, found.last_at) == (jobs[0], START, later, FIRST + HOUR)


@pytest.mark.parametrize(("last_at", "shown"), [(FIRST, FIRST + HOUR / 2), (FIRST + HOUR, FIRST + HOUR)])
def test_the_last_use_of_a_source_is_never_before_the_first(last_at: datetime, shown: datetime) -> None:
    """Its row has the start of the hour, which in the first hour is before the first job."""
    row = SeenSource(name="s", first_job="a", first_at=FIRST + HOUR / 2, last_job="b", last_at=last_at)
    assert seen_source(row, "tenant_a", None, last_at).last_at == shown


async def test_usage_adds_up_by_type_source_and_hour(counting: World) -> None:
    """Past hours from their folds, the last ones from the list; waits as buckets that add up, peaks as the highest."""
    await posted(counting, 1, 2, 3, source="s")
    await sweep(counting.context, counting.orchestrations)
    at(counting, FIRST + HOUR + timedelta(minutes=10))
    await sweep(counting.context, counting.orchestrations)
    await create_numbered(counting, 9)
    context = counting.context
    await context.process.usage_buffer.raise_peaks(context.usage, "tenant_a", {("", ""): 5}, context.clock.now())
    used = await read_usage(context, "tenant_a", START, Axis.SOURCE)
    assert (used.since, used.until, used.partial) == (FIRST, counting.clock.now(), False)
    total = used.total.counted
    assert (total.created, total.admitted, total.staged, used.total.active_peak) == (4, 2, 2, 5)
    assert {key: each.counted.created for key, each in used.groups.items()} == {"": 1, "s": 3}
    assert used.groups["s"].counted.wait_s(0.5) == 0
    by_hour = (await read_usage(context, "tenant_a", START, Axis.HOUR)).groups
    assert [(each.counted.created, each.active_peak) for each in by_hour.values()] == [(3, 2), (1, 5)]
    assert list((await read_usage(context, "tenant_a", START, Axis.TYPE)).groups) == ["OCR"]
    assert (await read_usage(context, "tenant_a", START, None)).groups == {}
    late = await read_usage(context, "tenant_a", counting.clock.now(), None)
    assert late.total.counted.created == 1


async def test_a_reader_reads_a_bounded_number_of_rows(counting: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hours that are not folded; beyond the bound the response says so."""
    monkeypatch.setattr(reading, "MAX_ROWS", 3)
    monkeypatch.setattr(reading, "_PAGE", 2)
    await posted(counting, 1, 2, 3, 4)
    used = await read_usage(counting.context, "tenant_a", START, None)
    assert (used.total.counted.created, used.partial) == (3, True)


async def test_a_tenant_sleeps_once_its_hours_are_folded(counting: World) -> None:
    """Not before: no sweep folds the hours of a tenant that sleeps."""
    [job_id] = await posted(counting, 1)
    await ended(counting, job_id)

    async def is_awake() -> bool:
        return bool(await counting.index.awake_tenants(now=counting.clock.now()))

    at(counting, START + HOUR + timedelta(minutes=1))
    await kept(counting).write_position(0, FoldPosition(FIRST - HOUR))
    assert await is_awake()
    at(counting, FIRST + 2 * HOUR + timedelta(minutes=6))
    await sweep(counting.context, counting.orchestrations)
    assert (await folded(counting))["OCR", ""].ended == 1
    assert not await is_awake()
