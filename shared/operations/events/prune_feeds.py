"""Prunes every tenant's feed once an hour.

Deletes events older than `LUCIUS_FEED_DAYS`, the oldest first (R74). Sends unsent events to the topic (R81). Once a
day, also deletes rows that are no longer needed (R88).
"""

from __future__ import annotations

from datetime import timedelta

from shared import telemetry
from shared.core.audit.heads import day_of
from shared.errors import LuciusError
from shared.operations.events.feed_writer import FORGETTABLE_AFTER
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.webhooks.prune_deliveries import prune_deliveries, prune_hook_logs

#: UTC hour of the daily part, for rows that grow slowly
DAILY_HOUR = 3
#: maximum rows that one call of the store deletes
MAX_REMOVED = 100
#: maximum tenants at the same time
_AT_ONCE = 8
#: maximum time for relaying events
_CATCH_UP = timedelta(minutes=2)
#: maximum difference between two clocks
_SKEW = timedelta(days=1)


async def _prune_heads(context: Context, tenant: str) -> None:
    if context.audit is None:
        return
    before = day_of(context.clock.now() - timedelta(days=context.settings.change_log_days))
    while await context.audit.heads.remove_before(tenant, before, limit=MAX_REMOVED) == MAX_REMOVED:
        pass


async def prune_feeds(context: Context) -> int:
    """Deletes old events of all feeds and returns their number.

    A tenant whose rows cannot be read keeps its events until the next call. Expired events are deleted even if the
    topic does not have them. Raises LedgerUnavailable if the feeds cannot be listed.
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

    # all tenants with a feed, since one with a changed quota or webhook may never have had a job
    total = sum(await run_concurrently(sorted(await feed.tenants()), one, limit=_AT_ONCE))
    if relay is not None:
        await relay.catch_up(context.clock.now() + _CATCH_UP)
    telemetry.info("FEEDS_PRUNED", count=total)
    return total
