"""Incidents of jobs, breakers and services: opened once, settled once, listed while they are open (R63, R64)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.chained_log import entry_hash
from shared.core.filters import IncidentFilter, JobFilter
from shared.core.incidents import (
    MAX_DETAIL,
    Incident,
    IncidentKind,
    IncidentState,
    Settlement,
    job_incident_id,
)
from shared.core.registry import Registry
from shared.errors import LedgerUnavailable
from shared.operations import incidents
from shared.operations import list_jobs as lists
from shared.operations.dead_letters import dismiss_dead_letter, list_dead_letters
from shared.operations.sweeper.comparison import compare_dead_letters
from shared.operations.sweeper.logs import compare_incidents
from shared.operations.sweeper.sweep import sweep
from shared.ports.sweeps import Share
from shared.refusals import IncidentNoJob, IncidentNotFound, IncidentSettled, NotRedrivable
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.interleave import Meeting, every_order
from tests.operations.support import by, dispatch, limited, redrive, service_sends, submitted

EXHAUSTED = {"code": "ATTEMPTS_EXHAUSTED", "message": "every attempt timed out"}
OPEN = IncidentFilter(states=frozenset({IncidentState.OPEN}))
BREAKER = IncidentKind.BREAKER

Act = Callable[[World, str], Coroutine[Any, Any, Any]]


async def given(world: World, count: int = 1, **changes: Any) -> list[str]:
    ids = []
    for _ in range(count):
        world.clock.advance(60)
        ids.append(await submitted(world, idempotency_key=world.clock.now().isoformat(), **changes))
    return ids


async def failed(world: World, *job_ids: str, error: dict[str, str] = EXHAUSTED) -> list[str]:
    """Their incidents' ids; a second apart, the last one last."""
    for job_id in job_ids:
        world.clock.advance(1)
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", 1, status="FAILED_FINAL", error=error, result_ref=None)
    return [job_incident_id(job_id) for job_id in job_ids]


async def an_incident(world: World, **changes: Any) -> str:
    [incident_id] = await failed(world, *await given(world, **changes))
    return incident_id


async def listed(world: World, requested: IncidentFilter = OPEN, limit: int = 10) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await incidents.list_incidents(world.context, requested, after=after, limit=limit)
        assert page.after is None or page.partial or len(page.lines) == limit
        found += [each.id for each in page.lines]
        if (after := page.after) is None:
            return found


async def letters(world: World) -> list[str]:
    page = await list_dead_letters(world.context, JobFilter(), after=None, limit=100)
    return [line.jobId for line in page.lines]


async def log_of(world: World, incident_id: str) -> list[tuple[str, str, str]]:
    """Type, actor and reason of its entries, which are numbered without gaps and chained."""
    entries = await incidents.read_log(world.context, incident_id, after=0, limit=100)
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    assert [entry.prev_hash for entry in entries] == ["", *(entry.hash for entry in entries[:-1])]
    assert [entry.hash for entry in entries] == [entry_hash(vars(entry)) for entry in entries]
    incident = await incidents.read_incident(world.context, incident_id)
    assert (incident.log_seq, incident.log_hash) == (entries[-1].seq, entries[-1].hash)
    return [(entry.type, entry.actor, entry.reason) for entry in entries]


async def resolve(world: World, incident_id: str) -> Incident:
    return await incidents.resolve_incident(world.context, incident_id, by("repaired"))


async def dismiss(world: World, incident_id: str) -> Incident:
    return await incidents.dismiss_incident(world.context, incident_id, by("known"))


async def retry(world: World, incident_id: str) -> Incident:
    return (await incidents.retry_incident(world.context, world.orchestrations, incident_id, by("again")))[0]


async def raised(world: World, subject: str = "0f3a5b7c9d1e2f40", tenant: str | None = None) -> Incident:
    return await incidents.raise_incident(
        world.context, BREAKER, subject, tenant=tenant, code="BREAKER_OPENED", detail="6 of 10 failed"
    )


async def test_the_end_of_a_job_for_such_a_reason_is_an_incident(world: World) -> None:
    """With why, in its tenant's list and in that of all; a document's own fault and a success are none."""
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
    """Its own ones in place of the usual; the job keeps them, whatever its protocol says later, and a redrive too."""

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
async def test_killed_at_its_end_it_is_opened_once(world: World, monkeypatch: pytest.MonkeyPatch, gated: bool) -> None:
    """Before the transaction that ends the job in the index, or after it: the next delivery, and any later one,
    leave one incident, in the list of open ones all the while."""
    if gated:
        world = limited(world, max_inflight_per_tenant=5, overflow="stage")
    name = "close_at_desk" if gated else "close"
    real = getattr(world.index, name)
    before, after = await given(world, 2)

    async def killed_before(*_: Any, **__: Any) -> None:
        raise LedgerUnavailable("killed here")

    async def killed_after(*args: Any, **options: Any) -> None:
        await real(*args, **options)
        raise LedgerUnavailable("killed here")

    for job_id, crash in ((before, killed_before), (after, killed_after)):
        with monkeypatch.context() as patched:
            patched.setattr(world.index, name, crash)
            with pytest.raises(LedgerUnavailable):
                await failed(world, job_id)
        assert await listed(world) == ([] if job_id == before else [job_incident_id(after), job_incident_id(before)])
        for _ in range(2):
            error: dict[str, Any] = {"type_": "RESULT", "number": 1, "status": "FAILED_FINAL", "error": EXHAUSTED}
            await service_sends(world, job_id, **error, result_ref=None)
    for job_id in (before, after):
        assert await log_of(world, job_incident_id(job_id)) == [("OPENED", "system", "ATTEMPTS_EXHAUSTED")]


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
    """Again it changes nothing; any other act is refused, and the first stands."""
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
    """The new job stands in the incident; what cannot be redriven cannot be retried, for the same reason."""
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
    """By whomever, with the dead letter; a dismissed letter takes its incident with it."""
    redriven, dismissed = await failed(world, *await given(world, 2))
    new = (await redrive(world, redriven.removeprefix("inc_"))).stored.record.job.job_id
    found = await incidents.read_incident(world.context, redriven)
    assert (found.state, found.retried_by, found.settled_by) == (IncidentState.RETRIED, new, "caller")
    await dismiss_dead_letter(world.context, dismissed.removeprefix("inc_"), by("known"))
    assert (await incidents.read_incident(world.context, dismissed)).state is IncidentState.DISMISSED
    assert (await listed(world), await letters(world)) == ([], [])


async def test_a_resolved_incident_stays_so(world: World) -> None:
    """Its job is a dead letter until it is redriven or dismissed, and neither changes what was said."""
    first, second = await failed(world, *await given(world, 2))
    for each in (first, second):
        await resolve(world, each)
    await redrive(world, first.removeprefix("inc_"))
    await dismiss_dead_letter(world.context, second.removeprefix("inc_"), by("known"))
    for each in (first, second):
        assert (await incidents.read_incident(world.context, each)).state is IncidentState.RESOLVED
    assert await letters(world) == []


@pytest.mark.parametrize("late", ["an act", "a second redrive", "the sweeper"])
async def test_a_redrive_that_died_is_finished_later(world: World, monkeypatch: pytest.MonkeyPatch, late: str) -> None:
    """Killed between the old job's mark and its dead letter: whoever comes next settles the incident as retried."""
    incident_id = await an_incident(world)
    job_id = incident_id.removeprefix("inc_")

    async def crash(*_: Any) -> None:
        raise LedgerUnavailable("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(world.index, "end_dead_letter", crash)
        with pytest.raises(LedgerUnavailable):
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
    """Race incident: a dismissal, a retry and the job's end, told again; one act stands, its letter and the list of
    open ones agree with it, and the other is refused or finds it done."""

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
    with pytest.raises(ValueError, match="end of a job"):
        await incidents.raise_incident(world.context, IncidentKind.JOB, "job_1", tenant=None, code="X")


async def test_a_breaker_of_a_tenant_is_in_its_list(world: World) -> None:
    """With those of its jobs, in the order of time; those of others and of nobody are not."""
    jobs = await failed(world, *await given(world, 2))
    world.clock.advance(5)
    whose = ("tenant_a", "tenant_b", None)
    own, foreign, nobodys = [(await raised(world, f"{tenant}", tenant)).id for tenant in whose]
    jobs += await failed(world, *await given(world))
    requested = IncidentFilter(tenant_id="tenant_a")
    assert await listed(world, requested, limit=1) == [jobs[2], own, jobs[1], jobs[0]]
    assert set(await listed(world, IncidentFilter(), limit=2)) == {*jobs, own, foreign, nobodys}
    await dismiss(world, own)
    assert await listed(world, replace(requested, states=OPEN.states)) == [jobs[2], jobs[1], jobs[0]]
    assert await listed(world, replace(requested, kinds=frozenset({BREAKER}))) == [own]


async def test_lists_are_filtered_and_paged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """By type and time over all tenants; few are read more than are shown, and none is left out."""
    monkeypatch.setattr(lists, "MAX_READ_MORE", 4)
    monkeypatch.setattr(lists, "_LEAST_LOOK", 1)
    ocr = await failed(world, *await given(world, request_type="OCR", payload={}))
    ids = ocr + [
        each for number in range(9) for each in await failed(world, *await given(world, tenant_id=f"t_{number % 3}"))
    ]
    assert await listed(world, limit=4) == ids[::-1]
    for requested in (replace(OPEN, request_type="OCR"), IncidentFilter(request_type="OCR")):
        assert await listed(world, requested, limit=2) == ocr
    middle = (await incidents.read_incident(world.context, ids[5])).opened_at
    for requested in (OPEN, IncidentFilter()):
        assert await listed(world, replace(requested, since=middle), limit=2) == ids[:4:-1]
        assert await listed(world, replace(requested, until=middle), limit=2) == ids[4::-1]


async def test_what_settled_unseen_leaves_the_list_of_open_ones(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reader sees it meanwhile; the hourly pass takes it, and leaves what may be about to open."""
    kept, gone = await failed(world, *await given(world, 2))
    with monkeypatch.context() as patched:
        patched.setattr(world.index.incidents, "leave_open", _away)
        await dismiss_dead_letter(world.context, gone.removeprefix("inc_"), by("known"))
    now = world.clock.now()
    opening = replace(await incidents.read_incident(world.context, kept), id="inc_job_9", subject="job_9")
    await world.context.incidents.enter_open(opening, now)
    assert len(await world.index.incidents.list_open(after=None, limit=10)) == 3
    assert await listed(world) == [kept]
    world.clock.advance(300)
    assert await compare_incidents(world.context, lambda: False, whole=True) == 0
    hour = now.replace(minute=0) + timedelta(hours=2)
    world.clock.advance((hour - world.clock.now()).total_seconds())
    await sweep(world.context, world.orchestrations)
    assert [row.incident.id for row in await world.index.incidents.list_open(after=None, limit=10)] == [kept]


async def test_an_incident_that_is_entered_again_stays_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race incident: its end is told between the sweeper's look at the list and at the incident."""
    incident_id = await an_incident(world)
    [row] = await world.index.incidents.list_open(after=None, limit=10)
    found = world.index.incidents._rows["tenant_a"].pop(row.cursor)
    world.clock.advance(3600)
    read = world.index.incidents.read

    async def slow(*args: Any) -> Incident | None:
        before = await read(*args)
        monkeypatch.undo()
        await world.index.incidents.enter_open(found, world.clock.now())
        world.index.incidents._rows["tenant_a"][row.cursor] = found
        return before

    monkeypatch.setattr(world.index.incidents, "read", slow)
    await compare_incidents(world.context, lambda: False, whole=True)
    assert await listed(world) == [incident_id]


async def test_what_an_older_release_ended_or_redrove_is_made_good(world: World) -> None:
    """Its end left no incident, its redrive an open one: the comparison and the look at the ended job write both."""
    missing, stale = await failed(world, *await given(world, 2))
    job_id = missing.removeprefix("inc_")
    index = world.index
    for key, row in index._listed["tenant_a"].items():
        if row.job_id == job_id:
            index._listed["tenant_a"][key] = replace(row, dead_letter=None)
    index.incidents.remove_of((await world.job(job_id)).job)
    index.incidents._open.clear()
    await compare_dead_letters(world.context, Share(), lambda: False)
    assert await listed(world, IncidentFilter()) == [stale, missing]
    assert await listed(world) == [missing]
    redriven = (await world.job(stale.removeprefix("inc_"))).with_job(redriven_by="job_9")
    world.ledger._jobs[redriven.job.job_id] = replace(world.ledger._jobs[redriven.job.job_id], record=redriven)
    world.clock.advance(3700)
    await sweep(world.context, world.orchestrations)
    found = await incidents.read_incident(world.context, stale)
    assert (found.state, found.retried_by) == (IncidentState.RETRIED, "job_9")


async def test_an_end_that_is_written_after_the_redrive_opens_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job failed, its end in the index was lost, and it was redriven: there is nothing to act on."""
    [job_id] = await given(world)
    with monkeypatch.context() as patched:
        patched.setattr(world.index, "close", _away)
        with pytest.raises(LedgerUnavailable):
            await failed(world, job_id)
    await redrive(world, job_id)
    world.clock.advance(90)
    await sweep(world.context, world.orchestrations)
    assert (await listed(world), await listed(world, IncidentFilter())) == ([], [])


async def test_the_archive_takes_it_with_its_job(world: World) -> None:
    """Retention leaves no row of it."""
    incident_id = await an_incident(world)
    job = (await world.job(incident_id.removeprefix("inc_"))).job
    await world.index.delete_listing(job)
    assert await listed(world) == []
    with pytest.raises(IncidentNotFound):
        await incidents.read_incident(world.context, incident_id)


async def test_a_long_message_is_cut(world: World) -> None:
    """The job has all of it; the list does not carry it."""
    [incident_id] = await failed(world, *await given(world), error={**EXHAUSTED, "message": "x" * 1500})
    found = await incidents.read_incident(world.context, incident_id)
    assert found.detail == "x" * (MAX_DETAIL - 3) + "..."


async def test_a_settlement_that_loses_changes_nothing(world: World) -> None:
    """The second of two acts finds what the first wrote."""
    incident = await incidents.read_incident(world.context, await an_incident(world))
    at = START + timedelta(days=1)
    first = Settlement(state=IncidentState.RESOLVED, actor="a", reason="r", at=at)
    second = Settlement(state=IncidentState.DISMISSED, actor="b", reason="s", at=at)
    assert (await world.index.incidents.settle(incident, first)).settled_by == "a"
    assert (await world.index.incidents.settle(incident, second)).settled_by == "a"


async def _away(*_: Any, **__: Any) -> None:
    raise LedgerUnavailable("killed here")
