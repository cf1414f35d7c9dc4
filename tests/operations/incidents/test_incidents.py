"""Incidents of jobs, breakers and services: opened once, settled once, with a log of both (R63, R64)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from shared.core.filters import IncidentFilter
from shared.core.incidents import Incident, IncidentKind, IncidentState, job_incident_id
from shared.core.registry import Registry
from shared.errors import LedgerUnavailable
from shared.operations.incidents import incidents
from shared.operations.jobs.dead_letters import dismiss_dead_letter
from shared.operations.sweeper.sweep import sweep
from shared.refusals import IncidentNoJob, IncidentNotFound, IncidentSettled, NotRedrivable
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.interleave import Meeting, every_order
from tests.operations.support import by, limited, redrive, service_sends
from tests.worlds.incidents import (
    BREAKER,
    EXHAUSTED,
    OPEN,
    an_incident,
    dismiss,
    failed,
    given,
    letters,
    listed,
    log_of,
    raised,
    resolve,
    retry,
)

Act = Callable[[World, str], Coroutine[Any, Any, Any]]


async def test_the_end_of_a_job_for_such_a_reason_is_an_incident(world: World) -> None:
    """With the reason, in its tenant's list and in that of all; a document's own fault and a success open none."""
    faulty, fine = await given(world, 2)
    await failed(world, faulty, error={"code": "PDF_ENCRYPTED", "message": "locked"})
    incident_id = await an_incident(world)
    found = await incidents.read_incident(world.context, incident_id)
    assert (found.kind, found.tenant, found.code, found.detail, found.state) == (
        *("JOB", "tenant_a", "ATTEMPTS_EXHAUSTED", "every attempt timed out"),
        IncidentState.OPEN,
    )
    assert found.opened_at == (await world.job(found.subject)).job.completed_at
    for requested in (OPEN, IncidentFilter(), IncidentFilter(tenant_id=" Tenant_A ")):
        assert await listed(world, requested) == [incident_id]
    assert await log_of(world, incident_id) == [("OPENED", "system", "ATTEMPTS_EXHAUSTED")]
    for nothing in (job_incident_id(faulty), job_incident_id(fine), "inc_none", "none", f"inc_{1:013d}_{'0' * 16}"):
        with pytest.raises(IncidentNotFound):
            await incidents.read_incident(world.context, nothing)


async def test_a_protocol_names_the_reasons(world: World) -> None:
    """Its own reasons replace the default ones; the job keeps them after changes of its protocol, and a redrive too."""

    def naming(*codes: str) -> World:
        own = Registry(
            replace(each, definition=each.definition.model_copy(update={"escalate": codes}))
            for each in world.context.registry
        )
        return replace(world, context=replace(world.context, registry=own))

    [own, usual] = await given(naming("PDF_ENCRYPTED"), 2)
    [quiet] = await given(naming())
    await failed(world, own, error={"code": "PDF_ENCRYPTED", "message": "locked"})
    await failed(world, usual, quiet)
    assert await listed(world) == [job_incident_id(own)]
    again = (await redrive(world, own)).stored.record.job
    assert again.escalate == ["PDF_ENCRYPTED"]


@pytest.mark.parametrize("gated", [False, True])
async def test_killed_at_its_end_it_is_opened_once(world: World, gated: bool) -> None:
    """Before the transaction that ends the job in the index, or after it: the next delivery, and any later one,
    leave one incident, in the list of open ones."""
    if gated:
        world = limited(world, max_inflight_per_tenant=5, overflow="stage")
    before, after = await given(world, 2)
    for job_id in (before, after):
        with failing(world.index, "close", after=job_id == after), pytest.raises(LedgerUnavailable):
            await failed(world, job_id)
        assert await listed(world) == ([] if job_id == before else [job_incident_id(before)])
        for _ in range(2):
            error: dict[str, Any] = {"type_": "RESULT", "number": 1, "status": "FAILED_FINAL", "error": EXHAUSTED}
            await service_sends(world, job_id, **error, result_ref=None)
    assert await listed(world) == [job_incident_id(after), job_incident_id(before)]
    for job_id in (before, after):
        assert await log_of(world, job_incident_id(job_id)) == [("OPENED", "system", "ATTEMPTS_EXHAUSTED")]


async def test_the_sweeper_lists_an_incident_that_the_end_could_not_list(world: World) -> None:
    """The list refuses the row: the end of the job does not wait for it, and the next sweep but one repairs it."""
    [job_id] = await given(world, 1)
    with failing(world.context.incidents, "enter_open", at=[1]):
        await failed(world, job_id)
    assert await world.index.read_active("tenant_a", job_id) is None
    assert await listed(world) == []
    world.clock.advance(61)
    await sweep(world.context, world.orchestrations)
    assert await listed(world) == [job_incident_id(job_id)]


async def test_a_repeated_end_opens_nothing_again(world: World) -> None:
    """Settled meanwhile it stays so, and is not listed."""
    incident_id = await an_incident(world)
    await dismiss(world, incident_id)
    job_id = (await incidents.read_incident(world.context, incident_id)).subject
    await service_sends(world, job_id, "RESULT", 1, status="FAILED_FINAL", error=EXHAUSTED, result_ref=None)
    assert (await incidents.read_incident(world.context, incident_id)).state is IncidentState.DISMISSED
    assert await listed(world) == []


@pytest.mark.parametrize(
    ("act", "state", "reason"),
    [(resolve, "RESOLVED", "repaired"), (dismiss, "DISMISSED", "known"), (retry, "RETRIED", "again")],
)
async def test_what_somebody_does_is_done_once(world: World, act: Act, state: str, reason: str) -> None:
    """A repetition changes nothing; any other action is refused, and the first stays."""
    incident_id = await an_incident(world)
    world.clock.advance(5)
    first: Incident = await act(world, incident_id)
    assert (first.state.value, first.settled_by, first.reason, first.settled_at) == (
        *(state, "caller", reason),
        world.clock.now(),
    )
    world.clock.advance(5)
    assert await act(world, incident_id) == first
    for other in (resolve, dismiss, retry):
        if other is not act:
            with pytest.raises(IncidentSettled, match=state):
                await other(world, incident_id)
    assert await log_of(world, incident_id) == [
        ("OPENED", "system", "ATTEMPTS_EXHAUSTED"),
        (state, "caller", reason),
    ]
    assert await listed(world) == []
    assert await listed(world, IncidentFilter(states=frozenset({first.state}))) == [incident_id]
    assert await letters(world) == ([first.subject] if act is resolve else [])
    assert (first.retried_by is not None) == (act is retry)


async def test_a_retry_is_a_redrive(world: World) -> None:
    """The incident has the new job; a job that cannot be redriven cannot be retried, for the same reason."""
    incident_id = await an_incident(world)
    incident, created = await incidents.retry_incident(world.context, world.orchestrations, incident_id, by("again"))
    new = created.stored.record.job
    assert (incident.retried_by, new.redrive_of, created.replayed) == (new.job_id, incident.subject, False)
    with pytest.raises(NotRedrivable) as live:
        await retry(world, job_incident_id(new.job_id))
    assert live.value.code == "JOB_LIVE"
    with pytest.raises(IncidentNotFound):
        await resolve(world, job_incident_id(new.job_id))
    with pytest.raises(IncidentNotFound):
        await retry(world, "inc_job_none")
    await failed(world, new.job_id)
    assert await listed(world) == [job_incident_id(new.job_id)]


async def test_any_redrive_settles_it(world: World) -> None:
    """By any caller, with the dead letter; a dismissed letter settles its incident."""
    redriven, dismissed = await failed(world, *await given(world, 2))
    new = (await redrive(world, redriven.removeprefix("inc_"))).stored.record.job.job_id
    found = await incidents.read_incident(world.context, redriven)
    assert (found.state, found.retried_by, found.settled_by) == (IncidentState.RETRIED, new, "caller")
    await dismiss_dead_letter(world.context, dismissed.removeprefix("inc_"), by("known"))
    assert (await incidents.read_incident(world.context, dismissed)).state is IncidentState.DISMISSED
    assert (await listed(world), await letters(world)) == ([], [])


async def test_a_resolved_incident_stays_so(world: World) -> None:
    """Its job is a dead letter until it is redriven or dismissed, and neither changes the resolution."""
    first, second = await failed(world, *await given(world, 2))
    for each in (first, second):
        await resolve(world, each)
    await redrive(world, first.removeprefix("inc_"))
    await dismiss_dead_letter(world.context, second.removeprefix("inc_"), by("known"))
    for each in (first, second):
        assert (await incidents.read_incident(world.context, each)).state is IncidentState.RESOLVED
    assert await letters(world) == []


@pytest.mark.parametrize("late", ["an act", "a second redrive", "the sweeper"])
async def test_a_redrive_that_died_is_finished_later(world: World, late: str) -> None:
    """Killed between the old job's mark and its dead letter: the next caller settles the incident as retried."""
    incident_id = await an_incident(world)
    job_id = incident_id.removeprefix("inc_")
    with failing(world.index, "end_dead_letter"), pytest.raises(LedgerUnavailable):
        await redrive(world, job_id)
    if late == "the sweeper":
        world.clock.advance(90)
        await sweep(world.context, world.orchestrations)
    elif late == "a second redrive":
        await redrive(world, job_id)
    else:
        with pytest.raises(IncidentSettled):
            await dismiss(world, incident_id)
    found = await incidents.read_incident(world.context, incident_id)
    assert (found.state, found.retried_by) == (IncidentState.RETRIED, (await world.job(job_id)).job.redriven_by)
    assert (await listed(world), await letters(world)) == ([], [])


def test_in_every_order_one_act_settles_it() -> None:
    """Race incident: a dismissal, a retry and the repeated end of the job; one action stays, its letter and the list of
    open ones agree with it, and the other is refused or finds it done.
    """

    async def scenario(meeting: Meeting) -> None:
        incident_id = await an_incident(meeting.world)
        job_id = incident_id.removeprefix("inc_")
        world = meeting.world
        again = service_sends(world, job_id, "RESULT", 1, status="FAILED_FINAL", error=EXHAUSTED, result_ref=None)
        ended = await meeting.at_once(dismiss=dismiss(world, incident_id), redrive=redrive(world, job_id), again=again)
        found = await incidents.read_incident(world.context, incident_id)
        assert found.state in (IncidentState.DISMISSED, IncidentState.RETRIED)
        assert ended["redrive"].error is None
        if found.state is IncidentState.RETRIED:
            assert isinstance(ended["dismiss"].error, IncidentSettled)
        else:
            assert ended["dismiss"].error is None
        assert len(await log_of(world, incident_id)) == 2
        assert (await listed(world), await letters(world)) == ([], [])

    every_order(scenario, interruptions=1)


@pytest.mark.parametrize(("act", "state"), [(resolve, "RESOLVED"), (dismiss, "DISMISSED"), (retry, "RETRIED")])
def test_killed_at_any_call_an_act_is_done_once(act: Act, state: str) -> None:
    """Before its first call to its last: an open incident is listed, and the same act, again, leaves one entry."""

    async def scenario(meeting: Meeting, call: int, finished: list[int]) -> None:
        incident_id = await an_incident(meeting.world)
        world, meeting.killed = meeting.world, ("one", call)
        ended = await meeting.at_once(one=act(world, incident_id))
        meeting.killed = None
        if ended["one"].error is None:
            finished.append(call)
        found = await incidents.read_incident(world.context, incident_id)
        assert (await listed(world) == [incident_id]) == found.is_open
        assert (await act(world, incident_id)).state.value == state
        assert [type_ for type_, _, _ in await log_of(world, incident_id)] == ["OPENED", state]
        assert await listed(world) == []

    finished: list[int] = []
    for call in range(1, 60):
        every_order(lambda meeting, call=call: scenario(meeting, call, finished), interruptions=0)  # type: ignore[misc]
        if finished:
            break
    assert finished[0] > 3


async def test_a_breaker_or_a_service_has_one_open_incident(world: World) -> None:
    """Raised again it is the same; settled by itself, the next one is another; a job's comes with its end alone."""
    first = await raised(world)
    world.clock.advance(5)
    assert await raised(world) == first
    other = await incidents.raise_incident(
        world.context, IncidentKind.SERVICE, first.subject, tenant=None, code="SERVICE_SILENT"
    )
    assert await listed(world) == [other.id, first.id]
    settled = await incidents.settle_incident(world.context, BREAKER, first.subject, "closed")
    assert settled is not None
    assert (settled.state, settled.settled_by, settled.reason) == (IncidentState.RESOLVED, "system", "closed")
    assert await incidents.settle_incident(world.context, BREAKER, first.subject, "closed") is None
    world.clock.advance(5)
    second = await raised(world)
    assert (second.id != first.id, await listed(world)) == (True, [second.id, other.id])
    assert await log_of(world, first.id) == [("OPENED", "system", "BREAKER_OPENED"), ("RESOLVED", "system", "closed")]
    with pytest.raises(IncidentNoJob):
        await retry(world, second.id)
    assert (await dismiss(world, second.id)).state is IncidentState.DISMISSED
    assert (await resolve(world, other.id)).state is IncidentState.RESOLVED
    with pytest.raises(ValueError, match="kind JOB"):
        await incidents.raise_incident(world.context, IncidentKind.JOB, "job_1", tenant=None, code="X")
