"""The reply function's own retries."""

from __future__ import annotations

import asyncio

import pytest

from shared.core.jobs.states import StepStatus
from shared.operations.jobs.replies.receive import ReplyMessage
from shared.ports.ledger import Stored
from tests.jobs import START, reply
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import built
from tests.operations.support import dispatch, submitted
from triggers import replies_bus


async def test_a_reply_is_given_up_in_time_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that hangs once costs one try, and not the lock of the message."""
    world = built(MemoryLedger())
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    message = ReplyMessage(
        body=reply(await world.job(job_id), "ACK").model_dump_json(exclude_none=True).encode(),
        lane=15,
        message_id="m",
        sequence_number=1,
        delivery_count=1,
        enqueued_at=START,
    )
    # another process committed last
    world.context.process.recent_jobs.forget(job_id)
    read, hung = world.ledger.read, list[str]()

    async def read_or_hang(asked: str) -> Stored | None:
        if not hung:
            hung.append(asked)
            await asyncio.sleep(600)
        return await read(asked)

    monkeypatch.setattr(world.ledger, "read", read_or_hang)
    monkeypatch.setattr(replies_bus, "TAKE_S", 0.05)
    await replies_bus.receive(world.context, world.orchestrations, message)
    assert (await world.job(job_id)).steps[0].status is StepStatus.PROCESSING
