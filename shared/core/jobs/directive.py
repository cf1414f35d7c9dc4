"""The directive of an attempt, made from its STEP row (R36)."""

from __future__ import annotations

from typing import Any

from shared.contracts.messages import ABSENT_WHERE_NONE, Callbacks, Directive
from shared.contracts.reference import Reference
from shared.core.jobs.job import Record, Step

#: maximum size of a directive without its callbacks; Service Bus Standard allows 256 KB for a message with its
#: properties
MAX_DIRECTIVE_BYTES = 192 * 1024

#: placeholder for references that do not exist yet when POST checks sizes
_UNKNOWN = {"uri": "https://unknown.invalid/" + "x" * 480}


def directive_of(record: Record, step: Step, callback_urls: Callbacks | None = None) -> Directive:
    """Makes the message of the step's current attempt. Except for `callback_urls`, whose token expires, the same
    attempt always has the same message.
    """
    job, last = record.job, record.last
    final = step in last
    return Directive(
        jobId=job.job_id,
        tenant_id=job.tenant_id,
        stepId=step.step_id,
        protocol_id=job.protocol_id,
        step_type=step.step_type,
        attempt_no=step.attempt_no,
        lease_id=step.lease_id or "",
        input_ref=_reference(step.input_ref),
        input_refs=_input_refs(record, step),
        workspace_ref=_reference(step.workspace_ref),
        output_ref=_reference(step.output_ref or job.output_ref),
        final=final,
        final_index=last.index(step) if final and len(last) > 1 else None,
        first_job_id=job.first_job_id,
        payload=step.payload,
        mode=step.resolved_mode,
        lane=step.lane,
        routing_key_used=step.routing_key_used,
        correlation_id=job.correlation_id,
        traceparent=job.traceparent,
        callback_urls=callback_urls,
    )


def message_id(job_id: str, step_id: str, attempt_no: int) -> str:
    """Returns `{job_id}:{step_id}:{attempt_no}`. Within 30 minutes, the bus drops a second message with this id as a
    duplicate.
    """
    return f"{job_id}:{step_id}:{attempt_no}"


def encode_directive(directive: Directive) -> bytes:
    off = {name for name in ABSENT_WHERE_NONE if getattr(directive, name) is None}
    return directive.model_dump_json(exclude=off).encode("utf-8")


def _input_refs(record: Record, step: Step) -> dict[str, Reference] | None:
    """Returns the results of the steps of the group before, or None if the step before is in no group.

    All steps of the group SUCCEEDED, so every publish has the same results.
    """
    before = record.before(step)
    return {each.step_id: _reference(each.next_input) for each in before} if len(before) > 1 else None


def _reference(ref: Any) -> Reference:
    return Reference.model_validate(ref or _UNKNOWN)
