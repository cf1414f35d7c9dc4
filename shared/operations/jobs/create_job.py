"""Creates a job, from the request to the running orchestration (R15, R29)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.access.webhook_addresses import AddressPolicy
from shared.contracts.envelope import Envelope
from shared.core.jobs.directive import MAX_DIRECTIVE_BYTES, directive_of, encode_directive
from shared.core.jobs.job import Record
from shared.core.jobs.plan import Digests, compute_digests, plan_job, with_first_event
from shared.core.jobs.routing import LaneDecision, decide_lane, normalise
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import MAX_KEY, encode_key
from shared.core.registry import Protocol
from shared.core.webhooks.deliveries import MAX_CALLBACKS_OF_HOST
from shared.errors import Contended
from shared.operations.jobs.admission import notify
from shared.operations.jobs.creation import MAX_CLAIM_RACES, Created, initial_status_of, is_expired, reserve, write_rows
from shared.operations.jobs.dependencies import find_dependencies
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.references import wrong_references
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.index import Claim
from shared.ports.ledger import Stored
from shared.refusals import DirectiveTooLarge, IdempotencyConflict, ProtocolUnknown, RequestInvalid
from shared.telemetry.spans import submit_span
from shared.webhook_refusals import HookUrlRefused


@dataclass(frozen=True)
class ValidRequest:
    """A request that passed validation."""

    envelope: Envelope
    identity: Digests
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
    """Creates a job: first its idempotency record, then its rows, then the orchestration.

    Raises Refused, and Transient if a retry may succeed. `own_trace`: the job gets a trace of its own, since one
    request creates many jobs.
    """
    with submit_span(envelope, own_trace=own_trace) as (traced, report):
        created = await _create(context, orchestrations, traced, correlation_id)
        report(created.stored.record.job, created.replayed)
        return created


async def _create(
    context: Context, orchestrations: Orchestrations, envelope: Envelope, correlation_id: str | None
) -> Created:
    request = validate_request(context, envelope, correlation_id)
    async with context.process.submissions.turn(normalise(envelope.tenant_id)):
        return await _create_valid(context, orchestrations, request)


async def _create_valid(context: Context, orchestrations: Orchestrations, request: ValidRequest) -> Created:
    identity = request.identity
    tenant = normalise(request.envelope.tenant_id)
    for tries in range(MAX_CLAIM_RACES):
        # most requests are new, so the idempotency record is written first, and read if that fails. A request with
        # dependencies reads the record first, since the dependencies of a duplicate may be deleted
        looks = tries or request.envelope.dependencies
        claim = await context.index.read_claim(tenant, identity.claim) if looks else None
        live = claim is not None and not is_expired(context, claim)
        if claim is not None and live:
            if claim.body_hash != identity.body:
                raise IdempotencyConflict(claim.job_id)
            return Created(await _finish(context, orchestrations, request, claim), replayed=True)
        dependencies = await find_dependencies(context, tenant, request.envelope.dependencies)
        job_id, now = context.new_job_id(), context.clock.now()
        record = plan_record(context, request, job_id, now, dependencies=dependencies)
        record, event = with_first_event(record, context.new_salt())
        if (reserved := await reserve(context, orchestrations, record, replacing=claim)) is None:
            continue
        if reserved.initial_status is not record.job.status:
            record = plan_record(context, request, job_id, now, reserved.initial_status, dependencies)
            record, event = with_first_event(record, context.new_salt())
        stored = await reconcile_place(context, orchestrations, await write_rows(context, record, event))
        await notify(context, orchestrations, tenant, reserved.entered)
        await context.process.usage_buffer.see(context.usage, record.job, now)
        await context.process.usage_buffer.write_refused(context.of_all_tenants.usage, now)
        return Created(stored, replayed=False, decision=reserved.decision)
    raise Contended("the idempotency record of this request changed at every try")


def validate_request(context: Context, envelope: Envelope, correlation_id: str | None = None) -> ValidRequest:
    """Checks a request, except its dependencies, before anything is written. Returns the valid request.

    Raises Refused, ConfigurationUnavailable.
    """
    identity = compute_digests(envelope)
    protocol = _protocol(context, envelope, identity)
    settings = context.settings
    refs = {"input_ref": envelope.input_ref.model_dump(), "output_ref": envelope.output_ref.model_dump()}
    wrong = wrong_references(context, normalise(envelope.tenant_id), refs)
    if (long := len(encode_key(normalise(envelope.tenant_id)))) > MAX_KEY:
        wrong.append(
            (
                "tenant_id",
                f"must have at most {MAX_KEY} characters when encoded as a storage key, not {long}; use a shorter name "
                "with letters a-z",
            )
        )
    wrong += protocol.payload_errors(envelope.payload)
    try:
        lane_decision = decide_lane(
            envelope, default_mode=settings.default_mode, lanes=settings.lanes, modes=context.modes
        )
    except ValueError as missing:
        wrong.append(("doc_id", str(missing)))
    if wrong:
        raise RequestInvalid(wrong)
    _check_callbacks(context, envelope)
    request = ValidRequest(envelope, identity, protocol, lane_decision, correlation_id)
    record = plan_record(context, request, context.new_job_id(), context.clock.now())
    for step in record.steps:
        size = len(encode_directive(directive_of(record, step)))
        if size > MAX_DIRECTIVE_BYTES:
            raise DirectiveTooLarge(step.step_id, size, MAX_DIRECTIVE_BYTES)
    return request


def _protocol(context: Context, envelope: Envelope, identity: Digests) -> Protocol:
    """Returns the version that the request names, or the version that the ramp selects. Raises ProtocolUnknown,
    RequestInvalid.
    """
    name, version = envelope.request_type, envelope.protocol_version
    selected = context.registry.select(name, identity.claim)
    if selected is None:
        raise ProtocolUnknown(name, context.registry.request_types)
    if version is None:
        return selected
    versions = {each.definition.version: each for each in context.registry.versions(name)}
    if version not in versions:
        known = ", ".join(map(str, sorted(versions)))
        raise RequestInvalid([("protocol_version", f"must be a loaded version of {name} ({known}), not {version}")])
    return versions[version]


def _check_callbacks(context: Context, envelope: Envelope) -> None:
    """Checks the callback URLs in the same way as each post to them (R86). Raises HookUrlRefused."""
    policy = AddressPolicy(context.settings.webhook_hosts).of(normalise(envelope.tenant_id))
    hosts = Counter[str]()
    for name, url in (envelope.callback_urls.model_dump() if envelope.callback_urls else {}).items():
        try:
            hosts[host := policy.target(url).host] += 1
        except HookUrlRefused as refused:
            raise HookUrlRefused(refused.why, f"callback_urls.{name}") from None
        if hosts[host] > MAX_CALLBACKS_OF_HOST:
            why = f"must have another host; a job can have at most {MAX_CALLBACKS_OF_HOST} callback URLs of one host"
            raise HookUrlRefused(why, f"callback_urls.{name}")


async def _finish(context: Context, orchestrations: Orchestrations, request: ValidRequest, claim: Claim) -> Stored:
    """Returns the job of a valid idempotency record, and finishes its creation if another request began it."""
    stored = await context.ledger.read(claim.job_id)
    if stored is None:
        tenant = normalise(request.envelope.tenant_id)
        initial_status = await initial_status_of(context, tenant, claim.job_id)
        dependencies = await find_dependencies(context, tenant, request.envelope.dependencies)
        record = plan_record(context, request, claim.job_id, claim.created_at, initial_status, dependencies)
        stored = await write_rows(context, *with_first_event(record, context.new_salt()))
    return await reconcile_place(context, orchestrations, stored)


def plan_record(
    context: Context,
    request: ValidRequest,
    job_id: str,
    created_at: datetime,
    initial_status: JobStatus = JobStatus.QUEUED,
    dependencies: Sequence[str] = (),
) -> Record:
    return plan_job(
        request.envelope,
        request.protocol,
        request.lane_decision,
        context.settings.timing_defaults,
        job_id=job_id,
        created_at=created_at,
        correlation_id=request.envelope.correlation_id or request.correlation_id or job_id,
        workspace_uri=context.settings.workspace_uri,
        identity=request.identity,
        initial_status=initial_status,
        dependencies=dependencies,
    )
