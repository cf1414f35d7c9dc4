"""A job from its request to its running orchestration (LIFECYCLE "Creation")."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from shared import telemetry
from shared.access.references import ReferencePolicy
from shared.contracts.envelope import Envelope
from shared.core.directive import MAX_DIRECTIVE_BYTES, directive_of, encode_directive
from shared.core.job import Event, Record
from shared.core.plan import digests, plan_job
from shared.core.reasons import Reason
from shared.core.registry import Protocol
from shared.core.routing import LaneDecision, decide_lane, normalise
from shared.core.states import JobStatus
from shared.errors import AlreadyExists, Conflict, LedgerUnavailable, LimitReached, Refusal, Transient
from shared.operations.admission import refusal
from shared.operations.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.index import Claim
from shared.ports.ledger import Stored
from shared.telemetry.spans import submit_span

#: Race claim: one that is taken between our look and our write is looked at again so often
MAX_CLAIM_RACES = 20
_CLAIM_RACE_WAIT_S = 0.2


@dataclass(frozen=True)
class Created:
    """The job that the request is; `replayed` if it was one already."""

    stored: Stored
    replayed: bool


@dataclass(frozen=True)
class ValidRequest:
    """A request that passed validation."""

    envelope: Envelope
    protocol: Protocol
    lane_decision: LaneDecision
    correlation_id: str | None


async def create_job(
    context: Context,
    orchestrations: Orchestrations,
    envelope: Envelope,
    *,
    correlation_id: str | None,
    own_trace: bool = False,
) -> Created:
    """Claim first, then rows, then the orchestration. Raises Refusal, and Transient where a dependency is down.

    `own_trace`: the job's trace is not the request's, since that makes many jobs.
    """
    with submit_span(envelope, own_trace=own_trace) as (traced, told):
        created = await _create(context, orchestrations, traced, correlation_id)
        told(created.stored.record.job, created.replayed)
        return created


async def _create(
    context: Context, orchestrations: Orchestrations, envelope: Envelope, correlation_id: str | None
) -> Created:
    request = validate_request(context, envelope, correlation_id)
    identity = digests(envelope)
    tenant = normalise(envelope.tenant_id)
    for _ in range(MAX_CLAIM_RACES):
        claim = await context.index.read_claim(tenant, identity.claim)
        live = claim is not None and not is_expired(context, claim)
        if claim is not None and live:
            if claim.body_hash != identity.body:
                raise Refusal(
                    409,
                    "IDEMPOTENCY_CONFLICT",
                    "this idempotency_key was used with another body; use a new key, or send the first body again",
                    jobId=claim.job_id,
                )
            return Created(await _finish(context, orchestrations, request, claim), replayed=True)
        record, event = plan_rows(context, request, context.new_job_id(), context.clock.now())
        if not await reserve(context, record, replacing=claim):
            continue
        stored = await write_rows(context, record, event)
        check_not_withdrawn(stored)
        await orchestrations.start(stored.record.job.instance_id, orchestration_input(stored.record))
        return Created(stored, replayed=False)
    raise LedgerUnavailable("the claim of this request changes hands too often; try again")


async def reserve(context: Context, record: Record, *, replacing: Claim | None) -> bool:
    """Whether the job has its claim now; False: look again (Race claim). Raises Refusal (429), Transient."""
    job = record.job
    limit = context.settings.max_inflight_per_tenant
    claim = (job.tenant, job.idempotency_hash)
    try:
        take_back = await context.admission.admit(context.index, context.settings, context.clock.now(), job.mode)
    except Refusal as refused:
        if claim in context.admission.writing:
            # Race duplicate: the same request is about to take the last place
            await context.sleep(_CLAIM_RACE_WAIT_S * context.random())
            return False
        return await _refused(context, claim, replacing, refused)
    context.admission.writing.add(claim)
    try:
        await context.index.reserve(job, replacing=replacing, tenant_limit=limit)
    except LimitReached:
        take_back()
        full = refusal("LUCIUS_MAX_INFLIGHT_PER_TENANT", f"tenant {job.tenant!r} has {limit} active jobs")
        return await _refused(context, claim, replacing, full)
    except (AlreadyExists, Conflict):
        # Race own-claim: taken, and where it holds our own job id, an earlier try of this very write went through
        taken = await context.index.read_claim(*claim)
        if taken is None or taken.job_id != job.job_id:
            take_back()
            await context.sleep(_CLAIM_RACE_WAIT_S * context.random())
            return False
    except Transient:
        take_back()
        raise
    finally:
        context.admission.writing.discard(claim)
    return True


async def _refused(context: Context, claim: tuple[str, str], replacing: Claim | None, full: Refusal) -> bool:
    """False where the request is a duplicate by now: look again. Race duplicate: the same request took the last
    place, and a duplicate is never refused. Raises `full` otherwise, and Transient.
    """
    found = await context.index.read_claim(*claim)
    if found is not None and (replacing is None or found.etag != replacing.etag):
        return False
    telemetry.record_limit(claim[0], full.extra["limit"])
    raise full from None


def validate_request(context: Context, envelope: Envelope, correlation_id: str | None = None) -> ValidRequest:
    """Everything that can be wrong with a request, before anything is written. Raises Refusal."""
    protocol = context.registry.find(envelope.request_type)
    if protocol is None:
        known = context.registry.request_types
        raise Refusal(
            400,
            "PROTOCOL_UNKNOWN",
            f"no protocol for request_type {envelope.request_type!r}; known: {', '.join(known)}",
            errors=[("request_type", "is not known")],
            known=known,
        )
    settings = context.settings
    policies = [ReferencePolicy(settings.allowed_ref_schemes, settings.allowed_ref_hosts)]
    if (own := context.ref_hosts.get(normalise(envelope.tenant_id))) is not None:
        policies.append(ReferencePolicy(settings.allowed_ref_schemes, own))
    wrong: list[tuple[str, str]] = []
    for name, ref in (("input_ref", envelope.input_ref), ("output_ref", envelope.output_ref)):
        if (why := next(filter(None, (policy.violation(ref.uri) for policy in policies)), None)) is not None:
            wrong.append((f"{name}.uri", why))
    if envelope.dependencies:
        wrong.append(("dependencies", "are not supported by this version; submit the job when the others succeeded"))
    wrong += protocol.payload_errors(envelope.payload)
    try:
        lane_decision = decide_lane(
            envelope, default_mode=settings.default_mode, lanes=settings.lanes, modes=context.modes
        )
    except ValueError as missing:
        wrong.append(("doc_id", str(missing)))
    if wrong:
        raise Refusal(400, "REQUEST_INVALID", "the request does not fit its protocol; see errors", errors=wrong)
    request = ValidRequest(envelope, protocol, lane_decision, correlation_id)
    record, _ = plan_rows(context, request, context.new_job_id(), context.clock.now())
    for step in record.steps:
        size = len(encode_directive(directive_of(record, step)))
        if size > MAX_DIRECTIVE_BYTES:
            raise Refusal(
                413,
                "DIRECTIVE_TOO_LARGE",
                f"the directive of step {step.step_id} would be {size} bytes; at most {MAX_DIRECTIVE_BYTES} travel "
                "on the bus: put large parameters into a blob and name it",
            )
    return request


def orchestration_input(record: Record) -> dict[str, object]:
    """All that a job's orchestration starts from: `{"job_id", "steps"}`, a parallel group as a list in the list."""
    stages: list[str | list[str]] = []
    for step in record.steps:
        beside = record.group_of(step)
        if len(beside) == 1:
            stages.append(step.step_id)
        elif beside[0] is step:
            stages.append([sibling.step_id for sibling in beside])
    return {"job_id": record.job.job_id, "steps": stages}


async def _finish(context: Context, orchestrations: Orchestrations, request: ValidRequest, claim: Claim) -> Stored:
    """The job of a live claim; a creation that another began and left, or is at still, is finished here."""
    stored = await context.ledger.read(claim.job_id)
    if stored is None:
        record, event = plan_rows(context, request, claim.job_id, claim.created_at)
        stored = await write_rows(context, record, event)
    check_not_withdrawn(stored)
    job = stored.record.job
    if job.status is JobStatus.QUEUED and job.attempts_total == 0:
        # perhaps it was never started; an instance that runs is left alone
        await orchestrations.start(job.instance_id, orchestration_input(stored.record))
    return stored


async def write_rows(context: Context, record: Record, event: Event) -> Stored:
    """The job's rows, whoever wrote them. Raises LedgerUnavailable."""
    try:
        written = await context.ledger.create(record, event)
    except AlreadyExists:
        stored = await context.ledger.read(record.job.job_id)
        if stored is None:
            raise LedgerUnavailable("the job's rows are there and not there; try again") from None
        return stored
    telemetry.record_creation(record, event)
    return written


def check_not_withdrawn(stored: Stored) -> None:
    """LIFECYCLE "Creation": a creator that comes after the sweeper's tombstone answers 503."""
    if stored.record.job.error_code == Reason.WITHDRAWN:
        raise LedgerUnavailable("the creation of this job took too long and was withdrawn; send the request again")


def plan_rows(context: Context, request: ValidRequest, job_id: str, created_at: datetime) -> tuple[Record, Event]:
    return plan_job(
        request.envelope,
        request.protocol,
        request.lane_decision,
        context.settings.defaults,
        job_id=job_id,
        created_at=created_at,
        correlation_id=request.envelope.correlation_id or request.correlation_id or job_id,
        workspace_uri=context.settings.workspace_uri,
        gated=context.settings.max_inflight_per_tenant is not None,
    )


def is_expired(context: Context, claim: Claim) -> bool:
    return claim.expires_at is not None and claim.expires_at <= context.clock.now()
