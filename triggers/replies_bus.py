"""Service Bus triggers for replies. Each lane has a trigger, or all lanes share one trigger.

A function that returns completes its message. A function that raises an exception abandons its message immediately,
which uses one of its deliveries within milliseconds. So a transient fault is retried here while the host renews the
lock, and is raised only after the last try.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared import telemetry
from shared.errors import Transient, UnknownStatus
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.settings import SERVICEBUS_SETTING, Settings
from shared.time_limits import REPLY_S, RETRY_FOR_S, TAKE_S, limited, time_limit
from shared.wiring import Wiring

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 15.0


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes a function for each lane (`reply_p0`, `reply_p1` and so on), or `replies` for all lanes.

    The functions receive one message at a time, since a failure in a batch abandons all its messages.
    """
    bp = df.Blueprint()
    if wiring.reply_entities.are_shared:
        _register_shared(bp, wiring)
        return bp
    for lane in range(wiring.settings.lanes):
        _register(bp, wiring, wiring.settings, lane)
    return bp


def _register(bp: df.Blueprint, wiring: Wiring, settings: Settings, lane: int) -> None:
    @bp.function_name(f"reply_p{lane}")
    @bp.service_bus_topic_trigger(
        arg_name="message",
        topic_name=f"{settings.reply_prefix}{lane}",
        subscription_name=settings.reply_subscription,
        connection=SERVICEBUS_SETTING,
        # replies of any AMQP client: an AMQP value is text (decision 20)
        data_type=func.DataType.STRING,
    )
    @bp.durable_client_input(client_name="client")
    @limited(REPLY_S)
    async def reply(message: func.ServiceBusMessage, client) -> None:  # type: ignore[no-untyped-def]
        await _take(wiring, client, message, lane)


def _register_shared(bp: df.Blueprint, wiring: Wiring) -> None:
    @bp.function_name("replies")
    @bp.service_bus_queue_trigger(
        arg_name="message",
        queue_name=wiring.settings.reply_queue,
        connection=SERVICEBUS_SETTING,
        data_type=func.DataType.STRING,
    )
    @bp.durable_client_input(client_name="client")
    @limited(REPLY_S)
    async def replies(message: func.ServiceBusMessage, client) -> None:  # type: ignore[no-untyped-def]
        await _take(wiring, client, message, wiring.reply_entities.lane_of(message.application_properties))


async def _take(wiring: Wiring, client: Any, message: func.ServiceBusMessage, lane: int) -> None:
    started = time.monotonic()
    context = await wiring.fresh_context()
    await receive(context, wiring.orchestrations(client), _message(wiring, message, lane), started)


async def receive(
    context: Context, orchestrations: Orchestrations, message: ReplyMessage, started: float | None = None
) -> None:
    """Tries until the reply is processed, each time with a time limit. `started` is the start of the first try
    (`time.monotonic`).

    Raises Transient after the last try. Raises UnknownStatus and Undecodable immediately, since another instance may
    run a release that can read the job.
    """
    started, wait_s = time.monotonic() if started is None else started, _FIRST_WAIT_S
    while True:
        try:
            async with time_limit(TAKE_S):
                return await receive_reply(context, orchestrations, message)
        except UnknownStatus:
            raise
        except Transient as fault:
            if time.monotonic() - started + wait_s > RETRY_FOR_S:
                raise
            telemetry.record_fault(fault, "REPLY_RETRIED", lane=message.lane, message_id=message.message_id)
            message = replace(message, tried_before=True)
            await context.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _message(wiring: Wiring, message: func.ServiceBusMessage, lane: int) -> ReplyMessage:
    enqueued_at = message.enqueued_time_utc
    if enqueued_at is None:
        enqueued_at = wiring.context().clock.now()
    return ReplyMessage(
        body=message.get_body(),
        lane=lane,
        message_id=message.message_id or "",
        sequence_number=message.sequence_number or 0,
        delivery_count=message.delivery_count or 0,
        enqueued_at=enqueued_at if enqueued_at.tzinfo else enqueued_at.replace(tzinfo=UTC),
    )
