"""Once an hour every tenant's feed is looked at: old events leave it, after `LUCIUS_FEED_DAYS` and the first ones first
(R74), and what no process passes on to the topic is passed on (R81). Once a day it deletes unneeded rows (R88)."""

from __future__ import annotations

from datetime import timedelta

from shared import telemetry
from shared.core.audit.heads import day_of
from shared.errors import LuciusError
from shared.operations.context import Context
from shared.operations.events.feed_writer import FORGETTABLE_AFTER
from shared.operations.process.concurrency import at_once
from shared.operations.webhooks.prune_deliveries import prune_deliveries, prune_hook_logs

#: UTC: what grows by a few rows a day is not looked for in each hour
DAILY_HOUR = 3
#: events that one call removes
MAX_REMOVED = 100
#: tenants at the same time
_AT_ONCE = 8
#: for events that no process relayed
_CATCH_UP = timedelta(minutes=2)
#: no two clocks are so far apart
_SKEW = timedelta(days=1)


async def _prune_heads(context: Context, tenant: str) -> None:
    if context.audit is None:
        return
    before = day_of(context.clock.now() - timedelta(days=context.settings.change_log_days))
    while await context.audit.heads.remove_before(tenant, before, limit=MAX_REMOVED) == MAX_REMOVED:
        pass


async def prune_feeds(context: Context) -> int:
    """Deletes old events of all feeds and returns their number. Events of a tenant whose rows cannot be read stay until
    the next time.

    An event that is too old is deleted whether or not the topic has it.

    Raises LedgerUnavailable if the feeds cannot be listed.
    """
    if context.events is None:
        return 0
    feed, relay = context.events.feed, context.events.relay
    now = context.clock.now()
    before, forgettable = now - timedelta(days=context.settings.feed_days), now - FORGETTABLE_AFTER - _SKEW

    async def one(tenant: str) -> int:
        count = 0
        with telemetry.tolerate(LuciusError, "FEED_UNPRUNED", tenant_id=tenant):
            while removed := await feed.remove(tenant, before=before, limit=MAX_REMOVED):
                count += removed
                if removed < MAX_REMOVED:
                    break
            if relay is not None:
                await relay.find_unsent(tenant)
            await prune_deliveries(context, tenant, before)
            if now.hour == DAILY_HOUR:
                while await feed.forget_incidents(tenant, before=forgettable, limit=MAX_REMOVED) == MAX_REMOVED:
                    pass
                await prune_hook_logs(context, tenant)
                await _prune_heads(context, tenant)
        return count

    # not those that ever posted: a tenant with a changed quota or webhook may never have had a job
    total = sum(await at_once(sorted(await feed.tenants()), one, limit=_AT_ONCE))
    if relay is not None:
        await relay.catch_up(context.clock.now() + _CATCH_UP)
    telemetry.info("FEEDS_PRUNED", count=total)
    return total
