"""The created rows of a job: its fixed plan (R29), with the maximum times of the job and its attempts (R10).

The rows depend only on the request, the protocol, the settings and `created_at` of the idempotency record. So two
creators of the same job write the same rows, except for the salt of the first EVENT.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote, urlsplit

from shared.contracts.envelope import Envelope
from shared.contracts.protocol import PACK, StepDefinition
from shared.core.jobs.as_of import make_creation_data
from shared.core.jobs.history import EventType, Provenance, append
from shared.core.jobs.job import Event, Job, Record, Step, Timings
from shared.core.jobs.reasons import Reason
from shared.core.jobs.routing import LaneDecision, normalise
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.transitions import JOB_CREATION
from shared.core.records.canonical import canonical_json, digest, encode_key, jcs_digest
from shared.core.registry import Protocol

#: first folder of every workspace path
SYSTEM = "lucius"


@dataclass(frozen=True)
class Workspace:
    """The folder of a tenant in the workspace: `{base}/lucius/{tenant}`, with the name encoded as a key (R34)."""

    #: URI of the workspace
    base: str
    #: normalised tenant id
    tenant: str

    @property
    def folder(self) -> str:
        """Returns the name of the tenant's folder. The name is unique to the tenant, contains no path, and stays the
        same if decoded twice.
        """
        return encode_key(self.tenant)

    @property
    def uri(self) -> str:
        """Returns the URI without a trailing slash."""
        return f"{self.base.rstrip('/')}/{SYSTEM}/{quote(self.folder, safe='=')}"


@dataclass(frozen=True, kw_only=True)
class TimingDefaults:
    """Default timings of jobs and steps in seconds, for protocols without timings."""

    ack_timeout_s: float
    lease_s: float
    max_attempts: int
    #: maximum duration of an attempt, from its ACK on
    attempt_max_s: float
    #: maximum duration of a job, from its creation or, if the job waited, from its admission on
    total_timeout_s: float
    dispatch_backoffs: tuple[float, ...]
    ack_backoffs: tuple[float, ...]
    execution_backoffs: tuple[float, ...]


@dataclass(frozen=True)
class Digests:
    """The digests that identify a request."""

    #: RowKey of the idempotency record, without its prefix
    claim: str
    #: digest of the request's content: the same idempotency key with other content is a conflict
    body: str
    payload: str


def compute_digests(envelope: Envelope) -> Digests:
    """Returns the digests of a request's idempotency key, content and payload. Without a key, the first digest is also
    made from the content.
    """
    body = canonical_json(
        {
            **_of_dependencies(envelope),
            # nulls are left out of the digest
            "protocol_version": envelope.protocol_version,
            "tenant_id": normalise(envelope.tenant_id),
            "request_type": envelope.request_type,
            "input_ref": envelope.input_ref.model_dump(),
            "output_ref": envelope.output_ref.model_dump(),
            "payload": envelope.payload,
            "schema_version": envelope.schema_version,
            "doc_id": envelope.doc_id,
        }
    )
    key = f"key:{envelope.idempotency_key}" if envelope.idempotency_key is not None else f"body:{body}"
    return Digests(digest(key), digest(body), "sha256:" + digest(canonical_json(envelope.payload)))


def _of_dependencies(envelope: Envelope) -> dict[str, object]:
    """Returns the dependencies for the digest, so that the same work after other jobs is a different request.

    Returns an empty object if there are none.
    """
    if not envelope.dependencies:
        return {}
    return {
        "dependencies": sorted(envelope.dependencies),
        "on_dependency_failure": envelope.on_dependency_failure,
    }


def plan_job(
    envelope: Envelope,
    protocol: Protocol,
    lane_decision: LaneDecision,
    defaults: TimingDefaults,
    *,
    job_id: str,
    created_at: datetime,
    correlation_id: str,
    workspace_uri: str,
    identity: Digests,
    initial_status: JobStatus = JobStatus.QUEUED,
    dependencies: Sequence[str] = (),
) -> Record:
    """Returns JOB and its STEPs (PENDING), without the first EVENT. `identity` is the result of
    `compute_digests(envelope)`.

    `initial_status` is QUEUED or THROTTLED by the decision of the job's quotas, or WAITING_FOR_JOBS with `dependencies`
    (ids of jobs).
    """
    tenant = normalise(envelope.tenant_id)
    parts = protocol.split(envelope.payload)
    definition = protocol.definition
    steps = tuple(
        Step(
            step_id=step.step_id,
            step_index=index,
            step_type=step.step_type,
            service=step.service,
            status=StepStatus.PENDING,
            timings=_plan_timings(step, defaults, parts.get(step.step_id, {})),
            payload=parts.get(step.step_id, {}),
            group=definition.group_of(step.step_id),
            lane=lane_decision.lane,
            routing_key_used=lane_decision.routing_key_used,
            resolved_mode=lane_decision.resolved_mode,
            decision_source=lane_decision.decision_source,
            decision_reason=lane_decision.decision_reason,
            created_at=created_at,
            updated_at=created_at,
        )
        for index, step in enumerate(definition.steps)
    )
    job = Job(
        job_id=job_id,
        tenant_id=envelope.tenant_id,
        tenant=tenant,
        protocol_id=definition.protocol_id,
        protocol_version=definition.version,
        protocol_digest=protocol.digest,
        request_type=envelope.request_type,
        schema_version=envelope.schema_version,
        mode=lane_decision.resolved_mode,
        status=initial_status,
        instance_id=job_id,
        idempotency_key=envelope.idempotency_key,
        idempotency_hash=identity.claim,
        body_hash=identity.body,
        payload_digest=identity.payload,
        input_ref=envelope.input_ref.model_dump(),
        output_ref=envelope.output_ref.model_dump(),
        workspace_base=Workspace(workspace_uri, tenant).uri,
        doc_id=envelope.doc_id,
        correlation_id=correlation_id,
        traceparent=envelope.traceparent,
        priority=envelope.priority,
        labels=dict(envelope.labels),
        **_plan_callbacks(envelope),
        requested_by=envelope.requested_by,
        requested_at=created_at,
        source=envelope.source,
        dependencies=list(dependencies) or None,
        on_dependency_failure=envelope.on_dependency_failure,
        expires_at=envelope.expires_at,
        escalate=list(definition.escalate) if definition.escalate is not None else None,
        **compute_total_time(
            initial_status, created_at, timedelta(seconds=definition.total_timeout_s or defaults.total_timeout_s)
        ),
        current_step_id=definition.steps[0].step_id,
        created_at=created_at,
        updated_at=created_at,
    )
    return Record(job, steps)


def with_first_event(record: Record, salt: str) -> tuple[Record, Event]:
    """Returns the rows of a new job and their first EVENT."""
    job = record.job
    provenance = Provenance(
        cause_id=f"create:{job.job_id}", actor=job.requested_by or "caller", source="http", at=job.created_at, salt=salt
    )
    return append(None, record, EventType.JOB_CREATED, provenance, data=make_creation_data(record))


def _plan_callbacks(envelope: Envelope) -> dict[str, Any]:
    """Returns the columns of a new job with its callback URLs."""
    targets = envelope.callback_urls.model_dump() if envelope.callback_urls else {}
    if not targets:
        return {"callback_urls": {}}
    return {
        "callback_urls": {name: find_origin(url) for name, url in targets.items()},
        "callback_digest": f"sha256:{jcs_digest(targets)}",
        "callback_targets": targets,
    }


def compute_total_time(initial_status: JobStatus, created_at: datetime, allowed: timedelta | None) -> dict[str, Any]:
    """Returns the columns of a new job with its total time, which starts with the admission."""
    if initial_status is JobStatus.QUEUED:
        return {"deadline_at": created_at + allowed if allowed is not None else None}
    return {"staged_at": created_at, "total_time_s": allowed.total_seconds() if allowed is not None else None}


def _plan_timings(step: StepDefinition, defaults: TimingDefaults, payload: Mapping[str, Any]) -> Timings:
    # a request for a pack chooses the cadence, within the bounds of the schema
    cadence = payload.get("heartbeatCadence") if step.step_type == PACK else None
    return Timings(
        ack_timeout_s=step.ack_timeout_s or defaults.ack_timeout_s,
        lease_s=step.lease_s or defaults.lease_s,
        heartbeat_cadence_s=cadence or step.heartbeat_cadence_s,
        max_attempts=step.max_attempts or defaults.max_attempts,
        attempt_max_s=step.attempt_max_s or defaults.attempt_max_s,
        dispatch_backoffs=step.backoffs.dispatch or defaults.dispatch_backoffs,
        ack_backoffs=step.backoffs.ack or defaults.ack_backoffs,
        execution_backoffs=step.backoffs.execution or defaults.execution_backoffs,
        total_timeout_s=step.total_timeout_s,
    )


def make_tombstone(
    job_id: str, *, tenant: str, claim: str, created_at: datetime, now: datetime, salt: str
) -> tuple[Record, Event]:
    """Makes the rows and the first EVENT that block the id of a job that was never created. A process that creates the
    job later finds the rows.
    """
    nowhere = {"uri": "urn:lucius:withdrawn"}
    job = Job(
        job_id=job_id,
        tenant_id=tenant,
        tenant=tenant,
        protocol_id="",
        protocol_version=0,
        protocol_digest="",
        request_type="",
        schema_version="",
        mode="",
        status=JobStatus(JOB_CREATION[EventType.JOB_WITHDRAWN].to),
        instance_id=job_id,
        idempotency_hash=claim,
        body_hash="",
        payload_digest="",
        input_ref=nowhere,
        output_ref=nowhere,
        workspace_base="",
        correlation_id=job_id,
        labels={},
        callback_urls={},
        requested_at=created_at,
        current_step_id="",
        error_code=Reason.WITHDRAWN,
        error_message=Reason.WITHDRAWN.cause,
        created_at=created_at,
        updated_at=now,
        completed_at=now,
    )
    provenance = Provenance(cause_id=f"withdraw:{job_id}", actor="system", source="sweeper", at=now, salt=salt)
    record = Record(job, ())
    return append(None, record, EventType.JOB_WITHDRAWN, provenance, data=make_creation_data(record))


def find_origin(url: str) -> str:
    """Returns the scheme, host and port of a URL, which readers can see. The rest may contain a credential."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
