"""Gates, breakers and incidents in the feeds: each public event of their logs once and in order (R78)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared.access.caller import Caller, Scope
from shared.adapters.scoped.stores import TenantFeed
from shared.core.events.event_types import PublicType
from shared.core.gates.rules import Gate, GateKind
from shared.core.incidents import IncidentKind
from shared.core.jobs.routing import PLATFORM
from shared.operations.events.read_feed import EventFilter, read_feed
from shared.operations.gates.find_gate import find_gate
from shared.operations.incidents import incidents
from shared.operations.quotas import quotas
from shared.operations.sweeper.sweep import sweep
from shared.refusals import QuotaInvalid
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import redrive
from tests.worlds.events import TENANT, Fed, fed, logs, of, swept, types
from tests.worlds.gates import EVERYBODY, MINUTE, OCR, OPERATOR, ends, held, opened, resumed, ruled, world
from tests.worlds.incidents import an_incident, dismiss, raised, resolve, retry

__all__ = ["fed", "world"]  # fixtures


async def test_what_people_change_at_a_gate(fed: Fed) -> None:
    """Actor and reason, before and after; a change without effect is no event."""
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
    """Ends of jobs open it, the sweeper opens its incident, an operator resets it, and both end."""
    await opened(fed.world, waiting=0)
    await swept(fed)
    await quotas.reset_breaker(fed.world.context, fed.world.orchestrations, OCR, OPERATOR)
    await fed.taken()
    expected = ["quota.changed", *["incident.opened"] * 2, "breaker.opened", "incident.opened"]
    assert sorted(await types(fed)) == sorted([*expected, "breaker.closed", "incident.resolved"])
    in_order = [each for each in await types(fed) if each.startswith("breaker") or each == "incident.resolved"]
    assert in_order == ["breaker.opened", "breaker.closed", "incident.resolved"]


async def test_a_breaker_that_time_and_good_ends_close(fed: Fed) -> None:
    """Half-open is no event; the process that admits the next jobs writes the hint for the transition by time."""
    jobs = await opened(fed.world)
    fed.world.clock.advance(MINUTE)
    await swept(fed)
    for job_id in jobs:
        await ends(fed.world, job_id, good=True)
    await fed.taken()
    breaker = [each for each in await types(fed) if each.startswith("breaker")]
    assert breaker == ["breaker.opened", "breaker.closed"]
    log = await fed.world.context.admissions.log(TENANT, OCR.id, after=0, limit=100)
    assert [each.type for each in log][1:] == ["BREAKER_OPENED", "BREAKER_HALF_OPEN", "BREAKER_CLOSED"]


async def test_an_incident_of_a_job(fed: Fed) -> None:
    """The job's end opens it, with the job's id; its settlement is one event that names the action."""
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
    """Rules for each tenant, gates over all tenants and their incidents are in the feed of `=platform`."""
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
    """Callers of all tenants read it; filters by job omit its events."""
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


async def test_nothing_is_done_for_it_where_events_are_off(world: World) -> None:
    """There is no hint and no feed, and the change removes an unset gate from its admission state."""
    assert world.context.events is None
    await ruled(world, OCR, max_active=5)
    await quotas.delete_rule(world.context, world.orchestrations, OCR, OPERATOR, rule_seq=None)
    stored = world.index.admissions.admissions[TENANT]
    assert OCR.id not in stored.admission.gates
    assert TENANT not in (await world.context.admissions.directory()).tenants
    incident = await raised(world)
    await incidents.settle_incident(world.context, IncidentKind.BREAKER, incident.subject, "over")
    assert await world.index.incidents.list_open(after=None, limit=9) == []
    failing(world.index.incidents, "list_open", error=AssertionError("the list of open incidents was read"))
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)


# --- hints without their events: the log is read, as the rows of a job are (test_feed.py)


@pytest.mark.parametrize("given", ["without events", "the last alone"])
async def test_hints_whose_log_is_read(fed: Fed, given: str) -> None:
    for number in (1, 2, 3):
        await ruled(fed.world, OCR, max_active=number)
    hints = await fed.hints()
    await fed.taken(hints[-1:] if given == "the last alone" else [replace(hint, events=None) for hint in hints])
    assert await fed.ids() == [f"{OCR.id}:{seq}:0" for seq in (1, 2, 3)]


async def test_hints_that_follow_are_taken_as_they_are(fed: Fed) -> None:
    """Also past an entry that means nothing."""
    # the first pass compares all logs
    await sweep(fed.world.context, fed.world.orchestrations)
    jobs = await opened(fed.world)
    await fed.taken()
    fed.world.clock.advance(MINUTE)
    await sweep(fed.world.context, fed.world.orchestrations)
    for job_id in jobs:
        await ends(fed.world, job_id, good=True)

    for log in (fed.world.index.admissions, fed.world.index.incidents):
        failing(log, "log", error=AssertionError("a log was read"))
    await fed.taken()
    assert [each for each in await types(fed) if each.startswith("breaker")] == ["breaker.opened", "breaker.closed"]


async def test_a_feed_begins_where_events_are_turned_on(world: World) -> None:
    """Earlier changes are in no feed."""
    await ruled(world, OCR, max_active=1)
    incident = await raised(world)
    world.clock.advance(60)
    fed = of(world, MemoryFeed(since=world.clock.now()))
    await ruled(fed.world, OCR, max_active=2)
    await incidents.settle_incident(fed.world.context, IncidentKind.BREAKER, incident.subject, "over")
    await fed.taken()
    assert (await fed.ids(), await fed.ids(PLATFORM)) == ([f"{OCR.id}:2:0"], [f"{incident.id}:2:0"])
