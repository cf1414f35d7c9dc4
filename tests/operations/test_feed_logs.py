"""Gates, breakers and incidents in the feeds: each public event of their logs once, in order, also where hints are
lost (R78, R79).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from shared.access.caller import Caller, Scope
from shared.adapters.memory import MemoryLedger
from shared.adapters.memory_feed import MemoryFeed
from shared.adapters.tenant_scope import TenantFeed
from shared.core.gates.rules import EVERY, MAX_RULES, Gate, GateKind
from shared.core.incidents import IncidentKind, job_incident_id
from shared.core.public_events import PublicType
from shared.core.public_log_events import feed_of, gate_events, incident_events
from shared.core.routing import PLATFORM
from shared.errors import LedgerUnavailable
from shared.operations import incidents, quotas
from shared.operations.find_gate import find_gate
from shared.operations.gate_directory import GateDirectory
from shared.operations.prune_feeds import prune_feeds
from shared.operations.read_feed import EventFilter, read_feed
from shared.operations.sweeper.logs import compare_logs
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from shared.ports.sweeps import Share
from shared.refusals import QuotaInvalid
from tests.operations.conftest import World, built
from tests.operations.support import limited, redrive
from tests.operations.test_breakers import MINUTE, ends, opened
from tests.operations.test_feed import TENANT, Fed, of, refusing
from tests.operations.test_gates import posted
from tests.operations.test_incidents import an_incident, dismiss, listed, raised, resolve, retry
from tests.operations.test_quotas import OCR, OPERATOR, SCANNER, held, resumed, ruled
from tests.operations.test_quotas import TENANT as TENANT_GATE

EVERYBODY = Gate(GateKind.TENANT, EVERY)


@pytest.fixture
def fed(world: World) -> Fed:
    return of(limited(world, staging="on"))


async def logs(fed: Fed, tenant: str = TENANT) -> list[str]:
    """Ids of the events of gates and incidents in the feed."""
    assert await fed.ids(tenant) is not None
    events = await fed.feed.events(tenant, after=0, limit=10_000)
    return [each.event_id for each in events if not each.event_type.startswith("job.")]


async def types(fed: Fed, tenant: str = TENANT) -> list[str]:
    events = await fed.feed.events(tenant, after=0, limit=10_000)
    return [each.event_type for each in events if not each.event_type.startswith("job.")]


async def swept(fed: Fed, seconds: float = 61) -> None:
    fed.world.clock.advance(seconds)
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()


async def swept_at_the_hour(fed: Fed) -> None:
    now = fed.world.clock.now()
    await swept(fed, (now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1) - now).total_seconds())


async def test_what_people_change_at_a_gate(fed: Fed) -> None:
    """Who and why, before and after; what changes nothing is no event."""
    await ruled(fed.world, OCR, max_active=5)
    await ruled(fed.world, OCR, max_active=5)
    await held(fed.world, OCR)
    await resumed(fed.world, OCR)
    await fed.taken()
    assert await fed.ids() == [f"{OCR.id}:{seq}:0" for seq in (1, 2, 3)]
    assert await types(fed) == ["quota.changed"] * 3
    last = json.loads((await fed.feed.events(TENANT, after=1, limit=1))[0].text)
    assert (last["subject"], last["jobseq"], last["sequence"]) == (OCR.id, 2, f"{2:020d}")
    assert last["data"]["provenance"] == {"actor": OPERATOR.actor}
    payload = last["data"]["payload"]
    assert (payload["change"], payload["reason"]) == ("HELD", OPERATOR.reason)
    assert (payload["before"]["hold"], payload["after"]["hold"]["reason"]) == (None, OPERATOR.reason)


async def test_the_life_of_a_breaker_and_its_incident(fed: Fed) -> None:
    """It opens by the ends of jobs, the sweeper opens its incident, somebody resets it, and both are over."""
    await opened(fed.world, waiting=0)
    await swept(fed)
    await quotas.reset_breaker(fed.world.context, fed.world.orchestrations, OCR, OPERATOR)
    await fed.taken()
    expected = ["quota.changed", *["incident.opened"] * 2, "breaker.opened", "incident.opened"]
    assert sorted(await types(fed)) == sorted([*expected, "breaker.closed", "incident.resolved"])
    in_order = [each for each in await types(fed) if each.startswith("breaker") or each == "incident.resolved"]
    assert in_order == ["breaker.opened", "breaker.closed", "incident.resolved"]


async def test_a_breaker_that_time_and_good_ends_close(fed: Fed) -> None:
    """Half-open is no event; whoever lets the next ones in hints at what time has done."""
    jobs = await opened(fed.world)
    fed.world.clock.advance(MINUTE)
    await swept(fed)
    for job_id in jobs:
        await ends(fed.world, job_id, good=True)
    await fed.taken()
    breaker = [each for each in await types(fed) if each.startswith("breaker")]
    assert breaker == ["breaker.opened", "breaker.closed"]
    log = await fed.world.context.desks.log(TENANT, OCR.id, after=0, limit=100)
    assert [each.type for each in log][1:] == ["BREAKER_OPENED", "BREAKER_HALF_OPEN", "BREAKER_CLOSED"]


async def test_an_incident_of_a_job(fed: Fed) -> None:
    """Opened by the job's end, with the job's id; whatever settles it is one event that says which."""
    ends_of = {"RESOLVED": resolve, "DISMISSED": dismiss, "RETRIED": retry}
    for state, settle in ends_of.items():
        incident_id = await an_incident(fed.world)
        await settle(fed.world, incident_id)
        await settle(fed.world, incident_id)
        await fed.taken()
        found = [each for each in await logs(fed) if each.startswith(f"{incident_id}:")]
        assert found == [f"{incident_id}:1:0", f"{incident_id}:2:0"]
        events = [json.loads(each.text) for each in await fed.feed.events(TENANT, after=0, limit=1000)]
        [last] = [each for each in events if each["id"] == found[-1]]
        assert last["type"] == "incident.resolved"
        assert last["data"]["payload"]["status"] == state
        assert last["data"]["payload"].get("retriedBy") is not None or state != "RETRIED"
        assert last["data"]["jobId"] == incident_id.removeprefix("inc_")


async def test_a_redrive_settles_its_incident(fed: Fed) -> None:
    incident_id = await an_incident(fed.world)
    await redrive(fed.world, incident_id.removeprefix("inc_"))
    await fed.taken()
    assert await types(fed) == ["incident.opened", "incident.resolved"]


async def test_what_belongs_to_no_tenant(fed: Fed) -> None:
    """Rules for every tenant, gates over all of them and their incidents are in the feed of `=platform`."""
    over_all = Gate.over_all(GateKind.SERVICE, "ocr")
    await ruled(fed.world, EVERYBODY, max_active=5)
    await held(fed.world, over_all)
    incident = await raised(fed.world)
    await incidents.settle_incident(fed.world.context, IncidentKind.BREAKER, incident.subject, "over")
    await fed.taken()
    assert await fed.ids(PLATFORM) == [
        *(f"{EVERYBODY.id}:1:0", f"{over_all.id}:1:0"),
        *(f"{incident.id}:1:0", f"{incident.id}:2:0"),
    ]
    assert await fed.ids() == []
    with pytest.raises(QuotaInvalid):
        await find_gate(fed.world.context, PLATFORM)


async def test_who_reads_the_feed_of_no_tenant(fed: Fed) -> None:
    """Callers of all tenants; and filters by job leave out what is of none."""
    await ruled(fed.world, EVERYBODY, max_active=5)
    await fed.taken()
    everybody = Caller(actor="ops", scopes=frozenset({Scope.READ}), tenant=None, sees_all=True)
    assert len(await TenantFeed(fed.feed, everybody).events(PLATFORM, after=0, limit=9)) == 1
    one = Caller(actor="ann", scopes=frozenset({Scope.READ}), tenant=TENANT)
    with pytest.raises(PermissionError):
        await TenantFeed(fed.feed, one).events(PLATFORM, after=0, limit=9)

    async def read(**names: Any) -> int:
        page = await read_feed(
            fed.world.context,
            PLATFORM,
            after="earliest",
            event_filter=EventFilter(**names),
            limit=9,
            invalid=ValueError,
        )
        return len(page.events)

    assert [await read(), await read(types=frozenset({PublicType.QUOTA_CHANGED}))] == [1, 1]
    assert [await read(job_type="OCR"), await read(job_id="job_1"), await read(terminal=True)] == [0, 0, 0]


async def test_filters_find_what_concerns_a_job_or_a_type(fed: Fed) -> None:
    incident_id = await an_incident(fed.world, request_type="OCR", payload={})
    await ruled(fed.world, OCR, max_active=5)
    await fed.taken()

    async def ids(**names: Any) -> list[str]:
        page = await read_feed(
            fed.world.context,
            TENANT,
            after="earliest",
            event_filter=EventFilter(types=frozenset({PublicType.INCIDENT_OPENED, PublicType.QUOTA_CHANGED}), **names),
            limit=99,
            invalid=ValueError,
        )
        return [each["id"] for each in page.events]

    assert await ids(job_id=incident_id.removeprefix("inc_")) == [f"{incident_id}:1:0"]
    assert await ids(job_type="OCR") == [f"{incident_id}:1:0", f"{OCR.id}:1:0"]
    assert await ids(job_type="SIS") == []


async def test_nothing_is_done_for_it_where_events_are_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hint, no feed, and a gate of which nothing is left goes from its desk with the change."""
    world = limited(world, staging="on")
    assert (world.context.feed, world.context.hinting) == (None, None)
    await ruled(world, OCR, max_active=5)
    await quotas.delete_rule(world.context, world.orchestrations, OCR, OPERATOR, rule_seq=None)
    stored = await world.index.desks.read(TENANT)
    assert stored is not None
    assert OCR.id not in stored.desk.gates
    assert TENANT not in (await world.context.desks.directory()).tenants
    incident = await raised(world)
    await incidents.settle_incident(world.context, IncidentKind.BREAKER, incident.subject, "over")
    assert await world.index.incidents.list_open(after=None, limit=9) == []

    async def never(*args: Any, **options: Any) -> Any:
        raise AssertionError("the list of open incidents was read")

    monkeypatch.setattr(world.index.incidents, "list_open", never)
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)


# --- hints that are late, doubled, out of order or large


@pytest.mark.parametrize("order", ["doubled", "backwards", "one by one backwards", "without events", "the last alone"])
async def test_hints_in_any_order(fed: Fed, order: str) -> None:
    for number in (1, 2, 3):
        await ruled(fed.world, OCR, max_active=number)
    hints = await fed.hints()
    match order:
        case "doubled":
            await fed.taken(hints + hints)
            await fed.taken(hints)
        case "backwards":
            await fed.taken(hints[::-1])
        case "one by one backwards":
            for hint in hints[::-1]:
                await fed.taken([hint])
        case "without events":
            await fed.taken([replace(hint, events=None) for hint in hints])
        case _:
            await fed.taken(hints[-1:])
    assert await fed.ids() == [f"{OCR.id}:{seq}:0" for seq in (1, 2, 3)]


async def test_hints_that_follow_are_taken_as_they_are(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also past an entry that means nothing."""
    jobs = await opened(fed.world)
    await fed.taken()
    fed.world.clock.advance(MINUTE)
    await sweep(fed.world.context, fed.world.orchestrations)
    for job_id in jobs:
        await ends(fed.world, job_id, good=True)

    async def unread(*args: Any, **options: Any) -> Any:
        raise AssertionError("a log was read")

    monkeypatch.setattr(fed.world.index.desks, "log", unread)
    monkeypatch.setattr(fed.world.index.incidents, "log", unread)
    await fed.taken()
    assert [each for each in await types(fed) if each.startswith("breaker")] == ["breaker.opened", "breaker.closed"]


async def test_a_log_that_cannot_be_read_holds_up_no_other(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in (1, 2):
        await ruled(fed.world, OCR, max_active=number)
        await ruled(fed.world, SCANNER, max_active=number)
    hints = [hint for hint in await fed.hints() if hint.gate == SCANNER or hint.last == 2]
    real = fed.world.index.desks.log

    async def log(tenant: str, gate_id: str, *, after: int, limit: int) -> Any:
        raise LedgerUnavailable("away")

    monkeypatch.setattr(fed.world.index.desks, "log", log)
    await fed.taken(hints)
    assert await fed.ids() == [f"{SCANNER.id}:{seq}:0" for seq in (1, 2)]
    monkeypatch.setattr(fed.world.index.desks, "log", real)
    [(again, _)] = fed.queue.sent
    assert (again.gate, again.tries, again.events) == (OCR, 1, None)
    await fed.taken()
    assert (await fed.ids())[2:] == [f"{OCR.id}:{seq}:0" for seq in (1, 2)]


async def test_a_feed_begins_where_events_are_turned_on(world: World) -> None:
    """What was changed before is in no feed."""
    world = limited(world, staging="on")
    await ruled(world, OCR, max_active=1)
    incident = await raised(world)
    world.clock.advance(60)
    fed = of(world, MemoryFeed(since=world.clock.now()))
    await ruled(fed.world, OCR, max_active=2)
    await incidents.settle_incident(fed.world.context, IncidentKind.BREAKER, incident.subject, "over")
    await fed.taken()
    assert (await fed.ids(), await fed.ids(PLATFORM)) == ([f"{OCR.id}:2:0"], [f"{incident.id}:2:0"])


# --- what heals


async def lost(fed: Fed) -> None:
    assert await fed.hints()


@pytest.mark.parametrize("gate", [OCR, TENANT_GATE, EVERYBODY])
async def test_a_lost_hint_at_a_gate_comes_by_the_next_pass(fed: Fed, gate: Gate) -> None:
    """Of an awake tenant, and of the rules for every tenant; then nothing more is read or sent for it."""
    feed = PLATFORM if gate.tenant == EVERY else TENANT
    await posted(fed.world, 1)
    await ruled(fed.world, gate, max_active=5)
    await lost(fed)
    await swept(fed)
    assert await logs(fed, feed) == [f"{gate.id}:1:0"]
    await swept(fed)
    reads = counted_reads(fed)
    await swept(fed)
    assert (reads, await fed.hints()) == ([], [])


def counted_reads(fed: Fed) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    real = fed.feed.seen

    async def seen(tenant: str, key: str) -> int:
        found.append((tenant, key))
        return await real(tenant, key)

    fed.feed.seen = seen  # type: ignore[method-assign]
    return found


@pytest.mark.parametrize("gate", [OCR, SCANNER, TENANT_GATE])
async def test_the_last_change_of_a_gate_is_not_forgotten_before_its_feed_has_it(fed: Fed, gate: Gate) -> None:
    """Nothing is left of it, its tenant sleeps, and the hint is lost: desk and directory keep it until then."""
    await ruled(fed.world, gate, max_active=5)
    await fed.taken()
    await quotas.delete_rule(fed.world.context, fed.world.orchestrations, gate, OPERATOR, rule_seq=None)
    await lost(fed)
    assert TENANT in (await fed.world.context.desks.directory()).tenants
    await swept_at_the_hour(fed)
    assert await logs(fed) == [f"{gate.id}:1:0", f"{gate.id}:2:0"]
    await swept_at_the_hour(fed)
    stored = await fed.world.index.desks.read(TENANT)
    assert stored is not None
    assert [*stored.desk.gates] == ([gate.id] if gate is TENANT_GATE else [])
    assert TENANT not in (await fed.world.context.desks.directory()).tenants
    # what comes later goes on in the log
    await ruled(fed.world, gate, max_active=6)
    await fed.taken()
    assert (await logs(fed))[2:] == [f"{gate.id}:3:0"]


async def test_a_gate_that_is_changed_again_is_not_forgotten(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race last-rule: between the sweeper's look at the desk and its write somebody sets another rule."""
    await ruled(fed.world, OCR, max_active=5)
    await quotas.delete_rule(fed.world.context, fed.world.orchestrations, OCR, OPERATOR, rule_seq=None)
    await fed.taken()
    real = fed.feed.seen

    async def seen(tenant: str, key: str) -> int:
        monkeypatch.setattr(fed.feed, "seen", real)
        await ruled(fed.world, OCR, max_active=7)
        return await real(tenant, key)

    monkeypatch.setattr(fed.feed, "seen", seen)
    await swept_at_the_hour(fed)
    stored = await fed.world.index.desks.read(TENANT)
    assert stored is not None
    assert stored.desk.state(OCR).max_active == 7
    assert TENANT in (await fed.world.context.desks.directory()).tenants
    assert await logs(fed) == [f"{OCR.id}:{seq}:0" for seq in (1, 2, 3)]


async def test_a_desk_keeps_no_more_gates_than_it_has_room_for(fed: Fed) -> None:
    for number in range(MAX_RULES + 5):
        gate = Gate(GateKind.SOURCE, TENANT, f"s{number}")
        await ruled(fed.world, gate, max_active=5)
        await quotas.delete_rule(fed.world.context, fed.world.orchestrations, gate, OPERATOR, rule_seq=None)
    stored = await fed.world.index.desks.read(TENANT)
    assert stored is not None
    assert len(stored.desk.gates) <= MAX_RULES
    await fed.taken()
    assert len(await logs(fed)) == 2 * (MAX_RULES + 5)


async def test_a_pass_whose_time_is_over_compares_nothing_more(fed: Fed) -> None:
    """What is left is the next one's."""
    await ruled(fed.world, EVERYBODY, max_active=5)
    await lost(fed)
    reads = counted_reads(fed)
    for is_over, expected in ((True, []), (False, [(PLATFORM, EVERYBODY.id)])):
        await compare_logs(fed.world.context, Share(), [], lambda is_over=is_over: is_over, whole=True)
        assert reads == expected


@pytest.mark.parametrize("kind", ["job", "of no job", "platform"])
async def test_lost_hints_at_an_incident(fed: Fed, kind: str) -> None:
    """It stands in the list of open ones until its feed has its end, and nobody is shown it there."""

    async def begin() -> str:
        if kind == "job":
            return await an_incident(fed.world)
        return (await raised(fed.world, tenant=TENANT if kind == "of no job" else None)).id

    feed = PLATFORM if kind == "platform" else TENANT
    incident_id = await begin()
    await lost(fed)
    await swept(fed)
    assert await logs(fed, feed) == [f"{incident_id}:1:0"]
    await resolve(fed.world, incident_id)
    await lost(fed)
    assert await listed(fed.world) == []
    assert len(await fed.world.index.incidents.list_open(after=None, limit=9)) == 1
    await swept(fed)
    assert await logs(fed, feed) == [f"{incident_id}:1:0", f"{incident_id}:2:0"]
    await swept(fed)
    assert await fed.world.index.incidents.list_open(after=None, limit=9) == []


async def test_who_settles_a_jobs_incident_dies_before_anybody_knows(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list says open: the pass of the hour reads the incident itself."""
    incident_id = await an_incident(fed.world)
    await fed.taken()

    async def dies(*args: Any, **options: Any) -> Any:
        raise LedgerUnavailable("died")

    with monkeypatch.context() as patched:
        patched.setattr(fed.world.index.incidents, "enter_open", dies)
        with pytest.raises(LedgerUnavailable):
            await resolve(fed.world, incident_id)
    await lost(fed)
    await swept_at_the_hour(fed)
    assert (await logs(fed))[-1] == f"{incident_id}:2:0"
    await swept_at_the_hour(fed)
    assert await fed.world.index.incidents.list_open(after=None, limit=9) == []


class Mortal:
    """A port of a process that dies before or after so many calls of its ports; then it does nothing more."""

    def __init__(self, target: Any, calls: list[int], dies_after: bool) -> None:
        self._target, self._calls, self._dies_after = target, calls, dies_after

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            self._calls[0] -= 1
            if self._calls[0] < 0 or (self._calls[0] == 0 and not self._dies_after):
                raise LedgerUnavailable("dead")
            answer = await getattr(self._target, name)(*args, **options)
            if self._calls[0] == 0:
                raise LedgerUnavailable("dead")
            return answer

        return call


async def whole(fed: Fed, *gates: Gate) -> None:
    """Each feed has what the logs mean, each once and in order."""
    for gate in gates:
        log = await fed.world.index.desks.log(gate.tenant, gate.id, after=0, limit=1000)
        expected = [each["id"] for entry in log for each in gate_events(entry, gate)]
        found = await logs(fed, feed_of(gate.tenant))
        assert [each for each in found if each.startswith(f"{gate.id}:")] == expected
    for rows in fed.world.index.incidents._rows.values():
        for incident in rows.values():
            log_of = await fed.world.index.incidents.log(incident, after=0, limit=1000)
            expected = [each["id"] for entry in log_of for each in incident_events(entry, incident)]
            found = await logs(fed, feed_of(incident.tenant))
            assert [each for each in found if each.startswith(f"{incident.id}:")] == expected


@pytest.mark.parametrize("dies_after", [False, True])
@pytest.mark.parametrize("act", ["set", "delete", "default", "resolve", "retry", "raise", "settle"])
async def test_a_process_that_dies_at_any_call(world: World, act: str, dies_after: bool) -> None:
    """And takes the hints with it that it had noted: within two hours each feed has what was logged."""
    for number in range(1, 100):
        fed = of(limited(built(MemoryLedger()), staging="on"))
        await ruled(fed.world, OCR, max_active=5)
        incident_id, of_no_job = await an_incident(fed.world), await raised(fed.world)
        await fed.taken()
        calls = [number]
        ports: Any = {
            name: Mortal(getattr(fed.world.context, name), calls, dies_after)
            for name in ("index", "desks", "incidents", "ledger")
        }
        dying = replace(fed.world, context=replace(fed.world.context, **ports, gates=GateDirectory()))
        acts: dict[str, Callable[[], Awaitable[Any]]] = {
            "set": partial(ruled, dying, OCR, max_active=6),
            "delete": partial(quotas.delete_rule, dying.context, dying.orchestrations, OCR, OPERATOR, rule_seq=None),
            "default": partial(ruled, dying, EVERYBODY, max_active=6),
            "resolve": partial(resolve, dying, incident_id),
            "retry": partial(retry, dying, incident_id),
            "raise": partial(raised, dying, "another", TENANT),
            "settle": partial(
                incidents.settle_incident, dying.context, IncidentKind.BREAKER, of_no_job.subject, "over"
            ),
        }
        with contextlib.suppress(LedgerUnavailable, ExceptionGroup):
            await acts[act]()
        await fed.hints()  # lost
        for _ in range(2):
            await swept_at_the_hour(fed)
        await whole(fed, OCR, EVERYBODY)
        if calls[0] > 0:
            assert number > 1
            return
    raise AssertionError("it never came to its end")


async def test_a_job_goes_after_its_incidents_events(world: World) -> None:
    """Its rows stay while the feed is behind its incident, and its mark in the feed goes with them."""
    settings = replace(world.context.settings, retention_days=1, idempotency_ttl_days=1)
    fed, queue = refusing(replace(world, context=replace(world.context, settings=settings)))
    incident_id = await an_incident(fed.world)
    await fed.taken()
    states = fed.world.orchestrations.states
    states.update(dict.fromkeys(states, InstanceState.ENDED))
    queue.refuses = True
    await resolve(fed.world, incident_id)
    await swept(fed, 3700)
    await swept(fed, 25 * 3600)
    assert fed.world.archive.kept == {}
    queue.refuses = False
    for _ in range(4):
        await swept(fed, 3700)
    assert len(fed.world.archive.kept) == 1
    assert await logs(fed) == [f"{incident_id}:1:0", f"{incident_id}:2:0"]
    assert (TENANT, job_incident_id(incident_id.removeprefix("inc_"))) not in fed.feed._seen
    await fed.taken([hint for hint, _ in queue.sent])
    assert len(await logs(fed)) == 2


async def test_old_events_of_no_tenant_go_too(fed: Fed) -> None:
    """And those of a tenant that has gates and never had a job."""
    await ruled(fed.world, EVERYBODY, max_active=5)
    await ruled(fed.world, Gate(GateKind.TENANT, "tenant_z"), max_active=5)
    await fed.taken()
    for tenant in (PLATFORM, "tenant_z"):
        fed.feed._events[tenant] = [
            replace(each, at=fed.world.clock.now()) for each in await fed.feed.events(tenant, after=0, limit=9)
        ]
    fed.world.clock.advance(8 * 86400)
    assert await prune_feeds(fed.world.context) == 2
