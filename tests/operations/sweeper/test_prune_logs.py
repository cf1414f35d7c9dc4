"""Logs of quotas, incidents, and jobs that no row leads to leave the tables when their time is over (R88)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.log import LogEntry, append_entry
from shared.core.gates.rules import EVERY, Gate, GateKind, GateState
from shared.core.incidents import Incident, IncidentKind
from shared.core.records.chained_log import entry_hash
from shared.errors import DataLost, LedgerUnavailable
from shared.operations.events.feed_writer import write_feed
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.gates.gate_logs import read_state
from shared.operations.incidents import incidents
from shared.operations.quotas import quotas
from shared.operations.sweeper import prune_logs
from shared.ports.admissions import LogPlace
from tests.memory_stores import MemoryAdmissions, MemoryUsage
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import Counting, by, create_numbered
from tests.operations.sweeper.test_retention import ended
from tests.operations.sweeper.test_retention import swept as sweep_labels
from tests.worlds.events import logs, of, swept_at_the_hour
from tests.worlds.gates import EVERYBODY, OCR, OPERATOR, SCANNER, TENANT, entries, held, resumed, ruled, world

__all__ = ["world"]  # a fixture

KEPT = 400.0
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that end in the middle of logs."""
    monkeypatch.setattr(prune_logs, "PAGE", 7)
    monkeypatch.setattr(prune_logs, "_REMOVED", 3)


@pytest.fixture
def whole_pages(small_pages: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune_logs, "PAGE", 1000)
    monkeypatch.setattr(prune_logs, "_REMOVED", 100)


async def pruned(world: World, span: timedelta = DAY) -> None:
    """By the daily run, after a span at the earliest."""
    at = world.clock.now() + span
    first = at.replace(hour=prune_logs.DAILY_HOUR, minute=17, second=30, microsecond=0)
    world.clock.time = first if first >= at else first + DAY
    await prune_logs.prune_logs(world.context)


async def changed(world: World, gate: Gate, days: Sequence[int]) -> list[LogEntry]:
    """Changes the quota this number of days after the start each; returns the log after that."""
    start = world.clock.now()
    for number, day in enumerate(days):
        world.clock.time = start + timedelta(days=day)
        await ruled(world, gate, max_active=number + 1)
    world.clock.time = start
    return await entries(world, gate)


def is_chained(log: Sequence[LogEntry]) -> bool:
    return all(
        after.prev_hash == before.hash and after.seq == before.seq + 1 and after.hash == entry_hash(vars(after))
        for before, after in itertools.pairwise(log)
    )


async def test_the_oldest_entries_go_and_the_last_of_them_stays(world: World) -> None:
    """It was in effect when the first kept day began. Each quota has its own; the rules for every tenant too."""
    whole = {gate: await changed(world, gate, days) for gate, days in AGES.items()}
    await pruned(world, timedelta(days=KEPT + 20))
    for gate, log in whole.items():
        young = [each for each in log if world.clock.now() - each.at < timedelta(days=KEPT)]
        left = await entries(world, gate)
        assert left == log[-len(young) - 1 :]
        assert is_chained(left)
    # again is harmless
    await prune_logs.prune_logs(world.context)
    assert [len(await entries(world, gate)) for gate in AGES] == [3, 1, 2, 2]


AGES = {OCR: (*range(19), 50, 60), TENANT: (0, 1, 2), SCANNER: (*range(15), 30), EVERYBODY: (0, 5, 30)}


async def test_a_log_that_was_cut_goes_on(world: World) -> None:
    """Also that of a quota that its admission state lacks: its head is the last entry, which is never deleted."""
    await create_numbered(world, 1)
    await held(world, OCR)
    await resumed(world, OCR)
    before = await entries(world, OCR)
    stored = world.index.admissions.admissions["tenant_a"]
    assert OCR.id not in stored.admission.gates
    await pruned(world, timedelta(days=KEPT + 1))
    assert await entries(world, OCR) == before[1:]
    await ruled(world, OCR, seq=2, max_active=5)
    log = await entries(world, OCR)
    assert [each.seq for each in log] == [2, 3]
    assert is_chained(log)


async def test_what_the_feed_has_not_got_stays(world: World) -> None:
    """At any age; once it is in the feed it is deleted, and the feed has no entry twice."""
    fed = of(world)
    await changed(fed.world, OCR, range(4))
    hints = await fed.hints()
    await write_feed(fed.world.context, hints[:2])
    await pruned(fed.world, timedelta(days=KEPT + 20))
    assert [each.seq for each in await entries(fed.world, OCR)] == [3, 4]
    await swept_at_the_hour(fed)
    await pruned(fed.world)
    assert [each.seq for each in await entries(fed.world, OCR)] == [4]
    await write_feed(fed.world.context, hints)
    assert await logs(fed) == [f"{OCR.id}:{number}:0" for number in (1, 2, 3, 4)]


async def test_a_feed_that_comes_later_reads_what_is_left(world: World) -> None:
    await changed(world, OCR, range(4))
    await pruned(world, timedelta(days=KEPT + 20))
    fed = of(world)
    await swept_at_the_hour(fed)
    await ruled(fed.world, OCR, max_active=9)
    await fed.taken()
    assert await logs(fed) == [f"{OCR.id}:{number}:0" for number in (4, 5)]


async def is_chained_and_finished(world: World, whole: dict[Gate, list[LogEntry]]) -> None:
    """The stopped runs left no gap and the last entry of each log; the next day's run removes all others."""
    for gate, log in whole.items():
        assert is_chained(left := await entries(world, gate))
        assert left[-1] == log[-1]
    await pruned(world)
    assert [len(await entries(world, gate)) for gate in whole] == [1, 1]


@pytest.mark.parametrize("dies_at", range(1, 8))
async def test_a_run_that_dies_leaves_a_chained_log(
    world: World, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    """Before each of its transactions, and after it, when the response is lost; the next day continues."""
    whole = {gate: await changed(world, gate, range(12)) for gate in (OCR, SCANNER)}
    admissions, real, calls = world.index.admissions, world.index.admissions.drop_log, itertools.count(1)

    async def dies(tenant: str, places: Sequence[LogPlace]) -> None:
        number = next(calls)
        if number == dies_at and dies_at % 2:
            await real(tenant, places)
        if number >= dies_at:
            raise LedgerUnavailable("killed here")
        await real(tenant, places)

    with monkeypatch.context() as patch:
        patch.setattr(admissions, "drop_log", dies)
        await pruned(world, timedelta(days=KEPT + 20))
    await is_chained_and_finished(world, whole)


@pytest.mark.parametrize("dies_after", [1, 2, 99])
@pytest.mark.parametrize("lead", range(6))
async def test_two_runs_at_once(world: World, monkeypatch: pytest.MonkeyPatch, lead: int, dies_after: int) -> None:
    """The second starts between any two transactions of the first, and may die after some of its own, which have
    another size. No gap is left, and the next day deletes the rest.
    """
    whole = {gate: await changed(world, gate, range(12)) for gate in (OCR, SCANNER)}
    admissions, real, first, second = (
        world.index.admissions,
        world.index.admissions.drop_log,
        itertools.count(),
        itertools.count(1),
    )
    is_second = False

    async def overtaken(tenant: str, places: Sequence[LogPlace]) -> None:
        nonlocal is_second
        if is_second and next(second) > dies_after:
            raise LedgerUnavailable("killed here")
        if not is_second and next(first) == lead:
            is_second = True
            monkeypatch.setattr(prune_logs, "_REMOVED", 2)
            await prune_logs.prune_logs(world.context)
            monkeypatch.setattr(prune_logs, "_REMOVED", 3)
            is_second = False
        await real(tenant, places)

    with monkeypatch.context() as patch:
        patch.setattr(admissions, "drop_log", overtaken)
        await pruned(world, timedelta(days=KEPT + 20))
    await is_chained_and_finished(world, whole)


async def test_a_broken_row_and_a_broken_tenant_stop_no_other(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row without a time is taken for an old one."""
    await changed(world, OCR, range(5))
    await changed(world, EVERYBODY, range(5))
    real = MemoryAdmissions.log_places

    async def broken(admissions: MemoryAdmissions, tenant: str, *, first: LogPlace, limit: int) -> list[LogPlace]:
        if tenant == EVERY:
            raise RuntimeError("a bug")
        places = await real(admissions, tenant, first=first, limit=limit)
        return [place._replace(at=None) if place.seq == 2 else place for place in places]

    monkeypatch.setattr(MemoryAdmissions, "log_places", broken)
    await pruned(world, timedelta(days=KEPT + 20))
    assert [each.seq for each in await entries(world, OCR)] == [5]
    assert len(await entries(world, EVERYBODY)) == 5


async def test_a_run_whose_time_is_over_goes_on_the_next_day(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tenant that comes first is another one each time."""
    await changed(world, OCR, range(30))
    await changed(world, EVERYBODY, range(30))
    real = MemoryAdmissions.log_places

    async def slow(admissions: MemoryAdmissions, tenant: str, *, first: LogPlace, limit: int) -> list[LogPlace]:
        world.clock.advance(prune_logs.BUDGET.total_seconds() / 2)
        return await real(admissions, tenant, first=first, limit=limit)

    monkeypatch.setattr(MemoryAdmissions, "log_places", slow)
    left = [30, 30]
    for day in range(20):
        await pruned(world, timedelta(days=1 if day else KEPT + 40))
        now = [len(await entries(world, gate)) for gate in (OCR, EVERYBODY)]
        assert sum(now) < sum(left) or now == [1, 1]
        left = now
    assert left == [1, 1]


def long_log(world: World, gate: Gate, count: int) -> None:
    """Writes this number of entries, a minute apart; the admission state does not know the quota."""
    state, start, entries = GateState(gate=gate), world.clock.now(), []
    for number in range(count):
        at = start + timedelta(minutes=number)
        state, entry = append_entry(state, "HELD", actor="op", reason="r", at=at, data={})
        entries.append(entry)
    world.index.admissions.put_log(gate.tenant, entries)


@pytest.mark.parametrize(("count", "reads"), [(1, 1), (999, 1), (1000, 3), (1001, 3), (2500, 5), (10_000, 9)])
async def test_the_head_of_a_long_log_is_found_by_few_reads(world: World, count: int, reads: int) -> None:
    """Of a quota that its admission state has forgotten: on `GET /v1/quotas` and in the turn of a tenant."""
    long_log(world, SCANNER, count)
    admissions = Counting(world.context.admissions)
    empty = AdmissionState(tenant="tenant_a", counted_at=world.clock.now())
    found = await read_state(replace(world.context, admissions=admissions), empty, SCANNER)
    assert (found.log_seq, admissions.calls["log"]) == (count, reads)


@pytest.mark.usefixtures("whole_pages")
async def test_ten_thousand_entries_go_in_a_run(world: World) -> None:
    """11 reads of at most 1,000 rows, and 101 transactions of at most 100."""
    long_log(world, SCANNER, 10_000)
    await ruled(world, TENANT, max_active=1)
    admissions = Counting(world.context.admissions)
    counted = replace(world, context=replace(world.context, admissions=admissions))
    await pruned(counted, timedelta(days=KEPT + 20))
    assert len(await entries(world, SCANNER)) == 1
    # one read more is of the logs of `*`
    assert (admissions.calls["log_places"], admissions.calls["drop_log"]) == (12, 101)


async def test_nothing_is_looked_for_in_other_hours(world: World) -> None:
    await changed(world, OCR, range(3))
    world.clock.time = (world.clock.now() + timedelta(days=KEPT + 20)).replace(hour=4)
    assert await prune_logs.prune_logs(world.context) == 0
    assert len(await entries(world, OCR)) == 3
    # without feeds there is no other thing to prune
    assert await prune_feeds(world.context) == 0


# --- incidents


async def raised(world: World, subject: str, tenant: str | None = None) -> Incident:
    kind = IncidentKind.SERVICE if tenant is None else IncidentKind.BREAKER
    return await incidents.raise_incident(world.context, kind, subject, tenant=tenant, code="C")


async def all_incidents(world: World) -> list[str]:
    rows = await world.context.incidents.list_at(None, after=None, limit=100)
    return [row.incident.subject for row in reversed(rows)]


async def test_settled_incidents_go_and_open_ones_never(world: World) -> None:
    """By the time of their settlement; the last ones too, after any number of runs."""
    start = world.clock.now()
    for day in range(20):
        world.clock.time = start + timedelta(days=day)
        incident = await raised(world, f"service_{day}", "tenant_a" if day % 2 else None)
        if day != 3:
            await incidents.resolve_incident(world.context, incident.id, by())
    gone = await incidents.find_incident_of(world.context, IncidentKind.SERVICE, "service_0", start)
    assert gone is not None
    world.clock.time = start
    await pruned(world, timedelta(days=KEPT + 10))
    assert await all_incidents(world) == ["service_3", *(f"service_{day}" for day in range(11, 20))]
    assert await world.context.incidents.log(gone, after=0, limit=9) == []
    await pruned(world, timedelta(days=KEPT))
    assert await all_incidents(world) == ["service_3"]


async def test_an_incident_that_cannot_be_removed_stops_no_other(world: World) -> None:
    for number in range(12):
        incident = await raised(world, f"service_{number}")
        world.clock.advance(1)
        await incidents.resolve_incident(world.context, incident.id, by())
    fault = RuntimeError("a bug")
    failing(world.index.incidents, "remove", error=fault, only=lambda incident: incident.subject == "service_7")
    await pruned(world, timedelta(days=KEPT + 1))
    assert await all_incidents(world) == ["service_7"]


# --- jobs


async def test_jobs_that_ended_before_there_was_a_retention_are_archived(world: World) -> None:
    """No ENDED row leads to them; those that are younger, and those that live, stay."""
    settings = replace(world.context.settings, idempotency_ttl_days=1)
    world = replace(world, context=replace(world.context, settings=settings))
    old = [await ended(world, doc_id=f"doc-{number}") for number in range(3)]
    for _ in range(4):
        await sweep_labels(world, 86_400)
    assert not world.index.ended
    world = replace(world, context=replace(world.context, settings=replace(settings, retention_days=30)))
    await pruned(world, timedelta(days=29))
    young = await ended(world, doc_id="young")
    assert "archive" not in await sweep_labels(world)
    await pruned(world, timedelta(days=3))
    await pruned(world, timedelta(seconds=1))
    labels = await sweep_labels(world)
    assert labels.count("archive") == 3
    assert [await world.ledger.read(job_id) for job_id in old] == [None] * 3
    assert await world.ledger.read(young) is not None
    await pruned(world)
    assert "archive" not in await sweep_labels(world)


async def test_a_job_that_cannot_be_cleared_gets_one_row(world: World) -> None:
    """The sweeper postpones it each time; a second row each day would be read without end."""
    settings = replace(world.context.settings, idempotency_ttl_days=1)
    world = replace(world, context=replace(world.context, settings=settings))
    await ended(world)
    for _ in range(4):
        await sweep_labels(world, 86_400)
    world = replace(world, context=replace(world.context, settings=replace(settings, retention_days=30)))
    failing(world.ledger, "read", error=DataLost("a blob is gone", tenant_id="tenant_a"))
    await pruned(world, timedelta(days=40))
    for _ in range(5):
        await sweep_labels(world)
        await pruned(world)
    assert len(world.index.ended) == 1


async def test_quotas_of_a_tenant_without_jobs(world: World) -> None:
    """It is in the directory alone; its feed finds a tenant that is deleted from there."""
    fed = of(world)
    gate = Gate(GateKind.TENANT, "quiet")
    await quotas.hold(fed.world.context, fed.world.orchestrations, gate, OPERATOR, until=None)
    await quotas.resume(fed.world.context, fed.world.orchestrations, gate, OPERATOR)
    await fed.taken()
    await swept_at_the_hour(fed)
    assert "quiet" not in (await fed.world.context.admissions.directory()).tenants
    await pruned(fed.world, timedelta(days=KEPT + 1))
    assert [each.seq for each in await entries(fed.world, gate)] == [2]


async def test_usage_of_a_tenant_that_has_no_jobs_any_more(world: World) -> None:
    """Its hours are deleted after 400 days, as those of others."""
    usage, hour = MemoryUsage(), world.clock.now().replace(minute=0, second=0, microsecond=0)
    world = replace(world, context=replace(world.context, usage=usage))
    await create_numbered(world, 1)
    for hours in (0, 48):
        await usage.add_refused("tenant_a", hour + timedelta(hours=hours), {("OCR", ""): 1})
    await pruned(world, timedelta(days=401))
    found = await usage.hours("tenant_a", hour, hour + timedelta(days=9))
    assert [each.hour for each in found] == [hour + timedelta(hours=48)]
