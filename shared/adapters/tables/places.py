"""Converts a job's `Place` to columns of its ACTIVE, WAIT and FREED rows and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.keys import freed_row
from shared.adapters.tables.table import Entity, RowOperation, row_at
from shared.core.gates.admission_state import Candidate
from shared.core.gates.ends import Freed
from shared.core.gates.places import Place, PlaceState
from shared.core.jobs.states import JobStatus


def candidate_columns(candidate: Candidate) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "request_type": candidate.job_type,
        "mode": candidate.mode,
        "priority": candidate.priority,
        "rank": (candidate.rank, "Edm.Int64"),
    }
    return columns if candidate.source is None else {**columns, "source": candidate.source}


def candidate_of(entity: Mapping[str, Any]) -> Candidate:
    return row_as(
        Candidate, entity, job_type=entity["request_type"], source=entity.get("source"), rank=int(entity["rank"])
    )


def place_columns(place: Place) -> dict[str, Any]:
    """Makes the columns of ACTIVE with the job's `Place`. A merge without `line` keeps the old value."""
    columns = {
        "state": place.state.value,
        "initial_status": place.initial_status.value,
        **candidate_columns(place.candidate),
    }
    if place.initial_status is JobStatus.WAITING_FOR_JOBS:
        columns |= {"dependencies_left": place.dependencies_left, "marked": place.marked}
    if place.failed_dependency is not None:
        columns["failed_dependency"] = place.failed_dependency
    if place.breaker_epoch:
        columns["breaker_epoch"] = place.breaker_epoch
    if place.uncounted:
        columns["uncounted"] = True
    return columns if place.queue is None else {**columns, "line": place.queue}


def place_of(entity: Mapping[str, Any]) -> Place | None:
    """Decodes the `Place`. Returns None if the row has none, as for a job created without quotas and dependencies."""
    if "state" not in entity:
        return None
    state = PlaceState(entity["state"])
    return row_as(
        Place,
        entity,
        state=state,
        initial_status=JobStatus(entity["initial_status"]),
        queue=entity["line"] if state is PlaceState.WAITING else None,
        candidate=candidate_of(entity),
    )


def insert_freed(partition: str, freed: Freed) -> RowOperation:
    """Makes the insertion of a FREED row, which fails if the row exists because the job was already freed."""
    row: dict[str, Any] = {
        **_key(partition, freed),
        "job_id": freed.job_id,
        "created_at": freed.created_at,
        "freed_at": freed.freed_at,
        "is_placed": freed.is_placed,
        **place_columns(freed.place),
    }
    return ("create", row if freed.good is None else {**row, "good": freed.good})


def delete_freed(partition: str, freed: Freed) -> RowOperation:
    return ("delete", _key(partition, freed))


def decode_freed(entity: Entity) -> Freed:
    place = place_of(entity)
    if place is None:
        raise ValueError("a FREED row has no slot")
    return row_as(Freed, entity, place=place, is_placed=entity["is_placed"])


def _key(partition: str, freed: Freed) -> dict[str, Any]:
    return row_at(partition, freed_row(freed.job_id))
