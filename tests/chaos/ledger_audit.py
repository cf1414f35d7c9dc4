"""The rows of a stack, read from its tables, and their invariants once every job has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from azure.data.tables import TableServiceClient

from shared.adapters.tables.rows import event_of, job_of, step_of
from shared.core.jobs.as_of import apply_event, compute_rows_digest, rebuild_as_of
from shared.core.jobs.job import Event, Record
from shared.core.jobs.states import JobStatus, StepStatus
from tests.audit_bundles import check_chain
from tests.chaos.faulty_services import FORGED_CODE
from tests.model.invariants import check_move

Row = Mapping[str, Any]

#: how a job may fail under faults: by a result of its service, or with every attempt or every publish used up
FAILURES = frozenset({"PDF_ENCRYPTED", "CHANGED_MIND", "ATTEMPTS_EXHAUSTED", "DISPATCH_FAILED"})


@dataclass(frozen=True)
class StoredRows:
    """Every row; those of a job by its id."""

    records: dict[str, Record]
    events: dict[str, list[Event]]
    claims: list[Row]
    active: list[Row]
    listed: list[Row]
    rejected: list[Row]


def read(connection: str) -> StoredRows:
    with TableServiceClient.from_connection_string(connection) as tables:

        def rows(table: str) -> list[Row]:
            return list(tables.get_table_client(table).list_entities(results_per_page=1000))

        index = rows("luciusindex")
        return StoredRows(
            *_jobs(rows("luciusledger")),
            claims=[row for row in index if row["RowKey"].startswith("CLAIM:")],
            active=[row for row in index if row["RowKey"].startswith("ACTIVE:")],
            listed=[row for row in index if row["RowKey"].startswith("LIST:")],
            rejected=rows("luciusrejected"),
        )


def _jobs(rows: Iterable[Row]) -> tuple[dict[str, Record], dict[str, list[Event]]]:
    jobs, steps, events = {}, {}, {}  # type: ignore[var-annotated]
    for row in rows:
        job_id, key = row["PartitionKey"], row["RowKey"]
        assert not any(name.endswith("__blob") for name in row), "the jobs of these tests are small"
        if key == "JOB":
            jobs[job_id] = job_of(row)
        elif key.startswith("STEP:"):
            steps.setdefault(job_id, []).append(step_of(row))
        else:
            events.setdefault(job_id, []).append(event_of(row))
    return {job_id: Record(job, tuple(steps.get(job_id, []))) for job_id, job in jobs.items()}, events


def audit(stored: StoredRows, accepted: Mapping[str, str], rubbish: set[str]) -> list[str]:
    """Returns every violation. `accepted`: job ids by idempotency key, as the API returned them.

    `rubbish`: the texts that were sent as replies and are not valid; each must be quarantined.
    """
    wrong: list[str] = []
    for job_id, record in stored.records.items():
        try:
            _check_job(record, stored.events.get(job_id, []))
        except (AssertionError, ValueError) as broken:
            history = [
                f"    {event.seq} {event.at:%M:%S.%f} {event.type} {event.step_id} {event.attempt_no} "
                f"{event.from_status}->{event.to_status} {event.job_from}->{event.job_to} {event.cause_id}"
                for event in stored.events.get(job_id, [])
            ]
            wrong.append("\n".join([f"{job_id}: {broken}", *history]))
    wrong += _check_index(stored, accepted)
    quarantined = {row["body"] for row in stored.rejected if "body" in row}
    wrong += [f"lost and not quarantined: {text}" for text in sorted(rubbish - quarantined)]
    return wrong


def _check_job(record: Record, events: list[Event]) -> None:
    job = record.job
    assert job.status.terminal, f"it is still {job.status}"
    codes = {job.error_code, *(step.last_error_code for step in record.steps)}
    assert FORGED_CODE not in codes, "a forged reply was applied"
    check_chain(events)
    assert (job.event_seq, job.event_hash) == (events[-1].seq, events[-1].hash), "the head is not the last event"
    _check_moves(record, events)
    for step in record.steps:
        successes = [
            event
            for event in events
            if event.step_id == step.step_id
            and event.to_status == StepStatus.SUCCEEDED
            and event.from_status != StepStatus.SUCCEEDED
        ]
        assert len(successes) == (step.status is StepStatus.SUCCEEDED), f"{step.step_id} has {len(successes)} successes"
        assert step.attempt_no <= step.timings.max_attempts, f"{step.step_id} went over its attempts"
        assert not step.status.in_flight, f"{step.step_id} is in flight and its job has ended"
    if job.status is JobStatus.FAILED_FINAL:
        assert job.error_code in FAILURES, f"it failed with {job.error_code}"
    if job.status is JobStatus.SUCCEEDED:
        assert {step.status for step in record.steps} == {StepStatus.SUCCEEDED}
        last = [step for step in record.steps if step.group is not None and step.group == record.steps[-1].group]
        assert job.final_output == [*last, record.steps[-1]][0].result_ref
    causes = Counter(event.cause_id for event in events)
    assert max(causes.values()) == 1, f"written twice by {causes.most_common(1)}"


def _check_moves(record: Record, events: list[Event]) -> None:
    """From the created rows on: the events give the rows of now, and the table allows each transition."""
    at = rebuild_as_of(record, events, 1)
    assert (events[0].data or {})["rows"] == compute_rows_digest(at), (
        "the created rows are not what the first event says"
    )
    for event in events[1:]:
        after = apply_event(at, event)
        check_move(at, after)
        at = after
    assert _digest(at) == _digest(record), "folding the events does not give the rows"


def _digest(record: Record) -> str:
    return compute_rows_digest(Record(replace(record.job, suppressed=0), record.steps))


def _check_index(stored: StoredRows, accepted: Mapping[str, str]) -> list[str]:
    wrong = [f"{row['job_id']}: ACTIVE of a job that ended" for row in stored.active]
    missing = set(accepted.values()) - set(stored.records)
    wrong += [f"{job_id}: accepted and lost" for job_id in sorted(missing)]
    wrong += [f"{job_id}: a job that no caller submitted" for job_id in set(stored.records) - set(accepted.values())]
    keys = Counter(record.job.idempotency_key for record in stored.records.values())
    wrong += [f"{key}: {count} jobs for one key" for key, count in keys.items() if count > 1]
    wrong += [
        f"{job_id}: its key {key} is another's"
        for key, job_id in accepted.items()
        if job_id in stored.records and stored.records[job_id].job.idempotency_key != key
    ]
    for name, rows in (("CLAIM", stored.claims), ("LIST", stored.listed)):
        found = Counter(row["job_id"] for row in rows)
        wrong += [f"{job_id}: {found[job_id]} {name} rows" for job_id in stored.records if found[job_id] != 1]
    for row in stored.listed:
        record = stored.records.get(row["job_id"])
        if record is not None and row["status"] != record.job.status.value:
            wrong.append(f"{row['job_id']}: listed as {row['status']}, is {record.job.status.value}")
    wrong += [f"{row['job_id']}: its claim has no end" for row in stored.claims if not row.get("expires_at")]
    return wrong
