"""Names of columns, row keys, blobs and bus messages, as the adapters write the rows and messages of a job."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.adapters.servicebus.publisher import ServiceBusPublisher
from shared.adapters.tables import rows
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.ending import ending_owed
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.heads import TablesHeads
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.keys import list_row
from shared.adapters.tables.ledger import TablesLedger
from shared.adapters.tables.minutes import TablesMinutes
from shared.adapters.tables.protocol_versions import TablesProtocolVersions
from shared.adapters.tables.rejected import TablesRejected
from shared.adapters.tables.sweep_mark import TablesAnswers, TablesSweepMark
from shared.adapters.tables.table import Entity, NotThere
from shared.adapters.tables.usage import TablesUsage
from shared.api.audit import bundle
from shared.core.audit.heads import INCIDENT_LOG, QUOTA_LOG, last_of_days
from shared.core.bulks import Bulk, BulkAction, BulkItem, Work
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import AdmissionState, Candidate
from shared.core.gates.allocation import Account, AllocationRecord
from shared.core.gates.log import append_entry
from shared.core.gates.places import Place, PlaceState
from shared.core.gates.rules import Gate, GateKind, GateState, Hold, Rule, Throttle
from shared.core.incidents import IncidentKind, incident_of, open_incident
from shared.core.jobs.directive import directive_of
from shared.core.jobs.job import Event, Job, Step
from shared.core.jobs.states import JobStatus
from shared.core.overview.minutes import MinuteCounts
from shared.core.webhooks.hook_log import append_hook_entry as hook_logged
from shared.core.webhooks.webhooks import Delivery, DeliveryState, Hook, HookAct, HookFilter, SecretVersion
from shared.errors import LedgerUnavailable
from shared.operations.audit.sign_statement import key_name
from shared.operations.audit.write_anchors import anchor_name, part_name
from shared.operations.sweeper.retention import archive_name
from shared.ports.admissions import AdmissionWrite
from shared.ports.bulks import BulkKey, BulkSlot, DueBulk
from shared.ports.feed import FeedEvent, FeedWrite, Head
from shared.ports.heads import Completed
from shared.ports.hooks import HookWrite
from shared.ports.index import ActiveRow, EndedRow, ListRow
from shared.ports.ledger import ArchivedRow
from shared.ports.protocol_versions import StoredVersion
from shared.ports.rejected import RejectedMessage
from shared.ports.sweeps import SweepMark, SweepPosition, WorkCounts
from shared.ports.usage import Folding, FoldPosition, SeenSource
from tests.jobs import START, Story

_VERSION = StoredVersion(
    protocol_id="ocr", version=1, work_digest="d", definition={}, schemas={}, first_loaded_at=START
)
#: rows by table, partition and row key
Rows = dict[tuple[str, str, str], dict[str, Any]]


class _Table:
    """Accepts every row that is written, and returns none."""

    def __init__(self, seen: dict[str, set[str]], rows: Rows, name: str) -> None:
        self._seen = seen
        self._rows = rows
        self._name = name

    def _take(self, row: dict[str, Any], *, is_there: bool = True) -> None:
        if is_there:
            self._rows.setdefault((self._name, row["PartitionKey"], row["RowKey"]), {}).update(row)
        kind = re.split(r"[:_]", str(row["RowKey"]))[0] if not str(row["RowKey"])[0].isdigit() else "{time}"
        self._seen["row keys"].add(_shape(f"{row['PartitionKey']} | {row['RowKey']}"))
        self._seen["columns"].update(f"{kind}.{name}" for name in row if name not in ("PartitionKey", "RowKey"))

    async def submit_transaction(self, operations: Any) -> list[dict[str, Any]]:
        operations = list(operations)
        for verb, row, *_ in operations:
            self._take(row, is_there=verb != "delete")
        return [{"etag": "1"} for _ in operations]

    async def write(self, operation: Any) -> None:
        self._take(operation[1])

    async def query_entities(self, query: str, **_: Any) -> AsyncIterator[Entity]:
        return
        yield

    async def get_entity(self, partition: str, row: str) -> Any:
        self._seen["row keys"].add(_shape(f"{partition} | {row}"))
        raise NotThere


class _Account:
    def __init__(self, seen: dict[str, set[str]], rows: Rows) -> None:
        self._seen = seen
        self._rows = rows

    async def table(self, name: str) -> _Table:
        return _Table(self._seen, self._rows, name)


class _Texts:
    def __init__(self, seen: dict[str, set[str]]) -> None:
        self._seen = seen

    async def put(self, name: str, text: str) -> None:
        self._seen["blob paths"].add(_shape(name))

    async def get(self, name: str) -> str:
        return ""

    async def remove(self, prefix: str) -> None:
        """Nothing is there."""


class _Sender:
    def __init__(self, seen: dict[str, set[str]]) -> None:
        self._seen = seen

    def get_topic_sender(self, topic: str) -> _Sender:
        self._seen["bus messages"].add(f"topic {_shape(topic)}")
        return self

    async def send_messages(self, message: Any, **_: Any) -> None:
        self._seen["bus messages"].update(f"property {name}" for name in message.application_properties)
        self._seen["bus messages"] |= {f"message id {message.message_id}", f"subject {message.subject}"}


def _shape(text: str) -> str:
    """Returns the shape without values that differ between jobs: digests and times."""
    text = re.sub(r"(?<=:)20\d{8}(?=:)", "{hour}", text)
    return re.sub(r"\d{13}|[0-9a-f]{24,64}", lambda found: "{hex}" if len(found[0]) > 13 else "{time}", text)


async def stored_and_sent(rows_seen: Rows | None = None) -> dict[str, set[str]]:
    """One job's rows, index rows, marks, blobs and messages, as the adapters write them; the rows into `rows_seen`."""
    seen: dict[str, set[str]] = {
        name: set() for name in ("columns", "row keys", "blob paths", "bus messages", "bundle")
    }
    story = Story()
    story.recorded()
    story.replied("ACK")
    record, job = story.record, story.record.job
    account: Any = _Account(seen, rows_seen if rows_seen is not None else {})
    ledger = TablesLedger(account, "ledger", _Texts(seen))
    await ledger.create(record, story.events[0])
    long = replace(record.steps[0], payload={"text": "x" * 40_000})
    stored = await ledger.create(record.with_step(long), story.events[0])
    places = {"blob": archive_name(job, "0" * 64), "sha256": "0" * 64, "size": 1}
    await ledger.remove(stored, ArchivedRow(job_id=job.job_id, tenant=job.tenant, archived_at=START, **places))
    index = TablesIndex(account, "index", "tenants")
    await index.reserve(replace(job, dependencies=["job_0"]), replacing=None)
    await index.close(job, claim_expires_at=START)
    waited = replace(job, staged_at=START, admitted_at=START, completed_at=START)
    await index.close(waited, claim_expires_at=START)
    listed = {name: getattr(job, name) for name in ("job_id", "tenant_id", "request_type", "current_step_id")}
    cursor = list_row(job.created_at, job.job_id)
    row = ListRow(**listed, status="FAILED_FINAL", labels={}, seq=1, created_at=START, cursor=cursor)
    await index.clear_again(job.tenant, [(row, START)], START)
    await index.delete_listing(replace(job, completed_at=START), START)
    await _used(TablesUsage(account, "index"), job)
    await _a_bulk(TablesBulks(account, "index", "gates"), job)
    await index.drop_dependant(job.tenant, job.job_id, "job_2", succeeded=False)
    await _at_a_admission(index, TablesAdmissions(account, "index", "gates"), job)
    await _freed(index, account, job)
    failed = replace(job, status=JobStatus.FAILED_FINAL, completed_at=START, error_code="ATTEMPTS_EXHAUSTED")
    await index.close(failed, claim_expires_at=START)
    await _incidents(TablesIncidents(account, "index", "gates"), failed)
    await _books(TablesAllocations(account, "gates"))
    await index.write_position(0, SweepPosition())
    active = ActiveRow(job_id=job.job_id, tenant=job.tenant, claim="c", created_at=START, check_at=START)
    await index.refresh_listing(active, job, unacked=1, unacked_since=START)
    await index.reschedule_check(active, START + timedelta(minutes=1))
    await index.withdraw(active)
    await index.reschedule_clearing(EndedRow(job_id=job.job_id, tenant=job.tenant, clear_at=START), START)
    counts = WorkCounts(queued_since=START, waiting_since=START, unacked_since=START)
    mark = SweepMark(ended_at=START, looked_at=0, actions=0, more=False, counts=counts)
    await TablesSweepMark(account, "index").write(0, mark)
    await TablesProtocolVersions(account, "gates").add(_VERSION)
    minutes = TablesMinutes(account, "index")
    await minutes.add({START: MinuteCounts()}, "a")
    await minutes.fold(START, {})
    feed = TablesFeed(account, "feed", lambda: START)
    with suppress(LedgerUnavailable):  # the row that it makes is not found again here
        await feed.identity()
    event = FeedEvent(number=1, event_id="e", event_type="job.queued", job_id=job.job_id, at=START, text="{}")
    day_heads = last_of_days(job.job_id, story.events)
    day_heads += tuple(replace(day_heads[0], name=f"{log}0") for log in (QUOTA_LOG, INCIDENT_LOG))
    await feed.write(
        FeedWrite(
            tenant=job.tenant,
            head=Head(),
            events=[event],
            seen={job.job_id: 1},
            heads=day_heads,
            heads_since=START,
        )
    )
    completed = Completed(until=START, goal=START, after=job.job_id)
    await TablesHeads(account, "feed").write_completed(job.tenant, completed)
    await _hooks(TablesHooks(account, "feed"), job)
    answers = TablesAnswers(account, "gates")
    await answers.note("ocr", START)
    await answers.mark("ocr", START)
    rejected = TablesRejected(account, "rejected", _Texts(seen))
    message = RejectedMessage(
        **{field.name: "1" for field in fields(RejectedMessage)}
        | {"id": f"rej_{1:013d}_{'0' * 24}", "received_at": START, "sequence_number": 1, "body": "x" * 40_000}
    )
    await rejected.quarantine(message)
    await rejected.mark(message, redriven_at=datetime.now(UTC), outcome="APPLIED")
    sender: Any = _Sender(seen)
    await ServiceBusPublisher(sender).publish(directive_of(record, record.steps[0]), time_to_live_s=1)
    # columns that this job does not have: a row omits None
    for kind, row, made in (("JOB", Job, rows.job_entity(job)), ("STEP", Step, rows.step_entity("j", record.steps[0]))):
        seen["columns"].update(f"{kind}.{field.name}" for field in fields(row) if field.name != "timings")
        seen["columns"].update(f"{kind}.{name}" for name in made if name not in ("PartitionKey", "RowKey"))
    seen["columns"].update(f"EVENT.{field.name}" for field in fields(Event))
    seen["blob paths"] |= {archive_name(job, "0" * 64), _shape(str((record.steps[0].workspace_ref or {})["uri"]))}
    seen["blob paths"] |= {anchor_name(START.date()), part_name(job.tenant, START.date()), _shape(key_name("ab" * 32))}
    seen["bundle"].update(bundle(record, story.events, START))
    return seen


async def _hooks(hooks: TablesHooks, job: Job) -> None:
    """A webhook with every column, its log, a delivery that waits and one that has ended."""
    optional: dict[str, Any] = {
        **dict.fromkeys(("previous_until", "failing_since", "failed_at", "succeeded_at", "waits_until"), START),
        **dict.fromkeys(("caught_up", "unlogged_first", "unlogged_last"), 1),
        "state_reason": "NO_SUCCESS",
        "unlogged_reason": "EXPIRED",
        "dead_logged_at": START,
    }
    secret = SecretVersion(version=1, key_id="k1", salt="s")
    lets_in = HookFilter(types=frozenset({"job.completed"}), job_types=frozenset({"OCR"}), labels={"a": "b"})
    hook = Hook(
        id="hook_1",
        tenant=job.tenant,
        url="https://a.example",
        filter=lets_in,
        created_at=START,
        created_by="a",
        updated_at=START,
        first=1,
        secret=secret,
        previous=secret,
        **optional,
    )
    hook, entry = hook_logged(hook, HookAct.CREATED, actor="a", reason="r", at=START)
    of_delivery: dict[str, Any] = {"tenant": job.tenant, "hook_id": hook.id, "name": "n", "event_id": "e"}
    of_delivery |= {"event_type": "job.completed", "job_id": job.job_id, "created_at": START, "due_at": START}
    of_delivery |= {"ended_at": START, "tried_at": START, "status": 500, "error": "TIMEOUT", "took_ms": 1}
    waiting = Delivery(number=1, **of_delivery)
    ended = Delivery(number=2, **of_delivery, state=DeliveryState.DEAD)
    write = HookWrite(tenant=job.tenant, after=hook, entry=entry, deliveries=[(None, waiting), (None, ended)])
    await hooks.write(write)
    await hooks.note(job.tenant, START)


async def _used(usage: TablesUsage, job: Job) -> None:
    """The rows of usage and of sources."""
    await usage.put_jobs(job.tenant, START, {})
    await usage.put_peaks(job.tenant, START, {})
    await usage.add_refused(job.tenant, START, {})
    await usage.write_folding(job.tenant, START, Folding(cursor="LIST:"))
    await usage.put_fold_again(job.tenant, START)
    await usage.write_position(0, FoldPosition(START, job.tenant))
    source = SeenSource(name="s", first_job=job.job_id, first_at=START, last_job=job.job_id, last_at=START)
    await usage.see_source(job.tenant, source)


async def _freed(index: TablesIndex, account: Any, job: Job) -> None:
    """Writes a job that was created during a count, one whose end frees its slot, and one with a refused row."""
    place = Place(state=PlaceState.ARRIVING, candidate=Candidate.of(job), uncounted=True)
    await index.reserve(job, replacing=None, place=place)
    inside = Place(candidate=Candidate.of(job))
    active = ActiveRow(job_id=job.job_id, tenant=job.tenant, claim="c", created_at=START, check_at=START, place=inside)
    ended = replace(inside, state=PlaceState.ENDED)
    await index.move_place(active, ended, START + timedelta(minutes=1), freed=active.make_freed(START, good=True))
    await (await account.table("index")).submit_transaction(ending_owed(job))


async def _at_a_admission(index: TablesIndex, admissions: TablesAdmissions, job: Job) -> None:
    """Writes the rows of a job that waits for its gates, and those of the gates."""
    hold = Hold(reason="r", actor="a", at=START, until=START)
    throttle = Throttle(max_per_hour=1, reason="r", actor="a", at=START, until=START)
    gate = Gate(GateKind.SOURCE, job.tenant, "s")
    state = GateState(gate=gate, rule=Rule(), hold=hold, throttle=throttle, credit=1, credit_at=START)
    state, entry = append_entry(state, "HELD", actor="a", reason="r", at=START, data={})
    admission = AdmissionState(
        tenant=job.tenant, gates={gate.id: state}, counted_at=START, counting_until=START, wake_at=START
    )
    candidate = replace(Candidate.of(job), source="s")
    waiting = QueuedJob(candidate, 0, job.idempotency_hash, START)
    write = AdmissionWrite(
        before=None, after=admission, admitted=(waiting,), requeued=((waiting, 1),), check_at=START, log=(entry,)
    )
    place = Place(state=PlaceState.WAITING, queue=0, candidate=candidate)
    await index.reserve(replace(job, priority="high", source="s"), replacing=None, place=place, admission=write)
    await admissions.enter_tenant(job.tenant, START)
    await admissions.put_default(gate, Rule(), START)
    await admissions.put_over_all(gate, state, START)
    await admissions.note_settings(START)


async def _incidents(incidents: TablesIncidents, failed: Job) -> None:
    """The rows of incidents that are open, and all columns of one that is settled."""
    names: dict[str, Any] = {"tenant": failed.tenant, "request_type": "OCR", "code": "C", "detail": "d"}
    opened_, entry = open_incident(IncidentKind.BREAKER, "0123456789abcdef", **names, at=START)
    end: dict[str, Any] = {"settled_at": START, "settled_by": "a", "reason": "r", "retried_by": failed.job_id}
    await incidents.open(replace(opened_, **end), entry)
    found = incident_of(failed)
    assert found is not None
    await incidents.enter_open(found[0], START)


async def _books(allocations: TablesAllocations) -> None:
    account = Account(granted=1, slot_time=1, counted_ms=1, is_waiting=True, tokens_granted=1)
    allocation_record = AllocationRecord(
        gate_id="0" * 16,
        accounts={"tenant_a": account},
        allocated_at=START,
        opened_at=START,
        opening="a",
        uncounted=frozenset({"a"}),
        credit=1,
        credit_at=START,
    )
    await allocations.write(allocation_record, before=None)
    await allocations.ask(allocation_record.gate_id, "tenant_a")


async def _a_bulk(bulks: TablesBulks, job: Job) -> None:
    """Writes the rows of a bulk operation with every column."""
    id_, key = f"bulk_{0:013d}{'f' * 16}", "f" * 64
    common: dict[str, Any] = {
        "reason": "r",
        "actor": "a",
        "created_at": START,
        "look_at": START,
        "ended_at": START,
        "cursor": "c",
    }
    bulk = Bulk(bulk_id=id_, tenant=job.tenant, action=BulkAction.REDRIVE, root=job.job_id, key=key, **common)
    item = BulkItem(job_id=job.job_id, code="C", new_job_id=job.job_id, tried_at=START)
    work = Work(no=1, job_id=job.job_id, dependants_after=job.job_id)
    made_by = BulkKey(key=key, bulk_id=id_, body_hash="0" * 64)
    await bulks.create(bulk, slot=BulkSlot(number=0, bulk_id=""), key=made_by, work=[work], items=[item])
    await bulks.put_due(DueBulk(tenant=job.tenant, bulk_id=id_, due_at=START))
