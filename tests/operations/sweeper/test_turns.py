"""The division of a sweep's time: by the clock, among tenants in turns, continuing where the last one stopped."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise

import pytest

from shared.errors import LedgerUnavailable
from shared.operations.jobs.create_job import create_job
from shared.operations.sweeper.duties import DUTIES
from shared.operations.sweeper.sweep import sweep
from shared.operations.sweeper.turns import from_on, in_turns
from shared.ports.index import AWAKE_AFTER_POST, FIRST_CHECK
from shared.ports.sweeps import SweeperShare
from tests.jobs import envelope
from tests.operations.conftest import StillClock, World
from tests.operations.faults import failing, noted
from tests.operations.support import cancelled, submitted

PERIOD_S = 60.0
#: seconds of checks if there are no clearings
LOOKS_S = sum(duty.budget_s for duty in DUTIES if duty.required)


@dataclass
class Model:
    """Living jobs, each due again a lease after its check; a sweeper checks `looks_per_s` by its own clock."""

    tenants: dict[str, int]
    lease_s: float
    looks_per_s: float
    clock: StillClock = field(default_factory=StillClock)
    #: seconds from a job's due time to its check; with the number of checked ones
    latest: float = 0.0
    looks: int = 0

    def __post_init__(self) -> None:
        self.start = self.clock.now()
        #: of each tenant (due at, number); the golden ratio spreads any number of jobs evenly over one lease
        self.due = {
            tenant: [(number * 0.6180339887 % 1 * self.lease_s, number) for number in range(jobs)]
            for tenant, jobs in self.tenants.items()
        }
        for heap in self.due.values():
            heapq.heapify(heap)

    @property
    def seconds(self) -> float:
        return (self.clock.now() - self.start).total_seconds()

    async def sweep(self, share: SweeperShare, position: str | None, began_s: float) -> str | None:
        """One pass that begins at `began_s`, in parallel with those over the other shares."""
        self.clock.time = self.start + timedelta(seconds=began_s)
        taken: dict[str, int] = {}

        async def page(tenant: str, limit: int) -> list[tuple[str, float, int]]:
            heap = self.due[tenant]
            found = []
            while heap and heap[0][0] <= began_s and len(found) < limit:
                found.append((tenant, *heapq.heappop(heap)))
            taken[tenant] = taken.get(tenant, 0) + len(found)
            return found

        async def look(piece: tuple[str, float, int]) -> None:
            tenant, due_s, number = piece
            self.clock.advance(1 / self.looks_per_s)
            self.looks += 1
            self.latest = max(self.latest, self.seconds - due_s)
            heapq.heappush(self.due[tenant], (self.seconds + self.lease_s, number))

        mine = [tenant for tenant in self.due if share.has(tenant)]
        return await in_turns(from_on(mine, position), page, look, lambda: self.seconds >= began_s + LOOKS_S)

    async def run(self, sweepers: int, passes: int) -> None:
        positions: dict[int, str | None] = {}
        for number in range(passes):
            for share in (SweeperShare(each, sweepers) for each in range(sweepers)):
                positions[share.number] = await self.sweep(share, positions.get(share.number), number * PERIOD_S)


@pytest.mark.parametrize(
    ("jobs", "tenants", "sweepers", "looks_per_s"),
    [
        (5_000, 100, 2, 6.5),
        # the load of a sweeper in docs/explanation/scale.md
        pytest.param(1_000_000, 1_000, 16, 133.0, marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
async def test_every_due_job_is_looked_at_within_two_periods(
    jobs: int, tenants: int, sweepers: int, looks_per_s: float
) -> None:
    """Living jobs of tenants of very unequal sizes, leases of fifteen minutes and a minute's grace."""
    sizes = [1 / rank**0.5 for rank in range(1, tenants + 1)]
    model = Model(
        {f"tenant-{rank}": max(1, round(jobs * size / sum(sizes))) for rank, size in enumerate(sizes)},
        960.0,
        looks_per_s,
    )
    await model.run(sweepers, passes=20)
    assert model.looks >= jobs
    assert model.latest <= 2 * PERIOD_S


async def test_no_tenant_starves_another() -> None:
    """More jobs are due than there is time for: a tenant with a single job is served beside any large tenant."""
    served: list[str] = []
    left = {"large-1": 10_000, "large-2": 10_000, "small": 1}

    async def page(tenant: str, limit: int) -> list[str]:
        taken = min(limit, left[tenant])
        left[tenant] -= taken
        return [tenant] * taken

    async def serve(tenant: str) -> None:
        served.append(tenant)

    stopped_at = await in_turns([*left], page, serve, lambda: len(served) >= 600)
    assert stopped_at is not None
    assert served.count("small") == 1
    assert served.count("large-1") == served.count("large-2")
    assert len(served) < 1200


@pytest.mark.parametrize("first", [None, "b", "bb", "zz"])
def test_a_pass_goes_on_where_the_last_one_stopped(first: str | None) -> None:
    """From the tenant that was next, or from the one after it where that is asleep by now."""
    found = from_on(["c", "a", "b"], first)
    assert sorted(found) == ["a", "b", "c"]
    assert [found[0], sum(one > other for one, other in pairwise(found))] == {
        None: ["a", 0],
        "b": ["b", 1],
        "bb": ["c", 1],
        "zz": ["a", 0],
    }[first]


def test_each_tenant_falls_to_one_share() -> None:
    """For any number of tenants, and about evenly."""
    tenants = [f"tenant {number}" for number in range(1000)]
    for of in (1, 2, 7):
        owners = [[number for number in range(of) if SweeperShare(number, of).has(tenant)] for tenant in tenants]
        assert {len(each) for each in owners} == {1}
        shares = [owners.count([number]) for number in range(of)]
        assert max(shares) < 1.5 * min(shares)


async def several(world: World, tenants: int) -> list[str]:
    """Creates a job of each of this number of tenants, without an orchestration."""
    found = [await submitted(world, tenant_id=f"tenant_{number}") for number in range(tenants)]
    world.orchestrations.states.clear()
    world.orchestrations.started.clear()
    return found


async def test_a_pass_ends_when_its_time_is_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow looks: the report has `more`, and the next sweep starts with the first tenant that was not reached."""
    jobs = await several(world, 3)
    monkeypatch.setattr("shared.operations.sweeper.turns.AT_ONCE", 1)
    start = world.orchestrations.start

    async def slow(*args: object) -> None:
        world.clock.advance(41)
        await start(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(world.orchestrations, "start", slow)
    world.clock.advance(61)
    reports = [await sweep(world.context, world.orchestrations) for _ in range(3)]
    assert [(report.looked_at, report.more) for report in reports] == [(1, True)] * 3
    assert world.orchestrations.started == jobs
    monkeypatch.undo()
    assert not (await sweep(world.context, world.orchestrations)).more


async def test_a_job_that_fails_lets_the_others_of_its_tenant_go_first(world: World) -> None:
    """It stays due, behind those that wait longer."""
    broken, other = [await submitted(world, doc_id=str(number)) for number in range(2)]
    failing(world.orchestrations, "look_up", only=lambda instance_id: instance_id == broken)
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)
    later = world.clock.now() + timedelta(hours=1)
    due = await world.index.due("tenant_a", now=later, limit=10)
    assert [row.job_id for row in due] == [broken, other]
    assert due[0].check_at == world.clock.now()
    assert (await sweep(world.context, world.orchestrations)).looked_at == 1


async def test_a_tenant_that_cannot_be_listed_holds_up_no_other(world: World) -> None:
    """The others' jobs are repaired; then the sweep fails, which raises its alert."""
    await several(world, 3)
    failing(world.index, "due", only=lambda tenant, **_: tenant == "tenant_0")
    world.clock.advance(61)
    with pytest.raises(LedgerUnavailable):
        await sweep(world.context, world.orchestrations)
    assert len(world.orchestrations.started) == 2


@pytest.mark.parametrize("broken", ["list_active"])
async def test_counting_stops_no_repair(world: World, broken: str) -> None:
    """A fault of the counts comes after the repairs, and the sweep has done its work."""
    world.context = replace(world.context, settings=replace(world.context.settings, max_inflight=10))
    [job_id] = await several(world, 1)
    failing(world.index, broken)
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)
    assert world.orchestrations.started == [job_id]


async def test_a_share_is_swept_alone(world: World) -> None:
    """A sweeper touches its own tenants only; a sweep by hand touches all."""
    jobs = await several(world, 8)
    world.clock.advance(61)
    whole = replace(world.context, settings=replace(world.context.settings, sweepers=2))
    await sweep(whole, world.orchestrations, SweeperShare(1, 2))
    expected = [job for number, job in enumerate(jobs) if SweeperShare(1, 2).has(f"tenant_{number}")]
    assert sorted(world.orchestrations.started) == sorted(expected)
    assert 0 < len(expected) < 8
    await sweep(whole, world.orchestrations)
    assert sorted(world.orchestrations.started) == sorted(jobs)


async def test_a_tenant_without_living_jobs_is_left_to_sleep(world: World) -> None:
    """An hour after its last POST and after its usage is rolled up; with a living job it stays awake."""
    ended = await submitted(world, tenant_id="idle")
    await submitted(world, tenant_id="busy")
    await cancelled(world, ended)
    looks = noted(world.index, "due")
    for seconds in (AWAKE_AFTER_POST.total_seconds(), 1, AWAKE_AFTER_POST.total_seconds()):
        world.clock.advance(seconds)
        await sweep(world.context, world.orchestrations)
    assert [tenant for _, tenant in looks] == ["busy", "idle"] * 3
    world.clock.advance(60)
    await sweep(world.context, world.orchestrations)
    assert looks[6:] == [("due", "busy")]
    created = await create_job(
        world.context, world.orchestrations, envelope(tenant_id="idle", doc_id="new"), correlation_id=None
    )
    world.clock.advance(FIRST_CHECK.total_seconds())
    await sweep(world.context, world.orchestrations)
    assert looks[7:] == [("due", "busy"), ("due", "idle")]
    assert not created.replayed
