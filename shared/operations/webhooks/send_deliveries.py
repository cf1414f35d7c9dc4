"""Sends messages about deliveries that can be tried. The row of a delivery decides their effect (R85)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from shared import telemetry
from shared.core.webhooks.webhooks import Delivery, Hook
from shared.errors import LuciusError
from shared.operations.process.context import Context
from shared.ports.webhooks import CATCH_UP, FLOW, PROBE, DeliveryCall


async def send_tries(context: Context, deliveries: Sequence[Delivery]) -> None:
    """Sends a message for each delivery to try now. Raises nothing, since the sweeper replaces lost messages."""
    await send_delivery_calls(context, [try_of(each) for each in deliveries])


async def send_delivery_calls(context: Context, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
    """Sends the calls now, or at the given time. Raises nothing."""
    webhooks, now = context.webhooks, context.clock.now()
    if webhooks is None or not calls or webhooks.calls.is_quiet(now):
        return
    try:
        await webhooks.deliveries.send(calls, at=at)
    except LuciusError as fault:
        webhooks.calls.be_quiet(context.clock.now())
        telemetry.record_fault(fault, "DELIVERIES_LOST", count=len(calls))


def try_of(delivery: Delivery) -> DeliveryCall:
    return DeliveryCall(
        tenant=delivery.tenant,
        hook_id=delivery.hook_id,
        number=delivery.number,
        name=delivery.name,
        tries=delivery.tries,
    )


def probe_of(hook: Hook) -> DeliveryCall:
    return DeliveryCall(tenant=hook.tenant, hook_id=hook.id, tries=hook.probe, kind=PROBE)


def flow_of(hook: Hook) -> DeliveryCall:
    """Makes the call that continues with the oldest waiting delivery."""
    return DeliveryCall(tenant=hook.tenant, hook_id=hook.id, tries=hook.probe, kind=FLOW)


def catch_up_of(hook: Hook) -> DeliveryCall:
    return DeliveryCall(tenant=hook.tenant, hook_id=hook.id, kind=CATCH_UP)
