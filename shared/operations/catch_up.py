"""Events of before a hook was made go to it, where it asks for them (R84)."""

from __future__ import annotations

import json
from dataclasses import replace

from shared.core.deliveries import is_for
from shared.core.webhooks import HookState
from shared.errors import Conflict
from shared.operations.change_hooks import MAX_CONFLICTS, hooks_of
from shared.operations.context import Context
from shared.operations.match_hooks import pending
from shared.operations.send_deliveries import catch_up_of, send_calls, send_tries
from shared.ports.hooks import HookWrite, StoredHook

#: events of one transaction
_EVENTS = 50


async def catch_up(context: Context, tenant: str, hook_id: str) -> None:
    """The next ones, and a message for those after them. Raises LedgerRefused, LedgerUnavailable."""
    hooks, place = hooks_of(context), -1
    for _ in range(MAX_CONFLICTS):
        stored = await hooks.read(tenant, hook_id)
        if stored is None or stored.hook.state is not HookState.ENABLED or stored.hook.caught_up is None:
            return
        if place not in (-1, stored.hook.caught_up):
            # another message of the kind is at it
            return
        place = stored.hook.caught_up
        write = await _next(context, stored, place)
        try:
            await hooks.write(write)
        except Conflict:
            continue
        await send_tries(context, [each for _, each in write.deliveries])
        assert write.after is not None
        if write.after.caught_up is not None:
            await send_calls(context, [catch_up_of(write.after)])
        return


async def _next(context: Context, stored: StoredHook, place: int) -> HookWrite:
    assert context.feed is not None
    hook = stored.hook
    events = await context.feed.events(hook.tenant, after=place, limit=_EVENTS)
    past = [event for event in events if event.number < hook.first]
    rows = [pending(hook.tenant, event, hook.id) for event in past if is_for(hook, json.loads(event.text))]
    is_last = len(past) < _EVENTS or past[-1].number == hook.first - 1
    after = replace(hook, caught_up=None if is_last else past[-1].number)
    return HookWrite(tenant=hook.tenant, before=stored, after=after, deliveries=[(None, row) for row in rows])
