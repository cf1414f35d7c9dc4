"""Processes that know of a quota, and the count of active jobs that started before it (R48)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.gates.rules import Gate, GateKind, GateState, Rule
from shared.errors import Contended
from shared.operations.gates import admission_counts, freed
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.places import reconcile_place
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.sweeper import admission
from shared.ports.admissions import AdmissionWrite
from tests.contexts import changed
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.faults import noted
from tests.operations.support import dispatch, limited, service_sends, swept
from tests.worlds.gates import TENANT, admission_of, ended, posted, served, staging, states_written, statuses

__all__ = ["staging"]  # a fixture


async def counted_by_another(world: World, time: timedelta) -> None:
    """Another process counts the admission state, and has this much time for it."""
    stored = world.index.admissions.admissions["tenant_a"]
    until = world.clock.now() + time
    await world.index.write_admission(
        AdmissionWrite(before=stored, after=replace(stored.admission, counting_until=until))
    )


async def test_a_rule_is_known_ten_seconds_later(world: World) -> None:
    """A process that read the directory just before learns it; admitted jobs are counted under any earlier rule."""
    running = await posted(world, 1, 2, 3)
    await states_written(world, GateState(gate=TENANT, rule=Rule(max_active=2)))
    [unseen] = await posted(world, 4)
    assert await statuses(world, [unseen]) == ["QUEUED"]
    world.clock.advance(10)
    [waits] = await posted(world, 5)
    assert await statuses(world, [waits]) == ["THROTTLED"]
    assert (await admission_of(world)).active == 4
    for number, job_id in enumerate((*running[:2], unseen)):
        await ended(world, job_id, number)
    assert await statuses(world, [waits]) == ["QUEUED"]
    await admission_of(world)


async def test_a_second_count_takes_in_what_older_directories_did(world: World) -> None:
    """Begun and ended past the admission state within the first minute: exact from then on."""
    await states_written(world, GateState(gate=TENANT, rule=Rule(max_active=9)))
    first, *_ = await posted(world, 1, 2)
    older = replace(world, context=changed(world.context, gate_directory=_blind()))
    await posted(older, 3)
    await dispatch(older, first)
    await service_sends(older, first, "RESULT", 1)
    stored = world.index.admissions.admissions["tenant_a"]
    assert stored.admission.active == 2
    world.clock.advance(61)
    await posted(world, 4)
    assert (await admission_of(world)).active == 3


def _blind() -> GateDirectory:
    class Blind(GateDirectory):
        async def read(self, *args: Any) -> Any:
            return self._known

        def is_outdated(self, now: datetime) -> bool:
            return False

    return Blind()


async def test_what_release_0_2_0_ends_is_counted_by_the_sweeper(staging: World) -> None:
    """It closes index rows without admission states: the slot returns within ten minutes, and a queued job starts."""
    first, second = await posted(staging, 1, 2)
    older = replace(staging, context=changed(staging.context, gate_directory=_blind()))
    staging.clock.advance(120)
    await dispatch(older, first)
    await service_sends(older, first, "RESULT", 1)
    assert await statuses(staging, [second]) == ["THROTTLED"]
    staging.clock.advance(601)
    await swept(staging)
    assert await statuses(staging, [second]) == ["QUEUED"]
    await admission_of(staging)


async def test_a_setting_set_and_taken_back(world: World) -> None:
    """After the removal the next sweep admits the queue and counts nothing; set again, the jobs are counted again."""
    staging = limited(world, max_inflight_per_tenant=1, overflow="stage")
    _, second = await posted(staging, 1, 2)
    free = limited(world)
    await posted(free, 3)
    await swept(free)
    assert await statuses(free, [second]) == ["QUEUED"]
    assert (await world.index.admissions.directory()).settings_since is None
    world.clock.advance(60)
    again = limited(world, max_inflight_per_tenant=4, overflow="stage")
    fourth, fifth = await posted(again, 4, 5)
    assert await statuses(again, [fourth, fifth]) == ["QUEUED", "THROTTLED"]
    assert (await admission_of(again)).active == 4


def hurrying(world: World) -> World:
    """Makes each wait take a second."""

    async def sleeping(seconds: float) -> None:
        world.clock.advance(1)

    return replace(world, context=replace(world.context, sleep=sleeping))


async def test_jobs_come_and_end_during_a_count(staging: World) -> None:
    """A new job is staged after a second, an end waits for nothing. The counter died: the sweeper counts both."""
    [first] = await posted(staging, 1)
    await counted_by_another(staging, timedelta(seconds=30))
    began = staging.clock.now()
    [second] = await posted(hurrying(staging), 2)
    assert staging.clock.now() - began <= timedelta(seconds=3)
    assert await statuses(staging, [second]) == ["THROTTLED"]
    [called] = [call for call in staging.context.bus.admission_calls.calls if call[1] == second]  # type: ignore[attr-defined]
    assert called[2] is not None
    await ended(hurrying(staging), first)
    assert await staging.index.read_active("tenant_a", first) is None
    staging.clock.advance(61)
    await swept(staging)
    assert await statuses(staging, [second]) == ["QUEUED"]
    admission = await admission_of(staging)
    assert (admission.counting_until, admission.active, admission.staged) == (None, 1, 0)


async def test_an_end_during_a_long_count_requests_a_turn(staging: World) -> None:
    """Else the job that waits for its slot would wait for the next sweep."""
    first, second = await posted(staging, 1, 2)
    await counted_by_another(staging, timedelta(seconds=5))
    calls = staging.context.bus.admission_calls.calls  # type: ignore[attr-defined]
    calls.clear()
    await ended(staging, first)
    assert await statuses(staging, [second]) == ["THROTTLED"]
    assert [tenant for tenant, *_ in calls] == ["tenant_a"]
    staging.clock.advance(5)
    await served(staging)
    assert await statuses(staging, [second]) == ["QUEUED"]


async def test_an_end_that_loses_every_race_requests_a_turn(staging: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the job that waits for its slot starts before the next sweep."""
    first, second = await posted(staging, 1, 2)
    calls = staging.context.bus.admission_calls.calls  # type: ignore[attr-defined]
    calls.clear()

    async def contended(*_: Any, **__: Any) -> None:
        raise Contended("the tenant's admission state changed at every try")

    with monkeypatch.context() as patched:
        patched.setattr(freed, "act_on_admission", contended)
        await ended(staging, first)
    assert [tenant for tenant, *_ in calls] == ["tenant_a"]
    await served(staging)
    assert await statuses(staging, [second]) == ["QUEUED"]


async def test_a_tenant_with_many_jobs_is_counted_by_a_call(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No request reads more than one page of rows: the job is staged, and a function of the queue counts."""
    monkeypatch.setattr(admission_counts, "_PAGE", 2)
    await posted(world, *range(5))
    counted = limited(world, max_inflight_per_tenant=9, overflow="stage")
    [late] = await posted(counted, 6)
    assert await statuses(world, [late]) == ["THROTTLED"]
    await take_turn(counted.context, "tenant_a")
    stored = world.ledger.jobs[late]
    await reconcile_place(counted.context, counted.orchestrations, stored)
    assert await statuses(world, [late]) == ["QUEUED"]
    assert (await admission_of(counted)).active == 6


async def test_a_long_count_is_not_begun_again(staging: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page takes two seconds: the others wait, and the count ends."""
    monkeypatch.setattr(admission_counts, "_PAGE", 2)
    await posted(limited(staging, max_inflight_per_tenant=None), *range(9))
    pages = staging.index.list_active
    others: list[str] = []

    async def slow(*args: Any, **fields: Any) -> Any:
        staging.clock.advance(2)
        stored = staging.index.admissions.admissions["tenant_a"]
        others.append("waits" if (stored.admission.counting_until or START) > staging.clock.now() else "begins")
        return await pages(*args, **fields)

    staging.index.list_active = slow  # type: ignore[method-assign]
    await take_turn(staging.context, "tenant_a")
    staging.index.list_active = pages  # type: ignore[method-assign]
    assert others == ["waits"] * 5
    assert (await admission_of(staging)).active == 9


async def test_another_tenants_admission_is_its_own(staging: World) -> None:
    """A full tenant blocks no other tenant."""
    await posted(staging, 1, 2)
    [other] = await posted(staging, 3, tenant_id="tenant_b")
    assert await statuses(staging, [other]) == ["QUEUED"]
    assert ((await admission_of(staging)).active, (await admission_of(staging, "tenant_b")).active) == (1, 1)


async def test_a_tenant_without_gates_has_no_admission(world: World) -> None:
    """Nothing is read, written or counted for it."""
    await states_written(
        world, GateState(gate=Gate(GateKind.TENANT, "tenant_b"), rule=Rule(max_active=1)), tenant="tenant_b"
    )
    reads = noted(world.index.admissions, "read")
    [first] = await posted(world, 1)
    await ended(world, first)
    await swept(world)
    assert ("read", "tenant_a") not in reads
    assert "tenant_a" not in world.index.admissions.admissions


@pytest.mark.parametrize(("off_by", "is_counted"), [(1, True), (0, False)])
async def test_the_sweeper_has_a_large_tenant_counted_by_a_call(
    world: World, monkeypatch: pytest.MonkeyPatch, off_by: int, is_counted: bool
) -> None:
    """Its count is wrong by a tenth, and ten minutes old: no sweep waits for the count of so many rows."""
    counted = limited(world, max_inflight_per_tenant=9, overflow="stage")
    await posted(counted, *range(5))
    counted.clock.advance(61)
    await swept(counted)
    monkeypatch.setattr(admission_counts, "_PAGE", 2)
    monkeypatch.setattr(admission, "MAX_COUNTED", 2)
    stored = counted.index.admissions.admissions["tenant_a"]
    key, count = next(iter(stored.admission.active_by_kind.items()))
    wrong = replace(stored.admission, active_by_kind={key: count + off_by})
    await counted.index.write_admission(AdmissionWrite(before=stored, after=wrong))
    counted.context.bus.admission_calls.calls.clear()  # type: ignore[attr-defined]
    counted.clock.advance(600)
    await swept(counted)
    assert bool(counted.context.bus.admission_calls.calls) is is_counted  # type: ignore[attr-defined]
    await swept(counted)
    await take_turn(counted.context, "tenant_a")
    assert (await admission_of(counted)).active == 5
