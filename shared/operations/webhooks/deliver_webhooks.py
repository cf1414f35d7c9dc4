"""Handles messages of the queue `lucius-webhooks` (R85). A message requests a try of a delivery, a probe of a webhook,
the start of waiting deliveries, or deliveries of past events.

The row decides. A try has no effect if its `tries` differ from its row, or if its webhook waits or is not enabled. The
request is sent first, and the result is written afterwards. So after a crash the request is sent again under the same
`webhook-id` (at least once).

The sweeper replaces lost messages.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TypeGuard
from urllib.parse import urlsplit

from shared import telemetry
from shared.core.records.canonical import digest
from shared.core.webhooks.deliveries import (
    EXPIRED,
    JOB_GONE,
    RecordedAnswer,
    enable_hook,
    give_up,
    is_for,
    record_answer,
)
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Answer, Delivery, DeliveryState, Hook, HookAct, HookState
from shared.errors import Conflict, Contended, LuciusError
from shared.operations.process.context import MAX_TRIES, Context
from shared.operations.webhooks.change_hooks import (
    LoggedHookChange,
    dead_logged,
    default_hook,
    hooks_of,
    write_change,
)
from shared.operations.webhooks.match_hooks import pending
from shared.operations.webhooks.post_webhook import post
from shared.operations.webhooks.send_deliveries import (
    catch_up_of,
    flow_of,
    probe_of,
    send_delivery_calls,
    send_tries,
    try_of,
)
from shared.ports.feed import FeedEvent
from shared.ports.hooks import HookWrite, StoredDelivery, StoredHook
from shared.ports.webhooks import FLOW, PROBE, TRY, DeliveryCall

#: maximum past events that one message turns into deliveries
_CAUGHT_UP = 50
#: maximum deliveries that one step of a flow starts
FLOW_ROWS = 20
#: number of oldest waiting deliveries, of which the one with the fewest tries is the probe. So one that always fails
#: does not block the webhook
_PROBE_AMONG = 20
_LINES = {
    HookAct.DISABLED: "HOOK_DISABLED",
    HookAct.SUSPENDED: "HOOK_SUSPENDED",
}


async def deliver(context: Context, call: DeliveryCall) -> None:
    """Does the requested action if the rows show that it is still due. Raises no error of LUCIUS, since the sweeper
    sends the message again.
    """
    if context.events is None or context.webhooks is None:
        return
    with telemetry.tolerate(LuciusError, "DELIVERY_PUT_OFF", tenant_id=call.tenant, hook_id=call.hook_id):
        if call.kind == TRY:
            await _try(context, call)
        elif call.kind == PROBE:
            await _probe(context, call)
        elif call.kind == FLOW:
            await _flow(context, call)
        else:
            await _catch_up(context, call.tenant, call.hook_id)


async def _try(context: Context, call: DeliveryCall) -> None:
    hooks = hooks_of(context)
    row = await hooks.delivery(call.tenant, call.hook_id, call.number, call.name)
    if not _is_due(row, call.tries):
        return
    is_default = call.hook_id == DEFAULT_HOOK
    stored = await (default_hook(context, call.tenant) if is_default else hooks.read(call.tenant, call.hook_id))
    if stored is not None and stored.hook.state is HookState.ENABLED and stored.hook.waits_until is None:
        await _deliver(context, stored, row, call)


def _is_due(row: StoredDelivery | None, tries: int) -> TypeGuard[StoredDelivery]:
    """Returns `True` if the delivery is pending and still has this number of tries."""
    return row is not None and row.delivery.state is DeliveryState.PENDING and row.delivery.tries == tries


async def _probe(context: Context, call: DeliveryCall) -> None:
    """Posts one delivery of a waiting webhook as a probe for all its waiting deliveries."""
    hooks = hooks_of(context)
    stored = await hooks.read(call.tenant, call.hook_id)
    if stored is None or not _is_probed(stored.hook, call):
        return
    rows = await hooks.pending(call.tenant, call.hook_id, limit=_PROBE_AMONG)
    if rows:
        row = min(rows, key=lambda row: row.delivery.tries)
        await _deliver(context, stored, row, call)
        return
    # the delivery that it waited for was deleted with its event
    well = enable_hook(stored.hook)
    await hooks.write(HookWrite(tenant=call.tenant, before=stored, after=well))


def _is_probed(hook: Hook, call: DeliveryCall) -> bool:
    waits = hook.state is HookState.ENABLED and hook.waits_until is not None
    return call.kind == PROBE and waits and hook.probe == call.tries


async def _flow(context: Context, call: DeliveryCall) -> None:
    """Starts waiting deliveries, at most `FLOW_ROWS` (20) at a time."""
    hooks = hooks_of(context)
    stored = await hooks.read(call.tenant, call.hook_id)
    if stored is None or stored.hook.state is not HookState.ENABLED or stored.hook.waits_until is not None:
        return
    if stored.hook.probe != call.tries:
        return
    after = (call.number, call.name) if call.number else None
    now = context.clock.now()
    # callbacks never wait for their webhook, so very many may have a later due time
    is_default = call.hook_id == DEFAULT_HOOK
    rows = await hooks.pending(
        call.tenant, call.hook_id, after=after, due_before=now if is_default else None, limit=FLOW_ROWS
    )
    # the messages of the others arrive when they are due
    due = [row.delivery for row in rows if row.delivery.due_at is None or row.delivery.due_at <= now]
    await send_tries(context, due)
    if len(rows) == FLOW_ROWS:
        last = rows[-1].delivery
        onward = replace(call, number=last.number, name=last.name)
        span = context.require_webhooks().calls.span(_receiver(stored.hook), FLOW_ROWS)
        await send_delivery_calls(context, [onward], at=context.clock.now() + span)


async def _catch_up(context: Context, tenant: str, hook_id: str) -> None:
    """Adds deliveries of the next past events, and requests a call for the events after them. Raises LedgerRefused,
    LedgerUnavailable.
    """
    hooks, place = hooks_of(context), -1
    # no wait, and no error at the end: another message of the kind, or the sweeper, continues
    for _ in range(MAX_TRIES):
        stored = await hooks.read(tenant, hook_id)
        if stored is None or stored.hook.state is not HookState.ENABLED or stored.hook.caught_up is None:
            return
        if place not in (-1, stored.hook.caught_up):
            # another message of the kind is working on it
            return
        place = stored.hook.caught_up
        write = await _past_events(context, stored, place)
        try:
            await hooks.write(write)
        except Conflict:
            continue
        await send_tries(context, [each for _, each in write.deliveries])
        assert write.after is not None
        if write.after.caught_up is not None:
            await send_delivery_calls(context, [catch_up_of(write.after)])
        return


async def _past_events(context: Context, stored: StoredHook, place: int) -> HookWrite:
    hook = stored.hook
    events = await context.require_events().feed.events(hook.tenant, after=place, limit=_CAUGHT_UP)
    past = [event for event in events if event.number < hook.first]
    rows = [pending(hook.tenant, event, hook.id) for event in past if is_for(hook, json.loads(event.text))]
    is_last = len(past) < _CAUGHT_UP or past[-1].number == hook.first - 1
    after = replace(hook, caught_up=None if is_last else past[-1].number)
    return HookWrite(tenant=hook.tenant, before=stored, after=after, deliveries=[(None, row) for row in rows])


async def _deliver(context: Context, stored: StoredHook, row: StoredDelivery, call: DeliveryCall) -> None:
    """Posts the delivery if a slot is free (`HookCalls.hold`). Otherwise sends its message again for a later time, or
    leaves the delivery to the sweeper.
    """
    delivery, hook = row.delivery, stored.hook
    event, url = await _event(context, delivery), await _url(context, hook, delivery)
    if event is None or url is None:
        await _write(context, stored, row, call, EXPIRED if event is None else JOB_GONE)
        return
    receiver, calls = _receiver(hook, url), context.require_webhooks().calls
    place = (hook.tenant, hook.id, delivery.number, delivery.name)
    if calls.is_in_hand(place):
        return
    with calls.hold(receiver, place) as has_room:
        if has_room:
            answer = await post(context, hook, url, webhook_id(delivery), event.text)
            calls.took(receiver, answer.took_ms / 1000)
            await _write(context, stored, row, call, answer)
    if not has_room and (at := calls.put_back(receiver, context.clock.now())) is not None:
        await send_delivery_calls(context, [call], at=at)


def _receiver(hook: Hook, url: str = "") -> str:
    """Returns the target whose concurrent calls are limited: a webhook, or a host of the tenant's callbacks, which
    other tenants may name too.
    """
    return f"{hook.tenant} {urlsplit(url).netloc.lower() if hook.id == DEFAULT_HOOK else hook.id}"


async def _event(context: Context, delivery: Delivery) -> FeedEvent | None:
    """Returns the event, or None if it was deleted."""
    found = await context.require_events().feed.events(delivery.tenant, after=delivery.number - 1, limit=1)
    return found[0] if found and found[0].number == delivery.number else None


async def _url(context: Context, hook: Hook, delivery: Delivery) -> str | None:
    """Returns the URL, or None if it is a callback whose job was deleted."""
    if hook.id != DEFAULT_HOOK or delivery.job_id is None:
        return hook.url
    stored = await context.ledger.read(delivery.job_id)
    targets = stored.record.job.callback_targets if stored is not None else None
    return targets.get(delivery.name) if targets is not None else None


def webhook_id(delivery: Delivery) -> str:
    """Returns the `webhook-id`: the same at each try, and different for each webhook."""
    name = f":{digest(delivery.name)[:16]}" if delivery.name else ""
    return f"{delivery.event_id}:{delivery.hook_id}{name}"


async def _write(
    context: Context, stored: StoredHook, row: StoredDelivery, call: DeliveryCall, found: Answer | str
) -> None:
    """Writes the result of a try, or the reason that prevented the try. Writes nothing if another process has changed
    the row.
    """
    hooks, now = hooks_of(context), context.clock.now()
    # a loop of its own, since a fresh read can end it, and a new URL changes the next call
    for conflicts in range(MAX_TRIES):
        if isinstance(found, str):
            result = give_up(stored.hook, row.delivery, found, now)
        else:
            is_probe = _is_probed(stored.hook, call)
            result = record_answer(stored.hook, row.delivery, found, now, is_probe=is_probe)
        try:
            if result.act is not None:
                await write_change(context, call.tenant, _change(context, stored, row, result))
            else:
                changed = result.hook != stored.hook
                write = HookWrite(
                    tenant=call.tenant,
                    before=stored if changed else None,
                    after=result.hook if changed else None,
                    deliveries=[(row, result.delivery)],
                )
                await hooks.write(write)
        except Conflict:
            await context.wait_after_conflict(conflicts)
            # the webhook counts all its deliveries, and another process may have written this row
            again = await hooks.read(call.tenant, call.hook_id)
            row_again = await hooks.delivery(call.tenant, call.hook_id, row.delivery.number, row.delivery.name)
            # an operator may have redelivered it in the meantime
            if again is None or not _is_due(row_again, row.delivery.tries):
                return
            if again.hook.url != stored.hook.url and not (isinstance(found, Answer) and found.is_success):
                # the response of the earlier URL does not count against the new one
                await send_tries(context, [row_again.delivery])
                return
            stored, row = again, row_again
            continue
        await _go_on(context, stored.hook, result)
        return
    raise Contended("concurrent writers changed the webhook at every try")


def _change(context: Context, stored: StoredHook, row: StoredDelivery, result: RecordedAnswer) -> LoggedHookChange:
    assert result.act is not None
    change = LoggedHookChange(
        act=result.act,
        before=stored,
        after=result.hook,
        reason=result.reason,
        deliveries=[(row, result.delivery)],
    )
    return dead_logged(context, change) if result.act is HookAct.DEAD else change


async def _go_on(context: Context, before: Hook, result: RecordedAnswer) -> None:
    """Sends the next messages after a try. The sweeper replaces lost messages."""
    hook, delivery = result.hook, result.delivery
    if delivery.state is DeliveryState.DEAD:
        telemetry.warn("DELIVERY_DEAD", tenant_id=hook.tenant, hook_id=hook.id, reason=result.reason)
    elif result.act is not None:
        telemetry.warn(_LINES[result.act], tenant_id=hook.tenant, hook_id=hook.id, reason=result.reason)
    outcome = "failed" if delivery.state is DeliveryState.PENDING else delivery.state.value.lower()
    telemetry.increment("webhook_tries_total", outcome=outcome)
    if result.flows:
        await send_delivery_calls(context, [flow_of(hook)])
    if hook.waits_until is not None and hook.probe != before.probe:
        await send_delivery_calls(context, [probe_of(hook)], at=hook.waits_until)
    if delivery.due_at is not None:
        await send_delivery_calls(context, [try_of(delivery)], at=delivery.due_at)
