"""Sends lost messages of webhook deliveries again (R85)."""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.records.canonical import encode_key
from shared.core.webhooks.deliveries import is_log_due
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Delivery, Hook, HookState
from shared.errors import Conflict
from shared.operations.incidents.row_incidents import report_row
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.sweeper.turns import from_anywhere
from shared.operations.webhooks.change_hooks import log_dead
from shared.operations.webhooks.match_hooks import NOTED_EVERY
from shared.operations.webhooks.send_deliveries import catch_up_of, flow_of, probe_of, send_delivery_calls, send_tries
from shared.ports.hooks import Hooks, HookTenant, HookWrite, StoredHook

#: maximum deliveries of one webhook in a sweep, the oldest; if it is reached, the sweep starts a flow for all of them
MAX_OVERDUE = 100
#: delay after the due time at which a message counts as lost
_LATE = timedelta(minutes=1)
#: age at which the note of a tenant is dropped: several times the interval of notes
_FORGOTTEN_AFTER = 6 * NOTED_EVERY
#: maximum tenants at the same time
_AT_ONCE = 8


@dataclass
class FoundHooks:
    """The suspended webhooks and the undelivered events that a sweep found, for the gauges and the mark."""

    #: suspended webhooks by tenant
    suspended: Counter[str] = field(default_factory=Counter)
    #: creation time of the oldest event that an enabled webhook has not received, by tenant
    undelivered: dict[str, datetime] = field(default_factory=dict)
    #: tenants that the sweep did not check; None if it checked no tenant
    unseen: set[str] | None = None

    def update_suspended(self, before: Counter[str]) -> Counter[str]:
        """Returns the suspended webhooks by tenant. For an unseen tenant, the number is that of the previous sweep."""
        unseen = self.unseen if self.unseen is not None else before.keys()
        # a tenant at which the work failed after it was counted is in both
        return self.suspended | Counter({tenant: before[tenant] for tenant in unseen})

    def update_undelivered(self, before: Mapping[str, datetime]) -> dict[str, datetime]:
        """Returns the time of the oldest undelivered event of each tenant. For an unseen tenant, the time is that of
        the previous sweep.
        """
        unseen = before if self.unseen is None else self.unseen
        return {**{tenant: at for tenant, at in before.items() if tenant in unseen}, **self.undelivered}


async def heal_deliveries(context: Context, has: Callable[[str], bool], is_over: Callable[[], bool]) -> FoundHooks:
    """Repairs the deliveries of tenants with webhooks or callbacks. Rows that cannot be read wait for the next sweep.

    Raises nothing, since no job waits for a delivery.
    """
    if context.events is None or context.webhooks is None:
        return FoundHooks(unseen=set())
    hooks, found = context.events.hooks, FoundHooks()
    try:
        noted = [each for each in await hooks.list_noted() if has(each.tenant)]
    except Exception as fault:
        telemetry.record_fault(fault, "HOOKS_UNSEEN")
        return found
    found.unseen = unseen = {each.tenant for each in noted}

    async def one(each: HookTenant) -> None:
        if is_over():
            return
        try:
            await _heal(context, hooks, each, found)
            unseen.discard(each.tenant)
        except Exception as fault:
            telemetry.record_fault(fault, "HOOKS_UNSEEN", tenant_id=each.tenant)
            await report_row(context, f"{encode_key(each.tenant)} HOOK", fault)

    await run_concurrently(from_anywhere(noted, context.random), one, limit=_AT_ONCE)
    return found


async def _heal(context: Context, hooks: Hooks, noted: HookTenant, found: FoundHooks) -> None:
    tenant, now = noted.tenant, context.clock.now()
    known: dict[str, StoredHook | None] = {DEFAULT_HOOK: None}
    known |= {stored.hook.id: stored for stored in await hooks.all_of(tenant)}
    rows = await hooks.pending(tenant, None, limit=MAX_OVERDUE)
    if not rows and set(known) == {DEFAULT_HOOK} and now - noted.noted_at > _FORGOTTEN_AFTER:
        await hooks.forget(noted)
        return
    waiting: defaultdict[str, list[Delivery]] = defaultdict(list)
    for row in rows:
        waiting[row.delivery.hook_id].append(row.delivery)
    if len(rows) == MAX_OVERDUE:
        # other webhooks may have more
        for hook_id in known:
            of_hook = await hooks.pending(tenant, hook_id, limit=MAX_OVERDUE)
            waiting[hook_id] = [row.delivery for row in of_hook]
    # deliveries of a deleted webhook are not sent
    of_known = {hook_id: deliveries for hook_id, deliveries in waiting.items() if hook_id in known}
    _note(found, [stored.hook for stored in known.values() if stored is not None], of_known)
    for hook_id, stored in known.items():
        if stored is None:
            # the webhook does not exist yet, and nothing was tried
            await send_tries(context, [each for each in waiting[hook_id] if now - _find_due(each) > _LATE])
        else:
            await _look(context, hooks, stored, waiting[hook_id], now)


async def _find_late(hooks: Hooks, hook: Hook, waiting: Sequence[Delivery], now: datetime) -> list[Delivery]:
    """Returns the late deliveries, including those behind deliveries with a later due time. Failing callbacks can leave
    any number of late deliveries, each for half a day.
    """
    late = [each for each in waiting if now - _find_due(each) > _LATE]
    if len(late) == len(waiting) or len(waiting) < MAX_OVERDUE:
        return late
    behind = await hooks.pending(hook.tenant, hook.id, due_before=now - _LATE, limit=MAX_OVERDUE)
    # deliveries without a due time come only from the rows already read
    return [*(each for each in late if each.due_at is None), *(row.delivery for row in behind)][:MAX_OVERDUE]


async def _look(context: Context, hooks: Hooks, stored: StoredHook, waiting: Sequence[Delivery], now: datetime) -> None:
    hook = stored.hook
    if is_log_due(hook, now):
        await log_dead(context, stored)
        if (again := await hooks.read(hook.tenant, hook.id)) is None:
            return
        stored, hook = again, again.hook
    if hook.state is not HookState.ENABLED:
        return
    if hook.waits_until is not None:
        if now - hook.waits_until > _LATE:
            await send_delivery_calls(context, [probe_of(hook)])
        return
    late = await _find_late(hooks, hook, waiting, now)
    if len(late) == MAX_OVERDUE:
        # the rest is sent at the endpoint's rate; the flow of the last sweep becomes void
        hook = replace(hook, probe=hook.probe + 1)
        with contextlib.suppress(Conflict):
            await hooks.write(HookWrite(tenant=hook.tenant, before=stored, after=hook))
            await send_delivery_calls(context, [flow_of(hook)])
    else:
        await send_tries(context, late)
    if hook.caught_up is not None:
        await send_delivery_calls(context, [catch_up_of(hook)])


def _find_due(delivery: Delivery) -> datetime:
    """Returns the due time, or for a delivery that waits for its webhook, the time of its last try."""
    return delivery.due_at or delivery.tried_at or delivery.created_at


def _note(found: FoundHooks, known: Iterable[Hook], waiting: dict[str, list[Delivery]]) -> None:
    off = {hook.id for hook in known if hook.state is not HookState.ENABLED}
    found.suspended.update(hook.tenant for hook in known if hook.state is HookState.SUSPENDED)
    for hook_id, deliveries in waiting.items():
        if deliveries and hook_id not in off:
            oldest = deliveries[0]
            found.undelivered[oldest.tenant] = min(
                found.undelivered.get(oldest.tenant, oldest.created_at), oldest.created_at
            )
