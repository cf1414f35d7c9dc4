"""Applies replies that no function reads (R37): dead-lettered replies, and replies that a change of `LUCIUS_REPLIES`
left in the shared queue.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from shared import telemetry
from shared.errors import ReplyUnfit, Transient
from shared.operations.jobs.replies.apply import parse_reply
from shared.operations.jobs.replies.receive import ReplyMessage, quarantine, receive_reply
from shared.operations.process.context import Context
from shared.ports.bus import DeadReply
from shared.ports.durable import Orchestrations
from shared.time_limits import TAKE_S, time_limit

#: maximum lanes at the same time; each needs a connection of its own
LANES_AT_ONCE = 8


@dataclass
class Drained:
    """The dead replies that were applied or quarantined, or with `dry_run`, those that were found."""

    replies: int = 0
    #: lanes that may still have dead letters: a call to the bus failed, or a limit was reached
    unfinished: set[int] = field(default_factory=set)
    #: jobs whose replies could not be accepted now and are still there
    unheard: set[str] = field(default_factory=set)


async def drain_replies(context: Context, orchestrations: Orchestrations, *, dry_run: bool = False) -> Drained:
    """Applies the dead replies of each lane and of the shared queue, as the bus trigger does.

    Raises no transient error. A reply that cannot be applied now stays, and the next replies are applied.
    """
    drained, lanes = Drained(), range(context.settings.lanes)
    semaphore = asyncio.Semaphore(LANES_AT_ONCE)

    async def look(lane: int | None) -> None:
        left = 0

        async def take(reply: DeadReply) -> bool:
            nonlocal left
            try:
                await _take(context, orchestrations, reply)
            except Transient as fault:
                left += 1
                telemetry.record_fault(fault)
                drained.unheard |= _jobs_named_in(reply)
                return False
            drained.replies += 1
            return True

        async with semaphore:
            try:
                if dry_run:
                    lying = await context.bus.dead_replies.waiting(lane)
                    drained.replies += lying  # Race dead-count: added after the wait, since other lanes count too
                else:
                    if not await context.bus.dead_replies.drain(lane, take):
                        drained.unfinished |= lanes_of(lane)
                    if left:
                        telemetry.warn("DEAD_REPLIES_UNFINISHED", lane=lane, count=left, reason="not applied now")
            except Exception as fault:
                drained.unfinished |= lanes_of(lane)
                telemetry.record_fault(fault, "DEAD_REPLIES_UNFINISHED", lane=lane)

    def lanes_of(lane: int | None) -> set[int]:
        return set(lanes) if lane is None else {lane}

    await asyncio.gather(*(look(lane) for lane in (None, *lanes)))
    if drained.replies and not dry_run:
        telemetry.increment("dead_replies_total", drained.replies)
    if drained.replies:
        telemetry.warn("DEAD_REPLIES", count=drained.replies, dry_run=dry_run or None)
    return drained


async def _take(context: Context, orchestrations: Orchestrations, reply: DeadReply) -> None:
    message = ReplyMessage(
        body=reply.body,
        lane=reply.lane,
        message_id=reply.message_id,
        sequence_number=reply.sequence_number,
        delivery_count=reply.delivery_count,
        enqueued_at=reply.enqueued_at,
        dead_letter=reply.reason,
    )
    try:
        async with time_limit(TAKE_S):
            await receive_reply(context, orchestrations, message)
    except Transient:
        raise
    except Exception as bug:
        # the app has failed at most dead letters ten times already; one must not stop every sweep
        await quarantine(context, message, "FAILED", f"{type(bug).__name__}: {bug}")


def _jobs_named_in(reply: DeadReply) -> set[str]:
    """Returns the id of the job in the message, or an empty set if the message is not a reply."""
    try:
        return {parse_reply(reply.body).jobId}
    except ReplyUnfit:
        return set()
