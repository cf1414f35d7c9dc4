"""Lost hints of logs of quotas and incidents: the sweeper sends them again, and compared entries stay (R79)."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from shared.core.events.public_log_events import feed_of, gate_events, incident_events
from shared.core.gates import changes
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.incidents import IncidentKind, job_incident_id
from shared.core.jobs.routing import PLATFORM
from shared.errors import LedgerUnavailable
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.incidents import incidents
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.quotas import quotas
from shared.operations.sweeper.logs import compare_logs
from shared.ports.durable import InstanceState
from shared.ports.sweeps import SweeperShare
from tests.contexts import changed
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import World, built
from tests.operations.faults import failing, meanwhile, noted
from tests.operations.support import limited
from tests.worlds.events import TENANT, Fed, fed, logs, of, refusing, swept, swept_at_the_hour
from tests.worlds.gates import EVERYBODY, OCR, OPERATOR, SCANNER, posted, ruled, world
from tests.worlds.gates import TENANT as TENANT_GATE
from tests.worlds.incidents import an_incident, listed, raised, resolve, retry

__all__ = ["fed", "world"]  # fixtures


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
    reads = noted(fed.feed, "read_seen")
    await swept(fed)
    assert (reads, await fed.hints()) == ([], [])


@pytest.mark.parametrize("gate", [OCR, SCANNER, TENANT_GATE])
async def test_the_last_change_of_a_gate_is_not_forgotten_before_its_feed_has_it(fed: Fed, gate: Gate) -> None:
    """Nothing is left of it, its tenant sleeps, and the hint is lost: admission state and directory keep it until
    then.
    """
    await ruled(fed.world, gate, max_active=5)
    await fed.taken()
    await quotas.delete_rule(fed.world.context, fed.world.orchestrations, gate, OPERATOR, rule_seq=None)
    await lost(fed)
    assert TENANT in (await fed.world.context.admissions.directory()).tenants
    await swept_at_the_hour(fed)
    assert await logs(fed) == [f"{gate.id}:1:0", f"{gate.id}:2:0"]
    await swept_at_the_hour(fed)
    stored = fed.world.index.admissions.admissions[TENANT]
    assert [*stored.admission.gates] == ([gate.id] if gate is TENANT_GATE else [])
    assert TENANT not in (await fed.world.context.admissions.directory()).tenants
    # later entries continue the log
    await ruled(fed.world, gate, max_active=6)
    await fed.taken()
    assert (await logs(fed))[2:] == [f"{gate.id}:3:0"]


async def test_a_gate_that_is_changed_again_is_not_forgotten(fed: Fed) -> None:
    """Race last-rule: an operator sets another rule between the sweeper's read of the admission state and its write."""
    await ruled(fed.world, OCR, max_active=5)
    await quotas.delete_rule(fed.world.context, fed.world.orchestrations, OCR, OPERATOR, rule_seq=None)
    await fed.taken()
    meanwhile(fed.feed, "read_seen", lambda: ruled(fed.world, OCR, max_active=7))
    await swept_at_the_hour(fed)
    stored = fed.world.index.admissions.admissions[TENANT]
    assert stored.admission.state(OCR).max_active == 7
    assert TENANT in (await fed.world.context.admissions.directory()).tenants
    assert await logs(fed) == [f"{OCR.id}:{seq}:0" for seq in (1, 2, 3)]


async def test_a_admission_keeps_no_more_gates_than_it_has_room_for(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "MAX_RULES", 4)
    for number in range(9):
        gate = Gate(GateKind.SOURCE, TENANT, f"s{number}")
        await ruled(fed.world, gate, max_active=5)
        await quotas.delete_rule(fed.world.context, fed.world.orchestrations, gate, OPERATOR, rule_seq=None)
    stored = fed.world.index.admissions.admissions[TENANT]
    assert len(stored.admission.gates) <= 4
    await fed.taken()
    assert len(await logs(fed)) == 2 * 9


async def test_a_pass_whose_time_is_over_compares_nothing_more(fed: Fed) -> None:
    """The next sweep compares the rest."""
    await ruled(fed.world, EVERYBODY, max_active=5)
    await lost(fed)
    reads = noted(fed.feed, "read_seen")
    for is_over, expected in ((True, []), (False, [("read_seen", PLATFORM, EVERYBODY.id)])):
        await compare_logs(fed.world.context, SweeperShare(), [], lambda is_over=is_over: is_over, whole=True)
        assert reads == expected


@pytest.mark.parametrize("kind", ["job", "of no job", "platform"])
async def test_lost_hints_at_an_incident(fed: Fed, kind: str) -> None:
    """The incident stays in the list of open ones until its feed has its end, and no reader sees it there."""

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


async def test_who_settles_a_jobs_incident_dies_before_anybody_knows(fed: Fed) -> None:
    """The list has it as open: the hourly sweep reads the incident itself."""
    incident_id = await an_incident(fed.world)
    await fed.taken()
    with failing(fed.world.index.incidents, "enter_open"), pytest.raises(LedgerUnavailable):
        await resolve(fed.world, incident_id)
    await lost(fed)
    await swept_at_the_hour(fed)
    assert (await logs(fed))[-1] == f"{incident_id}:2:0"
    await swept_at_the_hour(fed)
    assert await fed.world.index.incidents.list_open(after=None, limit=9) == []


class Mortal:
    """A port of a process that dies before call number `calls` of its ports; then it does nothing more."""

    def __init__(self, target: Any, calls: list[int]) -> None:
        self._target, self._calls = target, calls

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            self._calls[0] -= 1
            if self._calls[0] <= 0:
                raise LedgerUnavailable("dead")
            return await getattr(self._target, name)(*args, **options)

        return call


async def whole(fed: Fed, *gates: Gate) -> None:
    """Checks that each feed has the events of the logs, each once and in order."""
    for gate in gates:
        log = await fed.world.index.admissions.log(gate.tenant, gate.id, after=0, limit=1000)
        expected = [each["id"] for entry in log for each in gate_events(entry, gate)]
        found = await logs(fed, feed_of(gate.tenant))
        assert [each for each in found if each.startswith(f"{gate.id}:")] == expected
    for incident in fed.world.index.incidents.all:
        log_of = await fed.world.index.incidents.log(incident, after=0, limit=1000)
        expected = [each["id"] for entry in log_of for each in incident_events(entry, incident)]
        found = await logs(fed, feed_of(incident.tenant))
        assert [each for each in found if each.startswith(f"{incident.id}:")] == expected


@pytest.mark.parametrize("act", ["set", "delete", "default", "resolve", "retry", "raise", "settle"])
async def test_a_process_that_dies_at_any_call(act: str) -> None:
    """Its hints are lost with it: within two hours each feed has the logged events."""
    for number in range(1, 100):
        fed = of(limited(built(MemoryLedger())))
        await ruled(fed.world, OCR, max_active=5)
        incident_id, of_no_job = await an_incident(fed.world), await raised(fed.world)
        await fed.taken()
        calls = [number]
        ports: Any = {
            name: Mortal(getattr(fed.world.context, name), calls)
            for name in ("index", "admissions", "incidents", "ledger")
        }
        dying = replace(fed.world, context=changed(fed.world.context, **ports, gate_directory=GateDirectory()))
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
    """Its rows stay while the feed lacks its incident's events, and its mark in the feed is deleted with them."""
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
    assert await fed.feed.read_seen(TENANT, job_incident_id(incident_id.removeprefix("inc_"))) == 0
    await fed.taken([hint for hint, _ in queue.sent])
    assert len(await logs(fed)) == 2


async def test_old_events_of_no_tenant_go_too(fed: Fed) -> None:
    """Events of a tenant with gates and without jobs are deleted too."""
    await ruled(fed.world, EVERYBODY, max_active=5)
    await ruled(fed.world, Gate(GateKind.TENANT, "tenant_z"), max_active=5)
    await fed.taken()
    for tenant in (PLATFORM, "tenant_z"):
        now = fed.world.clock.now()
        fed.feed.put_events(tenant, [replace(each, at=now) for each in fed.feed.events_of(tenant)])
    fed.world.clock.advance(8 * 86400)
    assert await prune_feeds(fed.world.context) == 2
