"""Replies that are made to be refused by a store, on the real one: each is dealt with at its first delivery."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import ReplyUnfit
from shared.operations.jobs.rejected_messages import list_rejected, read_rejected, redrive_rejected, what_if
from shared.operations.jobs.replies.apply import apply_reply
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.refusals import StillNotApplicable
from tests.adapters.conftest import Storage
from tests.jobs import START, reply
from tests.operations.conftest import World, built
from tests.operations.support import dispatch, submitted

#: change in a heartbeat of the job's current attempt, and whether the message is then quarantined
HOSTILE: dict[str, tuple[dict[str, Any], bool]] = {
    "an attempt past 32 bits": ({"attempt_no": 2**31}, True),
    "an attempt past 64 bits": ({"attempt_no": 2**63}, True),
    "an attempt of 4,000 digits": ({"attempt_no": 10**3999}, True),
    "the last attempt that fits": ({"attempt_no": 2**31 - 1}, False),
    "a job that is a query": ({"jobId": "x' or PartitionKey ne 'x"}, True),
    "a job that is no key": ({"jobId": "a/b\\c#d?e%00"}, True),
    "a job of control characters": ({"jobId": "\x00\x01\x1f\x7f\x85\n"}, True),
    "a job of wide characters": ({"jobId": "\N{GRINNING FACE}" * 256}, True),
    "a step of control characters": ({"stepId": "\x00\x01\x1f\x7f\n"}, True),
    "a step of wide characters": ({"stepId": "\N{GRINNING FACE}" * 256}, True),
    "a lease of control characters": ({"lease_id": "\x00'\n"}, False),
    "noncharacters": ({"note": "\uffff\ufffe\x00"}, False),
    "a long note": ({"note": "\N{GRINNING FACE}" * 40_000}, False),
    "numbers past 64 bits": ({"progress": {"page": 10**300, "of": -(2**64), "part": 1e308}}, False),
    "a number past all doubles": ({"progress": {"page": 10**4000}}, True),
    "the first instant": ({"timestamp": "0001-01-01T00:00:00+23:59"}, False),
    "the last instant": ({"timestamp": "9999-12-31T23:59:59-23:59"}, False),
    "a long error": (
        {"type": "RESULT", "status": "FAILED_RETRY", "error": {"code": "\x00" * 128, "message": "m\x00" * 100_000}},
        False,
    ),
    "a reference with members": (
        {"type": "RESULT", "status": "SUCCEEDED", "result_ref": {"uri": "https://a/b", "PartitionKey": [10**300]}},
        False,
    ),
}


async def at_work(storage: Storage) -> tuple[World, str]:
    """Returns a job whose attempt was dispatched, over the store."""
    world = built(storage.ledger)  # type: ignore[arg-type]  # any ledger will do
    context = replace(world.context, index=storage.index, rejected=storage.rejected)
    world = replace(world, context=context)
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    return world, job_id


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_reply_burns_no_delivery(storage: Storage, name: str) -> None:
    """Applied, recorded as late, or parked with the reason; parked again by a second delivery, it is one row."""
    changes, parked = HOSTILE[name]
    world, job_id = await at_work(storage)
    body = json.loads(reply(await world.job(job_id), "HEARTBEAT").model_dump_json(exclude_none=True)) | changes
    message = ReplyMessage(
        body=json.dumps(body).encode(),
        lane=15,
        message_id="m'\x01\n",
        sequence_number=2**62,
        delivery_count=1,
        enqueued_at=START,
    )
    for delivery_count in (1, 2):
        await receive_reply(world.context, world.orchestrations, replace(message, delivery_count=delivery_count))
    found, _ = await list_rejected(world.context, day=START.date(), after=None, limit=10)
    assert len(found) == parked
    for each in found:
        assert len(each.detail) < 1000
        assert (await what_if(world.context, await read_rejected(world.context, each.id)))[0] == "REJECTED"
        with pytest.raises(StillNotApplicable):
            await redrive_rejected(world.context, world.orchestrations, each.id)


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_a_value_that_fits_no_column_is_refused_for_good(storage: Storage) -> None:
    """Also a value that the contract would accept; the message does not repeat the value."""
    world, job_id = await at_work(storage)
    too_large = reply(await world.job(job_id), "HEARTBEAT").model_copy(update={"attempt_no": 2**31})
    with pytest.raises(ReplyUnfit, match="LEDGER_REFUSED") as unfit:
        await apply_reply(world.context, world.orchestrations, too_large, cause_id="message:1", source="bus")
    assert str(2**31) not in str(unfit.value)
