"""A job, its directives and its replies, as the observed app gets them."""

from __future__ import annotations

import json
from typing import Any

from shared.contracts.messages import Directive
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from tests.jobs import envelope
from tests.operations.conftest import World


async def submitted(world: World, **more: Any) -> str:
    created = await create_job(world.context, world.orchestrations, envelope(**more), correlation_id="corr-1")
    return created.stored.record.job.job_id


async def dispatched(world: World, job_id: str, step_id: str) -> Directive:
    await dispatch_step(world.context, world.orchestrations, job_id=job_id, instance_id=job_id, step_id=step_id)
    return world.publisher.sent[-1]


async def replied(world: World, directive: Directive, type_: str, **fields: Any) -> None:
    body = {
        "type": type_,
        **directive.model_dump(include={"jobId", "stepId", "tenant_id", "attempt_no", "lease_id"}),
        "timestamp": world.clock.now().isoformat(),
        **fields,
    }
    if type_ == "RESULT":
        body.setdefault("status", "SUCCEEDED")
    await receive_reply(
        world.context,
        world.orchestrations,
        ReplyMessage(
            body=json.dumps(body).encode(),
            lane=directive.lane,
            message_id=f"{type_}-{directive.attempt_no}",
            sequence_number=1,
            delivery_count=fields.pop("delivery_count", 1),
            enqueued_at=world.clock.now(),
        ),
    )
