"""The stores as one request reaches them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.access.caller import ANYONE, Caller
from shared.adapters.scoped.stores import TenantAdmissions, TenantIndex, TenantLedger, TenantRejected
from shared.adapters.tables.index import TablesIndex
from shared.core.bulks import Bulk, BulkAction
from shared.core.gates.admission_state import AdmissionState, Candidate
from shared.core.gates.places import Place
from shared.core.gates.rules import EVERY, Gate, GateKind, Rule
from shared.core.jobs.history import EventType, Provenance, append
from shared.core.jobs.job import Event, Record
from shared.ports.admissions import AdmissionStates, AdmissionWrite, LogPlace, joined
from shared.ports.dead_letters import LetterState
from shared.ports.index import (
    FIRST_CLEARING,
    ActiveRow,
    AwakeTenant,
    Claim,
    EndedRow,
    PlaceMove,
    Reservation,
)
from shared.ports.ledger import Stored
from shared.ports.purging import ListedJob
from shared.ports.rejected import RejectedMessage, rejection_id
from shared.ports.sweeps import SweepPosition
from shared.refusals import TenantForbidden
from tests.jobs import START, planned
from tests.memory_stores import MemoryAdmissions, MemoryIndex, MemoryLedger, MemoryRejected

CALLER = Caller(actor="a", scopes=frozenset(), tenant="tenant_a")
READER = Caller(actor="r", scopes=frozenset(), tenant="tenant_a", sees_all=True)
MOVER = Caller(actor="m", scopes=frozenset(), tenant=None, moves_all=True)
PURGE = Bulk(
    bulk_id="bulk_1",
    tenant="tenant_a",
    action=BulkAction.PURGE,
    reason=None,
    actor="app:1",
    created_at=START,
    look_at=START,
)
OWN, OTHER = planned("job_a").job, planned("job_b", tenant_id="Tenant_B").job


async def reserved() -> MemoryIndex:
    """One active job of each of two tenants."""
    index = MemoryIndex()
    for job in (OWN, OTHER):
        await index.reserve(job, replacing=None)
    return index


async def test_an_index_serves_its_own_tenant() -> None:
    """Every call that names the caller's tenant has the effect of the index behind it."""
    index = await reserved()
    own = TenantIndex(index, CALLER)
    claim = await own.read_claim("tenant_a", OWN.idempotency_hash)
    assert claim is not None
    assert claim.job_id == "job_a"
    assert [row.job_id for row in await own.list_jobs("tenant_a", after=None, limit=10)] == ["job_a"]
    assert await own.read_active("tenant_a", "job_a") is not None
    second = replace(OWN, job_id="job_c", idempotency_hash="c")
    await own.reserve(second, replacing=None)
    await own.close(replace(second, completed_at=START), claim_expires_at=START)
    ended = EndedRow(job_id="job_c", tenant="tenant_a", clear_at=START + FIRST_CLEARING)
    await own.reschedule_clearing(ended, START + timedelta(days=1))
    assert [row.job_id for row in await index.due_for_clearing("tenant_a", now=START + timedelta(days=1), limit=9)] == [
        "job_c"
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda index: index.read_claim("tenant_b", OTHER.idempotency_hash),
        lambda index: index.reserve(replace(OTHER, job_id="job_c", idempotency_hash="c"), replacing=None),
        lambda index: index.close(OTHER, claim_expires_at=START),
        lambda index: index.read_active("tenant_b", "job_b"),
        lambda index: index.list_active("tenant_b", after=None, limit=1),
        lambda index: index.list_dependants("tenant_b", "job_b", limit=1),
        lambda index: index.list_failed_dependants("tenant_b", "job_b", limit=1),
        lambda index: index.is_dependant("tenant_b", "job_b", "job_a"),
        lambda index: index.drop_dependant("tenant_b", "job_b", "job_a"),
        lambda index: index.write_admission(ADMISSION),
        lambda index: index.move_place(replace(ACTIVE, tenant="tenant_b"), PLACE, START, ADMISSION),
        lambda index: index.move_places([PlaceMove(replace(ACTIVE, tenant="tenant_b"), PLACE, START)], ADMISSION),
        lambda index: index.reserve_together([Reservation(replace(OTHER, job_id="job_c", idempotency_hash="c"))]),
        lambda index: index.list_jobs("tenant_b", after=None, limit=10),
        lambda index: index.read_listed("tenant_b", START, "job_b"),
        lambda index: index.list_correlated("tenant_b", OTHER.correlation_id, after=None, limit=10),
        lambda index: index.reschedule_clearing(replace(ENDED, tenant="tenant_b"), START),
        lambda index: index.dead_letters("tenant_b", after=None, limit=10),
        lambda index: index.end_dead_letter(OTHER, LetterState.DISMISSED),
    ],
    ids=[
        *("read_claim", "reserve", "close", "read_active", "list_active"),
        *("list_dependants", "list_failed_dependants", "is_dependant", "drop_dependant"),
        *("write_admission", "move_place", "move_places", "reserve_together", "list_jobs"),
        *("read_listed", "list_correlated", "reschedule_clearing"),
        *("dead_letters", "end_dead_letter"),
    ],
)
async def test_another_tenants_rows_are_out_of_reach(call: Callable[[TenantIndex], Awaitable[object]]) -> None:
    """Its claims, lists and counts are refused, to read and to write, and nothing is changed."""
    index = await reserved()
    before = (index.claims, index.active, index.listed)
    with pytest.raises(PermissionError):
        await call(TenantIndex(index, CALLER))
    assert (index.claims, index.active, index.listed) == before


async def test_other_tenants_are_not_named() -> None:
    """The list of tenants has the caller's alone; an operator's has all."""
    index = await reserved()
    assert await TenantIndex(index, CALLER).tenants() == ["tenant_a"]
    assert sorted(await TenantIndex(index, ANYONE).tenants()) == ["tenant_a", "tenant_b"]


@pytest.mark.parametrize("moving", [False, True])
async def test_an_index_that_all_is_seen_of_takes_writes_of_the_own_tenant(moving: bool) -> None:
    """A caller that sees every tenant lists them all, and can reserve or close jobs of its own tenant only."""
    index = await reserved()
    scoped = TenantIndex(index, READER, moving=moving)
    assert sorted(await scoped.tenants()) == ["tenant_a", "tenant_b"]
    assert len(await scoped.list_jobs("tenant_b", after=None, limit=10)) == 1
    await scoped.close(replace(OWN, completed_at=START), claim_expires_at=START)
    for write in (scoped.reserve(OTHER, replacing=None), scoped.close(OTHER, claim_expires_at=START)):
        with pytest.raises(TenantForbidden):
            await write
    assert await index.list_active("tenant_b", after=None, limit=10) != []


ACTIVE = ActiveRow(job_id="job_a", tenant="tenant_a", claim="c", created_at=START, check_at=START)
#: of the other tenant
ADMISSION = AdmissionWrite(before=None, after=AdmissionState(tenant="tenant_b", counted_at=START))
PLACE = Place(candidate=Candidate.of(OTHER))
ENDED = EndedRow(job_id="job_a", tenant="tenant_a", clear_at=START)
CLAIM = Claim(job_id="job_a", body_hash="b", created_at=START, expires_at=START)

#: calls of the sweeper, on the caller's own job
SWEEPS: dict[str, Callable[[TenantIndex], Awaitable[object]]] = {
    "due": lambda index: index.due("tenant_a", now=START, limit=1),
    "reschedule_check": lambda index: index.reschedule_check(ACTIVE, START),
    "restore_waiting": lambda index: index.restore_waiting(ACTIVE),
    "refresh_listing": lambda index: index.refresh_listing(ACTIVE, OWN),
    "awake_tenants": lambda index: index.awake_tenants(now=START),
    "put_to_sleep": lambda index: index.put_to_sleep(AwakeTenant(tenant="tenant_a", posted_at=START)),
    "read_position": lambda index: index.read_position(0),
    "write_position": lambda index: index.write_position(0, SweepPosition()),
    "withdraw": lambda index: index.withdraw(ACTIVE),
    "write_owed": lambda index: index.write_owed(OWN, claim_expires_at=START),
    "due_for_clearing": lambda index: index.due_for_clearing("tenant_a", now=START, limit=1),
    "clear_again": lambda index: index.clear_again("tenant_a", [], START),
    "finish_clearing": lambda index: index.finish_clearing(ENDED),
    "delete_claim": lambda index: index.delete_claim("tenant_a", "c", CLAIM),
    "delete_listing": lambda index: index.delete_listing(OWN),
    "list_job_rows": lambda index: index.list_job_rows("tenant_a", after="", limit=1),
    "drop_listed": lambda index: index.drop_listed("tenant_a", ListedJob(row="LIST:1:job_1", job_id="job_1")),
    "purge": lambda index: index.purge(PURGE, limit=1),
    "forget_tenant": lambda index: index.forget_tenant("tenant_a", START),
}


@pytest.mark.parametrize("name", SWEEPS)
async def test_what_only_a_sweep_does_is_refused(name: str) -> None:
    """Also on the caller's own rows: a sweep is of every tenant."""
    with pytest.raises(PermissionError, match="sweep"):
        await SWEEPS[name](TenantIndex(await reserved(), CALLER))


def test_every_method_of_the_index_is_decided_here() -> None:
    """A method that is added to the port must be scoped to a tenant or refused, and tested."""
    served = {"read_claim", "reserve", "close", "read_active", "list_active"}
    served |= {"write_admission", "move_place", "reserve_together", "list_dependants", "is_dependant", "drop_dependant"}
    served |= {"list_failed_dependants", "move_places"}
    served |= {"read_listed", "list_correlated", "list_archived"}
    served |= {"list_jobs", "tenants", "reschedule_clearing", "dead_letters", "end_dead_letter"}
    methods = {name for name, _ in inspect.getmembers(TablesIndex, inspect.isfunction) if not name.startswith("_")}
    assert methods == served | SWEEPS.keys()


async def stored_job(ledger: MemoryLedger, record: Record) -> Stored:
    created, event = first_event(record)
    return await ledger.create(created, event)


CAUSE = Provenance(cause_id="create", actor="test", source="http", at=START, salt="")


def first_event(record: Record) -> tuple[Record, Event]:
    return append(None, record, EventType.JOB_CREATED, CAUSE)


def first_move(stored: Stored) -> tuple[Record, list[Event]]:
    record, event = append(stored.record, stored.record, EventType.PAUSE_REQUESTED, replace(CAUSE, cause_id="pause"))
    return record, [event]


def rejection(tenant: str | None) -> RejectedMessage:
    id_ = rejection_id(START, lane=0, message_id="m-1", sequence_number=1)
    place = {"lane": 0, "message_id": "m-1", "sequence_number": 1, "delivery_count": 1}
    return RejectedMessage(id=id_, received_at=START, reason="NOT_JSON", detail="", tenant=tenant, body="x", **place)


async def test_another_tenants_job_does_not_exist() -> None:
    """Neither its rows nor its events are read, and none is written."""
    ledger = MemoryLedger()
    other = await stored_job(ledger, planned("job_b", tenant_id="tenant_b"))
    scoped = TenantLedger(ledger, CALLER)
    assert await scoped.read("job_b") is None
    assert await scoped.events("job_b") == []
    assert await scoped.find_event("job_b", "create") is None
    for call in (
        lambda: scoped.create(*first_event(planned("job_c", tenant_id="tenant_b"))),
        lambda: scoped.commit(other, other.record, []),
        lambda: scoped.remove(other),
        lambda: scoped.delete_remainder("job_b"),
    ):
        with pytest.raises(PermissionError):
            await call()
    assert await ledger.read("job_b") == other


@pytest.mark.parametrize("moving", [False, True])
async def test_what_is_only_seen_cannot_be_changed(moving: bool) -> None:
    """A request that reads gets another tenant's job and no write of it; one that moves is refused as it reads."""
    ledger = MemoryLedger()
    other, own = await stored_job(ledger, planned("job_b", tenant_id="tenant_b")), await stored_job(ledger, planned())
    scoped = TenantLedger(ledger, READER, moving=moving)
    if moving:
        with pytest.raises(TenantForbidden):
            await scoped.read("job_b")
        scoped = TenantLedger(ledger, READER)
    assert await scoped.read("job_b") == other
    assert [event.type for event in await scoped.events("job_b")] == ["JOB_CREATED"]
    for call in (
        lambda: scoped.create(*first_event(planned("job_c", tenant_id="tenant_b"))),
        lambda: scoped.commit(other, other.record, []),
        lambda: scoped.remove(other),
        lambda: scoped.delete_remainder("job_b"),
    ):
        with pytest.raises(TenantForbidden):
            await call()
    assert await ledger.read("job_b") == other
    assert await scoped.read(own.record.job.job_id) == own
    await scoped.commit(own, *first_move(own))


async def test_one_who_only_moves_reaches_jobs_to_move_them() -> None:
    """The role to operate does not allow reads: there another tenant's job does not exist."""
    ledger = MemoryLedger()
    other = await stored_job(ledger, planned("job_b", tenant_id="tenant_b"))
    assert await TenantLedger(ledger, MOVER).read("job_b") is None
    moving = TenantLedger(ledger, MOVER, moving=True)
    assert await moving.read("job_b") == other
    await moving.commit(other, *first_move(other))


@pytest.mark.parametrize("tenant", ["tenant_b", None])
async def test_a_rejected_message_that_is_only_seen_is_not_marked(tenant: str | None) -> None:
    """Also one without a tenant, which callers of all tenants see; a list has all of them."""
    rejected = MemoryRejected()
    await rejected.quarantine(message := rejection(tenant))
    reading, moving = TenantRejected(rejected, READER), TenantRejected(rejected, READER, moving=True)
    assert await reading.read(message.id) == message
    assert len(await reading.list_days(START.date(), START.date(), tenant=None, after=None, limit=9)) == 1
    with pytest.raises(TenantForbidden):
        await reading.mark(message, redriven_at=START, outcome="APPLIED")
    with pytest.raises(TenantForbidden):
        await moving.read(message.id)
    assert await TenantRejected(rejected, CALLER, moving=True).read(message.id) is None
    assert await rejected.read(message.id) == message


async def test_events_come_of_jobs_that_the_request_has_read() -> None:
    """Only the job's row has the tenant of an event, so that row is read first."""
    ledger = MemoryLedger()
    await stored_job(ledger, planned("job_a"))
    scoped = TenantLedger(ledger, CALLER)
    assert await scoped.events("job_a") == []
    assert await scoped.read("job_a") is not None
    assert [event.type for event in await scoped.events("job_a")] == ["JOB_CREATED"]
    assert await scoped.find_event("job_a", "create") is not None


#: of another tenant, or of all of them
FOREIGN_ADMISSIONS: dict[str, Callable[[TenantAdmissions], Awaitable[object]]] = {
    "read": lambda admissions: admissions.read("tenant_b"),
    "first_waiting": lambda admissions: admissions.first_waiting("tenant_b", 0, 1),
    "list_freed": lambda admissions: admissions.list_freed("tenant_b", limit=1),
    "drop_freed": lambda admissions: admissions.drop_freed("tenant_b", "job_1"),
    "log": lambda admissions: admissions.log("tenant_b", "0" * 16, after=0, limit=1),
    "enter_tenant": lambda admissions: admissions.enter_tenant("tenant_b", START),
    "remove_tenant": lambda admissions: admissions.remove_tenant("tenant_b"),
    "put_default": lambda admissions: admissions.put_default(Gate(GateKind.TENANT, EVERY), Rule(), START),
    "put_over_all": lambda admissions: admissions.put_over_all(Gate.over_all(GateKind.PLATFORM), None, START),
}


@pytest.mark.parametrize("name", FOREIGN_ADMISSIONS)
async def test_another_tenants_admission_is_out_of_reach(name: str) -> None:
    """For reads and writes; a caller that sees every tenant can read it, and changes nothing."""
    admissions = MemoryAdmissions()
    with pytest.raises(PermissionError):
        await FOREIGN_ADMISSIONS[name](TenantAdmissions(admissions, CALLER))
    scoped = TenantAdmissions(admissions, READER)
    if name in ("read", "first_waiting", "list_freed", "log"):
        await FOREIGN_ADMISSIONS[name](scoped)
    else:
        with pytest.raises(TenantForbidden):
            await FOREIGN_ADMISSIONS[name](scoped)
    assert await admissions.directory() == await MemoryAdmissions().directory()


async def test_a_admission_of_the_own_tenant_is_served() -> None:
    """And facts that every process needs: tenants with quotas, and the time since which the settings have a limit."""
    own = TenantAdmissions(MemoryAdmissions(), CALLER)
    assert await own.read("tenant_a") is None
    assert await own.first_waiting("tenant_a", 0, 1) == await own.log("tenant_a", "0" * 16, after=0, limit=1) == []
    await own.enter_tenant("tenant_a", START)
    await own.note_settings(START)
    rows = await own.directory()
    assert (rows.tenants, rows.settings_since) == ({"tenant_a": START}, START)
    assert {*await own.versions()} == {*(groups := await own.groups())}
    assert joined([await own.group(name) for name in groups]) == rows
    await own.remove_tenant("tenant_a")
    await TenantAdmissions(MemoryAdmissions(), ANYONE).put_default(Gate(GateKind.TENANT, EVERY), Rule(), START)
    await TenantAdmissions(MemoryAdmissions(), ANYONE).put_over_all(Gate.over_all(GateKind.PLATFORM), None, START)


async def test_what_only_the_daily_run_does_at_admissions_is_refused() -> None:
    """Also on the caller's own rows."""
    own, place = TenantAdmissions(MemoryAdmissions(), ANYONE), LogPlace("0" * 16, 1)
    with pytest.raises(PermissionError):
        await own.log_places("tenant_a", first=place, limit=1)
    with pytest.raises(PermissionError):
        await own.drop_log("tenant_a", [place])


def test_every_method_of_the_admissions_is_decided_here() -> None:
    """A method that is added to the port must be scoped to a tenant, or be of all, and tested."""
    methods = {name for name, _ in inspect.getmembers(AdmissionStates, inspect.isfunction) if not name.startswith("_")}
    of_all = {"versions", "group", "groups", "directory", "note_settings", "log_places", "drop_log"}
    assert methods == {*FOREIGN_ADMISSIONS, *of_all}
