"""Protocol files: the ordered steps of a job type, as data (R26)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: maximum steps: one transaction of Azure Tables has 100 rows, and JOB, every STEP and the EVENT rows stay within 60
MAX_STEPS = 50

#: maximum steps of a job that run at the same time
MAX_GROUP = 16

#: step type whose logs and artifacts are those of a run (`/v1/runs`)
PACK = "PACK"

#: names that are safe in row keys, event names, message ids and URLs; without a colon, the separator in these
_Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,47}$")]
#: code of a failure: one of LUCIUS's reasons, or a service's own
_Code = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,127}$")]
#: seconds, at most 30 days; waits over 3 days are split into timers of at most 3 days (R31)
_Seconds = Annotated[float, Field(gt=0, le=30 * 86400)]
#: minimum lease and cadence, since each ended lease and each heartbeat costs work of the orchestration and rows of the
#: job
MIN_LEASE_S = 15
_LeaseSeconds = Annotated[float, Field(ge=MIN_LEASE_S, le=30 * 86400)]


class Backoffs(BaseModel):
    """Seconds before each retry, as a list per cause. The last entry of a list repeats, except for `dispatch`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dispatch: Annotated[tuple[_Seconds, ...], Field(min_length=1)] | None = None
    ack: Annotated[tuple[_Seconds, ...], Field(min_length=1)] | None = None
    execution: Annotated[tuple[_Seconds, ...], Field(min_length=1)] | None = None


class StepDefinition(BaseModel):
    """A step: its service and its parameters. The settings give a timing that the step does not name, except
    `heartbeat_cadence_s` and `total_timeout_s`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    step_id: _Name
    #: value of the application property on which the service's subscription filters, for example OCR
    step_type: _Name
    #: name of the platform service's subscription, for example `ocr`
    service: _Name
    #: path of a JSON Schema, relative to the protocols folder; None means any object
    payload_schema: str | None = None
    ack_timeout_s: _Seconds | None = None
    #: lease in seconds, which the ACK starts and a recorded heartbeat restarts; at least 15
    lease_s: _LeaseSeconds | None = None
    #: interval of heartbeats in seconds, at least 15; None if not declared; the lease is then `lease_s`
    heartbeat_cadence_s: _LeaseSeconds | None = None
    #: maximum seconds of an attempt from its ACK on, which heartbeats do not extend
    attempt_max_s: _Seconds | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    #: maximum seconds from the step's first attempt to its end, without PAUSED time; None means no limit
    total_timeout_s: _Seconds | None = None
    backoffs: Backoffs = Backoffs()


class ProtocolDefinition(BaseModel):
    """A versioned list of steps, which run one after another except in parallel groups."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    protocol_id: _Name
    version: Annotated[int, Field(ge=1)]
    request_type: _Name
    description: str = ""
    #: maximum seconds from the job's creation or, if the job waited, from its admission to its end, without PAUSED
    #: time; None means the setting's
    total_timeout_s: _Seconds | None = None
    steps: Annotated[tuple[StepDefinition, ...], Field(min_length=1, max_length=MAX_STEPS)]
    #: percentage of new jobs of this type that follow this version; a lower version gets the others; None means all
    ramp_percent: Annotated[float, Field(ge=0, le=100)] | None = None
    #: codes of failures that open an incident; None means ATTEMPTS_EXHAUSTED and ORCHESTRATION_FAILED; empty: none
    escalate: Annotated[tuple[_Code, ...], Field(max_length=50)] | None = None

    #: groups of consecutive steps that run at the same time; other steps run alone
    parallel: tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=MAX_GROUP)], ...] = ()

    def group_of(self, step_id: str) -> int | None:
        """Returns the number of the step's group, from 0, or None if the step is in no group."""
        return next((number for number, group in enumerate(self.parallel) if step_id in group), None)

    @model_validator(mode="after")
    def _groups_are_neighbours(self) -> ProtocolDefinition:
        order = [step.step_id for step in self.steps]
        named = [name for group in self.parallel for name in group]
        if unknown := sorted(set(named) - set(order)):
            raise ValueError(f"parallel names unknown steps: {', '.join(unknown)}")
        if len(named) != len(set(named)):
            raise ValueError("parallel names a step twice")
        for group in self.parallel:
            first = min(order.index(name) for name in group)
            if set(order[first : first + len(group)]) != set(group):
                raise ValueError(f"the steps of a parallel group must be adjacent: {', '.join(group)}")
        return self

    @model_validator(mode="after")
    def _step_ids_differ(self) -> ProtocolDefinition:
        ids = [step.step_id.lower() for step in self.steps]
        twice = sorted({name for name in ids if ids.count(name) > 1})
        if twice:
            raise ValueError(f"duplicate step_id: {', '.join(twice)}")
        if sum(step.step_type == PACK for step in self.steps) > 1:
            raise ValueError(f"at most one step can have the step_type {PACK}, because a job has one log")
        return self
