"""Deletes old deliveries together with their events (R84), and old log entries (R88)."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.core.webhooks.deliveries import EXPIRED, give_up, with_dead
from shared.core.webhooks.webhooks import DEFAULT_HOOK, MAX_LOG
from shared.errors import Conflict
from shared.operations.process.context import MAX_TRIES, Context
from shared.operations.webhooks.change_hooks import default_hook, log_dead
from shared.ports.hooks import DeliveryPosition, Hooks, HookWrite

#: maximum rows of a transaction, and maximum given-up deliveries of one, with two rows each
_REMOVED, _GIVEN_UP = 100, 40


async def prune_deliveries(context: Context, tenant: str, before: datetime) -> None:
    """Deletes deliveries that ended earlier than `before`, and waiting deliveries of deleted webhooks.

    Abandons other waiting deliveries that were created earlier than `before`, since their events are deleted. Raises
    Contended, LedgerUnavailable.
    """
    if context.events is None:
        return
    hooks = context.events.hooks
    first = await _first_kept(context, tenant)
    for hook_id in await hooks.hooks_with_ended(tenant):
        place: DeliveryPosition | None = (first, "")
        while place is not None:
            place = await hooks.remove(tenant, hook_id, before=before, after=place, limit=_REMOVED)
    for hook_id in await hooks.hooks_with_pending(tenant):
        if hook_id != DEFAULT_HOOK and await hooks.read(tenant, hook_id) is None:
            while await hooks.drop_pending(tenant, hook_id, limit=_REMOVED) == _REMOVED:
                pass
        elif hook_id != DEFAULT_HOOK or context.webhooks is not None:
            await _give_up_all(context, hooks, tenant, hook_id, before)


async def prune_hook_logs(context: Context, tenant: str) -> None:
    """Keeps the newest `MAX_LOG` (1,000) entries of each webhook's log, and deletes old logs of deleted webhooks.

    An endpoint that refuses everything adds an entry a minute. Raises LedgerUnavailable.
    """
    if context.events is None:
        return
    hooks, settings = context.events.hooks, context.settings
    kept = {each.hook.id: each.hook for each in await hooks.all_of(tenant)}
    for hook in kept.values():
        while hook.log_seq > MAX_LOG:
            if await hooks.drop_log(tenant, hook.id, to=hook.log_seq - MAX_LOG, limit=_REMOVED) < _REMOVED:
                break
    # a webhook that is created in the meantime with the same id has no entry this old
    before = context.clock.now() - timedelta(days=max(settings.change_log_days, settings.feed_days))
    for hook_id in await hooks.hooks_with_log(tenant):
        while hook_id not in kept:
            if await hooks.drop_log(tenant, hook_id, before=before, limit=_REMOVED) < _REMOVED:
                break


async def _first_kept(context: Context, tenant: str) -> int:
    """Returns the number of the first event in the feed, or the next number if the feed is empty."""
    feed = context.require_events().feed
    kept = await feed.events(tenant, after=0, limit=1)
    return kept[0].number if kept else (await feed.head(tenant)).number + 1


async def _give_up_all(context: Context, hooks: Hooks, tenant: str, hook_id: str, before: datetime) -> None:
    """Abandons all deliveries of a webhook that were created earlier than `before`. The log gets one entry for them,
    and the feed gets one event.
    """
    if not await _has_old(hooks, tenant, hook_id, before):
        return
    # after a crash before the log is written, the sweeper writes it
    await hooks.note(tenant, context.clock.now())
    while await _give_up(context, hooks, tenant, hook_id, before) == _GIVEN_UP:
        pass
    stored = await hooks.read(tenant, hook_id)
    if stored is not None and stored.hook.unlogged:
        await log_dead(context, stored)


async def _has_old(hooks: Hooks, tenant: str, hook_id: str, before: datetime) -> bool:
    oldest = await hooks.pending(tenant, hook_id, limit=1)
    return bool(oldest) and oldest[0].delivery.created_at < before


async def _give_up(context: Context, hooks: Hooks, tenant: str, hook_id: str, before: datetime) -> int:
    """Abandons at most `_GIVEN_UP` (40) deliveries that were created earlier than `before`. Returns their number."""
    # a loop of its own, without an error at the end, since the next sweep continues
    for conflicts in range(MAX_TRIES):
        stored = await (default_hook(context, tenant) if hook_id == DEFAULT_HOOK else hooks.read(tenant, hook_id))
        rows = await hooks.pending(tenant, hook_id, limit=_GIVEN_UP)
        old = [row for row in rows if row.delivery.created_at < before]
        if stored is None or not old:
            return 0
        after, now = stored.hook, context.clock.now()
        for row in old:
            after = with_dead(after, row.delivery.number, EXPIRED)
        dead = [(row, give_up(after, row.delivery, EXPIRED, now).delivery) for row in old]
        try:
            # without HEAD, which the writers of the feed need: only the log entry is ordered by it
            await hooks.write(HookWrite(tenant=tenant, before=stored, after=after, deliveries=dead))
        except Conflict:
            await context.wait_after_conflict(conflicts)
            continue
        return len(old)
    return 0
