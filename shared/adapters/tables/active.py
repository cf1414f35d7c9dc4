"""A job's ACTIVE row, and its DUE row, whose key has ACTIVE's `check_at`, so that the sweeper finds due jobs by key
alone.

DUE has the columns of ACTIVE that a check needs and that do not change between two checks. DUE and WAIT rows are
copies. A change that reads ACTIVE, and creates or replaces such a row, makes the row from ACTIVE alone. Columns of a
later release in the row are then lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from shared import telemetry
from shared.adapters.tables.admissions import wait_entity
from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.keys import active_row, dependant_row, due_row, failed_dependant_row, wait_row
from shared.adapters.tables.places import place_columns, place_of
from shared.adapters.tables.table import Entity, RowOperation, delete_row, merge_row, replace_row, row_at, upsert_row
from shared.adapters.tables.table_rows import TableRows
from shared.adapters.tables.unknown_members import keep
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import Candidate
from shared.core.gates.places import Place, PlaceState
from shared.core.jobs.job import Job
from shared.core.records.canonical import encode_key
from shared.errors import LedgerRefused
from shared.ports.index import FIRST_CHECK, ActiveRow, Looks

_DUE_COLUMNS = dict.fromkeys(("job_id", "claim", "created_at", "check_at", "looks"))


def first_check(job: Job) -> datetime:
    """Returns the time of the sweeper's first check of a new job, for the key of its DUE row."""
    return job.created_at + FIRST_CHECK


def inserts(partition: str, job: Job, place: Place | None) -> list[RowOperation]:
    """Makes the ACTIVE and DUE rows of a new job. `place` is None for a job without quotas and dependencies."""
    looked_at = {
        "job_id": job.job_id,
        "claim": job.idempotency_hash,
        "created_at": job.created_at,
        "check_at": first_check(job),
    }
    active = {
        **row_at(partition, active_row(job.job_id)),
        **looked_at,
        "mode": job.mode,
        "request_type": job.request_type,
        "protocol_version": job.protocol_version,
        "status": job.status.value,
        "listed_seq": job.event_seq,
        **_for_gates(Candidate.of(job)),
        **(place_columns(place) if place is not None else {}),
    }
    due = {**row_at(partition, due_row(first_check(job), job.job_id)), **looked_at}
    return [("create", active), ("create", due)]


def due_of(active: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the DUE row of an ACTIVE row."""
    key = row_at(active["PartitionKey"], due_row(active["check_at"], active["job_id"]))
    return key | {name: active[name] for name in _DUE_COLUMNS if name in active}


def _for_gates(candidate: Candidate) -> dict[str, str]:
    """Returns the columns `priority` and `source`, which a quota created after the job needs. Leaves out a normal
    priority and an absent source.
    """
    columns = {"priority": candidate.priority} if candidate.priority != "normal" else {}
    return columns if candidate.source is None else {**columns, "source": candidate.source}


def deletes(partition: str, job_id: str, check_at: datetime, *, etag: str | None = None) -> list[RowOperation]:
    """Returns the operations that delete the ACTIVE and DUE rows. The transaction fails if DUE has moved to another
    time.

    With `etag`, the transaction also fails if ACTIVE has changed.
    """
    return [delete_row(partition, active_row(job_id), etag), delete_row(partition, due_row(check_at, job_id))]


def moves(partition: str, active: ActiveRow, check_at: datetime, looks: Looks) -> list[RowOperation]:
    """Returns the operations that change `check_at` and `looks` of ACTIVE and move DUE. The transaction fails if DUE
    has moved to another time.
    """
    changed = {"check_at": check_at, "looks": json.dumps(looks)}
    old, new = due_row(active.check_at, active.job_id), due_row(check_at, active.job_id)
    due = {
        **row_at(partition, new),
        "job_id": active.job_id,
        "claim": active.claim,
        "created_at": active.created_at,
        **changed,
    }
    if active.row is not None and active.row["RowKey"] == old:
        due = keep(active.row, _DUE_COLUMNS, due)
    merged = {**row_at(partition, active_row(active.job_id)), **changed}
    merge = merge_row(merged)
    if new == old:
        # a transaction can name a row only once
        return [merge, replace_row(due)]
    return [merge, delete_row(partition, old), ("create", due)]


def moves_place(active: ActiveRow, place: Place, check_at: datetime, *, under_etag: bool) -> list[RowOperation]:
    """Returns the operations that change the `Place` in ACTIVE, move the DUE row to `check_at`, and insert or delete
    the WAIT row.
    """
    partition, old = encode_key(active.tenant), active.place
    operations = moves(partition, active, check_at, active.looks)
    merged = {**operations[0][1], **place_columns(place)}
    if old is not None and old.uncounted:
        # a merge cannot remove a column
        merged["uncounted"] = place.uncounted
    operations[0] = merge_row(merged, active.etag if under_etag else None)
    left, waiting = leaves_line(partition, old), []
    if place.state is PlaceState.WAITING and place.queue is not None:
        row = wait_entity(
            partition, QueuedJob(place.candidate, place.queue, active.claim, active.created_at, check_at), place.queue
        )
        if left and left[0][1]["RowKey"] == row["RowKey"]:
            # from high to emergency, without a queue for emergencies; a transaction can name a row only once
            return [*operations, replace_row(row)]
        waiting = [("create", row)]
    return [*operations, *left, *waiting]


def due_in_line(partition: str, place: Place | None, check_at: datetime) -> list[RowOperation]:
    """Returns the operation that writes the time in the key of a job's DUE row into the job's WAIT row. Returns no
    operation if the job does not wait. The process that admits the job then deletes the DUE row.
    """
    row = _wait_row_of(place)
    return [merge_row({**row_at(partition, row), "due_at": check_at})] if row is not None else []


def back_in_line(active: ActiveRow) -> list[RowOperation]:
    """Returns the operations that insert the missing WAIT row of a job in its queue again. Returns no operations if the
    job does not wait.

    The transaction fails if ACTIVE was changed.
    """
    place, partition = active.place, encode_key(active.tenant)
    if place is None or place.state is not PlaceState.WAITING or place.queue is None:
        return []
    here = {**row_at(partition, active_row(active.job_id)), "line": place.queue}
    waiting = QueuedJob(place.candidate, place.queue, active.claim, active.created_at, active.check_at)
    return [merge_row(here, active.etag), ("create", wait_entity(partition, waiting, place.queue))]


def leaves_line(partition: str, place: Place | None) -> list[RowOperation]:
    """Returns the operation that deletes the job's WAIT row. Returns no operation if the job does not wait."""
    row = _wait_row_of(place)
    return [delete_row(partition, row)] if row is not None else []


def _wait_row_of(place: Place | None) -> str | None:
    """Returns the key of the job's WAIT row, or None if the job does not wait."""
    if place is None or place.state is not PlaceState.WAITING or place.queue is None:
        return None
    return wait_row(place.queue, place.candidate.rank, place.candidate.job_id)


def active_of(tenant: str, entity: Entity) -> ActiveRow:
    """Decodes an ACTIVE or a DUE row."""
    unacked = int(entity.get("unacked", 0))
    return row_as(
        ActiveRow,
        entity,
        tenant=tenant,
        looks={step: (look_no, count) for step, (look_no, count, *_) in json.loads(entity.get("looks", "{}")).items()},
        unacked=unacked,
        # a merge leaves this column unchanged after the last of them was ACKed
        unacked_since=entity["unacked_since"] if unacked else None,
        place=place_of(entity),
        row=entity,
    )


async def settle(
    rows: TableRows, operations: Sequence[RowOperation], tenant: str, awaited: str, job_id: str, *, succeeded: bool
) -> None:
    """Commits `operations`, and deletes the DEP row of `job_id` in the same transaction.

    If `awaited` did not succeed, a DEPFAILED row lists `job_id`. If the store refuses the DEPFAILED row, the function
    commits the transaction without that row. Raises Conflict, AlreadyExists, LedgerRefused, LedgerUnavailable.
    """
    partition = encode_key(tenant)
    gone = delete_row(partition, dependant_row(awaited, job_id))
    if succeeded:
        await rows.transact([*operations, gone])
        return
    row = {**row_at(partition, failed_dependant_row(awaited, job_id)), "job_id": job_id}
    try:
        await rows.transact([*operations, gone, upsert_row(row)])
    except LedgerRefused:
        await rows.transact([*operations, gone])
        telemetry.warn("ROW_REFUSED", jobId=job_id, tenant_id=tenant, row=row["RowKey"])
