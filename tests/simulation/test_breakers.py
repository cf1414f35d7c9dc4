"""A service that fails 60 % of its jobs for ten minutes: breakers open, probe, close, and starts ramp up (R61)."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from shared.contracts.messages import Directive
from shared.core.gates.breaker import BreakerRule, BreakerState, advance
from shared.core.gates.rules import EVERY, Gate, GateKind, Rule
from shared.core.incidents import Incident
from shared.core.jobs.reasons import Reason
from shared.errors import BusUnavailable, LedgerUnavailable
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.quotas.breaker_incidents import answer_call
from tests.contexts import changed
from tests.jobs import START
from tests.row_views import at_once
from tests.simulation import protocols
from tests.simulation.faults import NO_FAULTS, Odds
from tests.simulation.host import HostDown
from tests.simulation.plans import Plan
from tests.simulation.world import World

pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")

HEALED = START + timedelta(minutes=10)
OCR = protocols.ONE_STEP
TENANTS = ("tenant_0", "tenant_1")
MOVES = {("CLOSED", "OPENED"), ("OPENED", "HALF_OPEN"), ("HALF_OPEN", "OPENED"), ("HALF_OPEN", "CLOSED")}


class Outage(World):
    """Two tenants, whose jobs of one type have a breaker each; calls of admission states arrive."""

    def __init__(self, seed: int, plan: Plan, rule: BreakerRule) -> None:
        super().__init__(seed, plan)
        self.rule = rule
        at_once(self.index.admissions.put_default(Gate(GateKind.TYPE, EVERY, OCR), Rule(breaker=rule), START))
        self.context = changed(self.context, admission_calls=self._port(self, BusUnavailable))
        self._others = self._other_processes()
        self.bus.on_directive = self._serve
        self._broken: dict[str, bool] = {}
        #: the most jobs at once that each tenant's half-open breaker admitted
        self.probes: Counter[str] = Counter()

    async def call(
        self,
        tenant: str,
        job_id: str | None = None,
        *,
        breaker_of: str | None = None,
        at: datetime | None = None,
    ) -> None:
        self.scheduler.at(at or self.scheduler.now, lambda: self.scheduler.spawn(self._look(tenant, breaker_of)))

    async def _look(self, tenant: str, breaker_of: str | None) -> None:
        try:
            if breaker_of is not None:
                await self.host.serve(answer_call(self.context, tenant, breaker_of))
            else:
                await self.host.serve(self._let_in(tenant))
        except (HostDown, LedgerUnavailable):
            # the sweeper's look, in a minute
            return

    async def _let_in(self, tenant: str) -> None:
        await notify(self.context, self.orchestrations, tenant, await take_turn(self.context, tenant))

    async def incidents_of(self, tenant: str) -> list[Incident]:
        gate = Gate(GateKind.TYPE, tenant, OCR)
        rows = await self.index.incidents.list_at(None, after=None, limit=1000)
        return [row.incident for row in rows if row.incident.subject == gate.id]

    def _serve(self, directive: Directive) -> None:
        """Decides once whether a job fails; no attempt of a failing one succeeds before the service is repaired."""
        job_id = directive.jobId
        broken = self._broken.setdefault(job_id, self.scheduler.now < HEALED and self.random.random() < 0.6)
        if broken and self.scheduler.now < HEALED:
            self.services._fails_retryably(directive)
        else:
            self.services._good(directive)

    def _check_admissions(self) -> None:
        """At every instant the breaker counts the rows of its epoch, and never more than it allows."""
        for tenant, stored in self.index.admissions.admissions.items():
            breaker = stored.admission.state(Gate(GateKind.TYPE, tenant, OCR)).breaker
            if breaker is None or not breaker.epoch:
                continue
            places = [row.counted_place for row in self.index.active.values() if row.tenant == tenant]
            places += [each.place for of, each in self.index.admissions.all_freed if of == tenant]
            inside = [place for place in places if not place.is_staged]
            probes = sum(place.breaker_epoch == breaker.epoch for place in inside)
            now = advance(breaker, self.scheduler.now)
            allowed = {BreakerState.OPEN: 0, BreakerState.HALF_OPEN: now.allow}.get(now.state, probes)
            if probes != breaker.active or probes > allowed:
                self.add_violation(f"{probes} of {tenant} are inside in its epoch: {now}")
            if now.state is BreakerState.HALF_OPEN:
                self.probes[tenant] = max(self.probes[tenant], probes)


async def outage(
    jobs: int, rule: BreakerRule, odds: Odds = NO_FAULTS, seed: int = 1, *, events: bool = False
) -> Outage:
    """Returns a world in which each job ended, and the log of each breaker is a possible one."""
    plan = Plan(
        jobs=jobs,
        odds=odds,
        request_types=(OCR,),
        owners_checked=False,
        faults_end_after=timedelta(minutes=40),
        events=events,
    )
    world = Outage(seed, plan, rule)
    report = await world.run()
    assert not report.violations, "\n".join(report.violations)
    for tenant in TENANTS:
        states = ["CLOSED", *await log_of(world, tenant)]
        assert {(before, after) for before, after in itertools.pairwise(states)} <= MOVES
        # a world of faults ends with its last job, and so before the sweep that makes up for a lost call
        troubles = sum(move == ("CLOSED", "OPENED") for move in itertools.pairwise(states))
        incidents = len(await world.incidents_of(tenant))
        assert incidents == troubles if odds is NO_FAULTS else incidents <= troubles
    return world


async def log_of(world: World, tenant: str) -> list[str]:
    entries = await world.index.admissions.log(tenant, Gate(GateKind.TYPE, tenant, OCR).id, after=0, limit=1000)
    return [entry.type.removeprefix("BREAKER_") for entry in entries]


async def healed(world: Outage) -> None:
    """Each opened, ramped up, and is closed."""
    for tenant in TENANTS:
        log = await log_of(world, tenant)
        assert (log[0], log[-1]) == ("OPENED", "CLOSED")
        assert world.probes[tenant] > 1


def failed(world: World) -> int:
    found = Counter(record.job.error_code for record in world.ledger.records.values())
    return found[Reason.ATTEMPTS_EXHAUSTED]


async def test_a_service_that_fails_for_ten_minutes() -> None:
    """It opens after a few bad ends, probes, and closes; every job ends, and most waited the fault out.

    All of it is in the feeds, each once and in order.
    """
    world = await outage(60, BreakerRule(min_calls=4), seed=2, events=True)
    await healed(world)
    # without a breaker about 36 fail; with a breaker the number depends on the times of its probes
    assert failed(world) <= 25
    assert world.feeds is not None
    feed = world.feeds.feed
    events = [each for tenant in TENANTS for each in await feed.events(tenant, after=0, limit=10_000)]
    types = Counter(each.event_type for each in events)
    assert types["breaker.opened"] >= types["breaker.closed"] == len(TENANTS)
    assert types["incident.opened"] > len(TENANTS)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_service_that_fails_for_ten_minutes_with_many_jobs() -> None:
    """Ten times as many jobs: only those that were admitted before it opened fail, and the probes."""
    world = await outage(600, BreakerRule())
    await healed(world)
    assert failed(world) <= 150


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(1, 9))
async def test_breakers_in_a_world_of_crashes(seed: int) -> None:
    """With crashes, lost answers and repeats: at every instant the counts are those of the rows, and every job ends."""
    await outage(200, BreakerRule(failure_rate=0.3), replace(Odds(), slow=0.0, very_slow=0.0), seed)
