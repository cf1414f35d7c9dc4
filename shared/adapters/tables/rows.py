"""Converts JOB, STEP and EVENT rows to table entities and back.

There is one column for each field, with the field's name. Times are Edm.DateTime. Objects and arrays are JSON text
with sorted keys. A column that is None is absent.

`claim_check` stores strings over the limit of a property in blobs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar

from shared.adapters.tables.keys import JOB_ROW, event_row, step_row
from shared.adapters.tables.table import row_at
from shared.core.jobs.job import Event, Job, Step, Timings
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus
from shared.errors import UnknownStatus

Columns = dict[str, Any]

_JOB_JSON = frozenset(
    {
        *("input_ref", "output_ref", "labels", "callback_urls", "callback_targets", "final_output"),
        *("dependencies", "escalate"),
    }
)
_STEP_JSON = frozenset({"payload", "input_ref", "workspace_ref", "output_ref", "result_ref", "result", "progress"})
_TIMING_JSON = frozenset({"dispatch_backoffs", "ack_backoffs", "execution_backoffs"})
_EVENT_JSON = frozenset({"data"})
_NAMES: dict[type[Any], tuple[str, ...]] = {
    each: tuple(field.name for field in fields(each)) for each in (Job, Step, Event, Timings)
}

#: columns that this release knows; any other one is of a later release, and stays
JOB_COLUMNS = dict.fromkeys((*_NAMES[Job], "tenant_bucket"))
STEP_COLUMNS = dict.fromkeys((*_NAMES[Step], *_NAMES[Timings], "job_id"))


def job_entity(job: Job) -> Columns:
    # the app does not read it; exports and archives use it
    bucket = f"{job.tenant}#{job.created_at:%Y%m}"
    return {**row_at(job.job_id, JOB_ROW), "tenant_bucket": bucket, **_columns(vars(job), _JOB_JSON)}


def step_entity(job_id: str, step: Step) -> Columns:
    values = {name: value for name, value in vars(step).items() if name != "timings"}
    return {
        **row_at(job_id, step_row(step.step_index, step.step_id)),
        "job_id": job_id,
        **_columns(values, _STEP_JSON),
        **_columns(vars(step.timings), _TIMING_JSON),
    }


def event_entity(event: Event) -> Columns:
    return {**row_at(event.job_id, event_row(event.seq)), **_columns(vars(event), _EVENT_JSON)}


def job_of(entity: Mapping[str, Any]) -> Job:
    """Decodes a JOB row. Raises UnknownStatus."""
    values = _values(Job, entity, _JOB_JSON)
    values["status"] = _status(JobStatus, values["status"])
    return Job(**values)


def step_of(entity: Mapping[str, Any]) -> Step:
    """Decodes a STEP row. Raises UnknownStatus."""
    timings = _values(Timings, entity, _TIMING_JSON)
    for name in _TIMING_JSON:
        timings[name] = tuple(timings[name])
    timings.setdefault("heartbeat_cadence_s", None)
    values = _values(Step, entity, _STEP_JSON)
    values["status"] = _status(StepStatus, values["status"])
    if "retry_cause" in values:
        values["retry_cause"] = FailureCause(values["retry_cause"])
    return Step(timings=Timings(**timings), **values)


def event_of(entity: Mapping[str, Any]) -> Event:
    values = dict.fromkeys(_NAMES[Event]) | _values(Event, entity, _EVENT_JSON)
    return Event(**{**values, "seq": entity["seq"], "type": entity["type"]})


_Status = TypeVar("_Status", JobStatus, StepStatus)


def _status(kind: type[_Status], name: str) -> _Status:
    try:
        return kind(name)
    except ValueError:
        raise UnknownStatus(name) from None


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _columns(values: Mapping[str, Any], json_columns: frozenset[str]) -> Columns:
    entity: Columns = {}
    for name, value in values.items():
        if value is None:
            continue
        if name in json_columns:
            entity[name] = _ENCODER.encode(value)
        elif type(value) is str or type(value) is int:
            entity[name] = value
        elif isinstance(value, StrEnum):
            entity[name] = value.value
        elif isinstance(value, datetime):
            entity[name] = value.astimezone(UTC)
        else:
            entity[name] = value
    return entity


_Row = TypeVar("_Row", Job, Step, Event, Timings)


def _values(row: type[_Row], entity: Mapping[str, Any], json_columns: frozenset[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in _NAMES[row]:
        value = entity.get(name)
        if value is not None:
            values[name] = json.loads(value) if name in json_columns else value
    return values
