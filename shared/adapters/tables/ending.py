"""The rows of a job in its tenant's partition.

A new job has CLAIM, LIST, CORRELATION, ACTIVE and DUE rows, and can have WAIT and DEP rows. A job that ended has CLAIM,
LIST, CORRELATION and ENDED rows, and can have DEAD, DEP, DEPFAILED, FREED, INCIDENT and INCIDENTLOG rows. A withdrawn
job has no CLAIM row and no LIST row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from shared.adapters.tables.active import inserts
from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.incidents import incident_inserts
from shared.adapters.tables.keys import claim_row, correlation_row, dependant_row, ended_row, list_row
from shared.adapters.tables.listing import changing_columns, dead_inserts, letter_column, list_columns
from shared.adapters.tables.table import Entity, RowOperation, delete_row, merge_row, replace_row, row_at, upsert_row
from shared.adapters.tables.unknown_members import keep
from shared.core.jobs.job import Job
from shared.core.records.canonical import encode_key
from shared.ports.index import Claim, Clearing, EndedRow, Reservation, first_clearing

_ENDED_COLUMNS = dict.fromkeys(("job_id", "clear_at", "purged", "owed"))


def decode_claim(entity: Entity) -> Claim:
    """Returns the idempotency record of a CLAIM row."""
    return row_as(Claim, entity, expires_at=entity.get("expires_at") or None)


def claim_entity(partition: str, job: Job) -> dict[str, Any]:
    """Returns the CLAIM row of a job, without an expiry."""
    key = row_at(partition, claim_row(job.idempotency_hash))
    return {**key, "job_id": job.job_id, "body_hash": job.body_hash, "created_at": job.created_at}


def rows_of(reservation: Reservation) -> list[RowOperation]:
    """Returns the rows of a new job, without the rows of its tenant's quotas."""
    job, replacing, partition = reservation.job, reservation.replacing, encode_key(reservation.job.tenant)
    claim = claim_entity(partition, job)
    listed = {**row_at(partition, list_row(job.created_at, job.job_id)), **list_columns(job)}
    claiming = ("create", claim) if replacing is None else replace_row(claim, replacing.etag)
    return [
        claiming,
        ("create", listed),
        ("create", row_at(partition, correlation_row(job.correlation_id, listed["RowKey"]))),
        *inserts(partition, job, reservation.place),
        *(
            ("create", {**row_at(partition, dependant_row(each, job.job_id)), "job_id": job.job_id})
            for each in job.dependencies or ()
        ),
    ]


def ending(job: Job, claim_expires_at: datetime) -> list[RowOperation]:
    """Makes the operations on LIST, CLAIM and ENDED for a job that ended. Adds the DEAD row and the rows of an incident
    if the job has a dead letter or an incident.
    """
    partition = encode_key(job.tenant)
    listed = {**row_at(partition, list_row(job.created_at, job.job_id)), **changing_columns(job), **letter_column(job)}
    claim = {**row_at(partition, claim_row(job.idempotency_hash)), "expires_at": claim_expires_at}
    return [
        merge_row(listed),
        merge_row(claim),
        ("create", ended_entity(partition, job.job_id, first_clearing(job).clear_at, purged=False)),
        *dead_inserts(partition, job),
        *incident_inserts(partition, job),
    ]


def ending_owed(job: Job) -> list[RowOperation]:
    """Makes only the ENDED row, marked as owed, so that the next sweep writes the other rows of the job."""
    clear_at = job.completed_at or job.updated_at
    return [("create", ended_entity(encode_key(job.tenant), job.job_id, clear_at, purged=False, owed=True))]


def make_owed_rows(job: Job, claim_expires_at: datetime) -> list[RowOperation]:
    """Makes the rows of `ending` except ENDED, each complete, so that the sweeper can write a missing row again. LIST
    is the last.
    """
    partition = encode_key(job.tenant)
    claim = {**claim_entity(partition, job), "expires_at": claim_expires_at}
    listed = {
        **row_at(partition, list_row(job.created_at, job.job_id)),
        **list_columns(job),
        **changing_columns(job),
        **letter_column(job),
    }
    # merged, so that columns of a later release stay
    return [
        upsert_row(claim),
        *dead_inserts(partition, job),
        *incident_inserts(partition, job),
        upsert_row(listed),
    ]


def put_off(purged: Sequence[Clearing]) -> list[RowOperation]:
    """Returns the operations that move the ENDED rows of earlier jobs, whose durable histories are purged, to their
    next due time.
    """
    return [
        each for one in purged for each in reschedule(encode_key(one.row.tenant), one.row, one.clear_at, purged=True)
    ]


def reschedule(partition: str, ended: EndedRow, clear_at: datetime, *, purged: bool) -> list[RowOperation]:
    """Returns the operations that move an ENDED row to the time `clear_at`."""
    old, new = ended_row(ended.clear_at, ended.job_id), ended_entity(partition, ended.job_id, clear_at, purged=purged)
    new = keep(ended.row, _ENDED_COLUMNS, new)
    if old == new["RowKey"]:
        return [replace_row(new)]
    return [delete_row(partition, old), ("create", new)]


def ended_entity(
    partition: str, job_id: str, clear_at: datetime, *, purged: bool, owed: bool = False
) -> dict[str, Any]:
    """Makes an ENDED row, whose key sorts by `clear_at`."""
    row = ended_row(clear_at, job_id)
    entity = {**row_at(partition, row), "job_id": job_id, "clear_at": clear_at, "purged": purged}
    return {**entity, "owed": True} if owed else entity


def decode_ended(tenant: str, entity: Entity) -> EndedRow:
    """Returns the ENDED row of a tenant's job."""
    return row_as(EndedRow, entity, tenant=tenant, purged=bool(entity["purged"]), row=entity)
