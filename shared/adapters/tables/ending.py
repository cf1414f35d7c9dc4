"""The rows with which a job ends in its tenant's partition: LIST, CLAIM, DEAD, INCIDENT, and ENDED."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from azure.data.tables import UpdateMode

from shared.adapters.tables.incidents import incident_inserts
from shared.adapters.tables.keys import claim_row, ended_row, list_row
from shared.adapters.tables.listing import changing_columns, dead_inserts, letter_column, list_columns
from shared.adapters.tables.table import Entity, Operation
from shared.adapters.tables.unknown_members import keep
from shared.core.canonical import encode_key
from shared.core.jobs.job import Job
from shared.ports.index import Clearing, EndedRow, first_clearing

_ENDED_COLUMNS = dict.fromkeys(("job_id", "clear_at", "purged", "owed"))


def ending(job: Job, claim_expires_at: datetime) -> list[Operation]:
    """LIST and CLAIM of a job that ended, its ENDED row, and where it failed its DEAD row and its incident."""
    partition = encode_key(job.tenant)
    listed = {
        "PartitionKey": partition,
        "RowKey": list_row(job.created_at, job.job_id),
        **changing_columns(job),
        **letter_column(job),
    }
    claim = {"PartitionKey": partition, "RowKey": claim_row(job.idempotency_hash), "expires_at": claim_expires_at}
    return [
        ("update", listed, {"mode": UpdateMode.MERGE}),
        ("update", claim, {"mode": UpdateMode.MERGE}),
        ("create", ended_entity(partition, job.job_id, first_clearing(job).clear_at, purged=False)),
        *dead_inserts(partition, job),
        *incident_inserts(partition, job),
    ]


def ending_owed(job: Job) -> list[Operation]:
    """The ENDED row alone, for the sweeper's next pass: another row was refused, or is gone."""
    clear_at = job.completed_at or job.updated_at
    return [("create", ended_entity(encode_key(job.tenant), job.job_id, clear_at, purged=False, owed=True))]


def owed_rows(job: Job, claim_expires_at: datetime) -> list[Operation]:
    """The rows of `ending` but ENDED, each whole, so that one that is gone comes back; LIST is the last one."""
    partition = encode_key(job.tenant)
    claim = {
        "PartitionKey": partition,
        "RowKey": claim_row(job.idempotency_hash),
        "job_id": job.job_id,
        "body_hash": job.body_hash,
        "created_at": job.created_at,
        "expires_at": claim_expires_at,
    }
    listed = {
        "PartitionKey": partition,
        "RowKey": list_row(job.created_at, job.job_id),
        **list_columns(job),
        **changing_columns(job),
        **letter_column(job),
    }
    # merged: columns of a later release stay
    merged = {"mode": UpdateMode.MERGE}
    return [
        ("upsert", claim, merged),
        *dead_inserts(partition, job),
        *incident_inserts(partition, job),
        ("upsert", listed, merged),
    ]


def put_off(purged: Sequence[Clearing]) -> list[Operation]:
    """Earlier ends whose histories are purged: their ENDED rows at the next instant."""
    return [
        each for one in purged for each in rescheduled(encode_key(one.row.tenant), one.row, one.clear_at, purged=True)
    ]


def rescheduled(partition: str, ended: EndedRow, clear_at: datetime, *, purged: bool) -> list[Operation]:
    """An ENDED row at another instant."""
    old, new = ended_row(ended.clear_at, ended.job_id), ended_entity(partition, ended.job_id, clear_at, purged=purged)
    new = keep(ended.row, _ENDED_COLUMNS, new)
    if old == new["RowKey"]:
        return [("update", new, {"mode": UpdateMode.REPLACE})]
    return [("delete", {"PartitionKey": partition, "RowKey": old}), ("create", new)]


def ended_entity(
    partition: str, job_id: str, clear_at: datetime, *, purged: bool, owed: bool = False
) -> dict[str, Any]:
    """An ENDED row."""
    row = ended_row(clear_at, job_id)
    entity = {"PartitionKey": partition, "RowKey": row, "job_id": job_id, "clear_at": clear_at, "purged": purged}
    return {**entity, "owed": True} if owed else entity


def ended_of(tenant: str, entity: Entity) -> EndedRow:
    """Returns the ENDED row of a tenant's job."""
    return EndedRow(
        job_id=entity["job_id"],
        tenant=tenant,
        clear_at=entity["clear_at"],
        purged=bool(entity["purged"]),
        owed=bool(entity.get("owed", False)),
        row=entity,
    )
