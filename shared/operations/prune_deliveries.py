"""Old deliveries leave the tables with the events that they are of (R84)."""

from __future__ import annotations

from datetime import datetime

from shared.core.deliveries import EXPIRED, given_up
from shared.core.webhooks import DEFAULT_HOOK, HookAct
from shared.errors import Conflict
from shared.operations.change_hooks import FIRST_WAIT_S, MAX_CONFLICTS, HookChange, default_hook, write_change
from shared.operations.context import Context
from shared.ports.hooks import Hooks, StoredDelivery

#: rows of one transaction: two of each that is given up
_REMOVED, _GIVEN_UP = 100, 40


async def prune_deliveries(context: Context, tenant: str, before: datetime) -> None:
    """Those that ended before an instant go, and so does what waits for a hook that is no more. What waits for an event
    that is kept no more is given up first. Raises Contended, LedgerUnavailable."""
    hooks = context.hooks
    if hooks is None:
        return
    while await hooks.remove(tenant, before=before, limit=_REMOVED) == _REMOVED:
        pass
    for hook_id in await hooks.hooks_with_pending(tenant):
        if hook_id != DEFAULT_HOOK and await hooks.read(tenant, hook_id) is None:
            while await hooks.drop_pending(tenant, hook_id, limit=_REMOVED) == _REMOVED:
                pass
        elif hook_id != DEFAULT_HOOK or context.sender is not None:
            while await _give_up(context, hooks, tenant, hook_id, before) == _GIVEN_UP:
                pass


async def _give_up(context: Context, hooks: Hooks, tenant: str, hook_id: str, before: datetime) -> int:
    """The oldest; gives how many."""
    for conflicts in range(1, MAX_CONFLICTS + 1):
        stored = await (default_hook(context, tenant) if hook_id == DEFAULT_HOOK else hooks.read(tenant, hook_id))
        rows = await hooks.pending(tenant, hook_id, limit=_GIVEN_UP)
        old = [row for row in rows if row.delivery.created_at < before]
        if stored is None or not old:
            return 0
        try:
            await write_change(
                context,
                tenant,
                HookChange(
                    act=HookAct.DEAD,
                    before=stored,
                    after=stored.hook,
                    reason=EXPIRED,
                    data=_numbers(old),
                    deliveries=[
                        (row, given_up(stored.hook, row.delivery, EXPIRED, context.clock.now()).delivery) for row in old
                    ],
                ),
            )
        except Conflict:
            await context.sleep(FIRST_WAIT_S * 2**conflicts * context.random())
            continue
        return len(old)
    return 0


def _numbers(rows: list[StoredDelivery]) -> dict[str, int]:
    return {"deliveries": len(rows), "first": rows[0].delivery.number, "last": rows[-1].delivery.number}
