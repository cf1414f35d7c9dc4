"""The rows with which a job begins in its tenant's partition: CLAIM, LIST, ACTIVE, DUE, WAIT, and DEP."""

from __future__ import annotations

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.active import inserts
from shared.adapters.tables.keys import claim_row, dependant_row, list_row
from shared.adapters.tables.listing import list_columns
from shared.adapters.tables.table import Entity, Operation
from shared.core.canonical import encode_key
from shared.ports.index import Claim, Reservation


def decode_claim(entity: Entity) -> Claim:
    """Returns the claim of a CLAIM row."""
    return Claim(
        job_id=entity["job_id"],
        body_hash=entity["body_hash"],
        created_at=entity["created_at"],
        expires_at=entity.get("expires_at") or None,
        etag=entity.metadata["etag"] or "",
    )


def rows_of(reservation: Reservation) -> list[Operation]:
    """Returns the rows of a new job, without those of its tenant's quotas."""
    job, replacing, partition = reservation.job, reservation.replacing, encode_key(reservation.job.tenant)
    claim = {
        "PartitionKey": partition,
        "RowKey": claim_row(job.idempotency_hash),
        "job_id": job.job_id,
        "body_hash": job.body_hash,
        "created_at": job.created_at,
    }
    listed = {"PartitionKey": partition, "RowKey": list_row(job.created_at, job.job_id), **list_columns(job)}
    claiming: Operation = ("create", claim)
    if replacing is not None:
        under_etag = {
            "mode": UpdateMode.REPLACE,
            "etag": replacing.etag,
            "match_condition": MatchConditions.IfNotModified,
        }
        claiming = ("update", claim, under_etag)
    return [
        claiming,
        ("create", listed),
        *inserts(partition, job, reservation.place),
        *(
            ("create", {"PartitionKey": partition, "RowKey": dependant_row(each, job.job_id), "job_id": job.job_id})
            for each in job.dependencies or ()
        ),
    ]
