"""Protocols and their schemas."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shared.api.response import Cursor, Instant, Response
from shared.core import registry


class Backoffs(Response):
    """Seconds before each retry, as a list per cause. The last entry of a list repeats, except for `dispatch`."""

    dispatch: list[float] | None = None
    ack: list[float] | None = None
    execution: list[float] | None = None


class ProtocolStep(Response):
    """Step of a protocol. An absent timing has the app's default. Without `total_timeout_s` the step has no limit of
    its own. Without `heartbeat_cadence_s` the lease is `lease_s`."""

    step_id: str
    step_type: str
    service: str
    payload_schema: dict[str, Any] | None = None
    """JSON Schema of the step's part of the payload. Absent if any object is valid."""
    ack_timeout_s: float | None = None
    lease_s: float | None = None
    heartbeat_cadence_s: float | None = None
    attempt_max_s: float | None = None
    max_attempts: int | None = None
    total_timeout_s: float | None = None
    backoffs: Backoffs | None = None


class Protocol(Response):
    """Protocol: the ordered steps of a job type."""

    protocol_id: str
    version: int
    request_type: str
    """Job type, as in `request_type` of a job request."""
    description: str | None = None
    total_timeout_s: float | None = None
    steps: list[ProtocolStep]
    parallel: list[list[str]] | None = None
    """Groups of neighbouring steps that run in parallel."""
    ramp_percent: float | None = None
    """Percentage of new jobs that follow this version. The other new jobs follow the next lower version. Absent if the
    definition of this version sets no percentage."""
    escalate: list[str] | None = None
    """Error codes that open an incident. Default: ATTEMPTS_EXHAUSTED and ORCHESTRATION_FAILED."""
    digest: str
    """SHA-256 of the definition and its schemas, without `ramp_percent`."""


class ProtocolPage(Response):
    """Protocol of each job type, in the version that new jobs outside of a ramp follow."""

    protocols: list[Protocol]
    next: Cursor


class ProtocolVersion(Response):
    """Version of a protocol, with its percentage of new jobs and its number of jobs that have not ended."""

    version: int
    loaded: bool
    """`true` if the app's files or App Configuration have this version. New jobs can then follow this version."""
    new_jobs_percent: float
    """Percentage of new jobs that follow this version. Jobs whose requests name a version do not count."""
    first_loaded_at: Instant | None
    """Time when the app first loaded the version. Null if not recorded yet."""
    jobs: int | None
    """Number of jobs that have not ended, by the sweeper's last complete count. Null before the first sweep, or if the
    caller does not see all tenants."""
    protocol: Protocol


class ProtocolVersions(Response):
    """All versions of a protocol that the app has ever loaded, the highest first."""

    protocol_id: str
    request_type: str
    counted_at: Instant | None
    """End of the last sweep. If many jobs have not ended, `jobs` is from some sweeps earlier. Null if `jobs` is
    null."""
    versions: list[ProtocolVersion]


class SchemaLine(Response):
    """JSON Schema, as a list item."""

    name: Annotated[str, Field(examples=["result"])]
    title: str
    path: Annotated[str, Field(examples=["/v1/schemas/result"])]


class SchemaPage(Response):
    """All JSON Schemas."""

    schemas: list[SchemaLine]
    next: Cursor


def protocol_response(protocol: registry.Protocol) -> Protocol:
    """Makes the definition with the JSON Schema of each step's payload. Defaults are left out."""
    shown = protocol.definition.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for step in shown["steps"]:
        if (schema := protocol.schemas.get(step["step_id"])) is not None:
            step["payload_schema"] = schema
    return Protocol.model_validate({**shown, "digest": protocol.digest})
