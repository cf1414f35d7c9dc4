"""What a hook's log keeps, and which public events it means (R84)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from shared.core.chained_log import chained
from shared.core.job import JsonValue
from shared.core.public_events import PublicEvent
from shared.core.webhooks import Hook, HookAct, HookEntry

#: who changes a hook when no caller does
SYSTEM = "system"

#: the public event that an entry means; None: it means nothing to the world
EVENTS: Mapping[HookAct, str | None] = {
    HookAct.CREATED: None,
    HookAct.CHANGED: None,
    HookAct.ROTATED: None,
    HookAct.REMOVED: None,
    HookAct.DISABLED: "webhook.disabled",
    HookAct.SUSPENDED: "webhook.suspended",
    HookAct.RESUMED: "webhook.resumed",
    HookAct.DEAD: "webhook.dead",
}
#: what such a type begins with; these events go to no hook
PREFIX = "webhook."
#: when each of them comes, for the documentation
MEANINGS: Mapping[str, str] = {
    "webhook.disabled": "A webhook was switched off, by a caller or by its receiver, which answered 410.",
    "webhook.suspended": "A webhook's receiver took nothing for a day; its deliveries wait until somebody resumes it.",
    "webhook.resumed": "A webhook that was switched off or suspended goes on.",
    "webhook.dead": "Deliveries of a webhook were given up.",
}


def logged(
    hook: Hook, act: HookAct, *, actor: str, reason: str, at: datetime, data: Mapping[str, Any] | None = None
) -> tuple[Hook, HookEntry]:
    """The hook as it is changed already, with its new head, and the entry that follows on its log."""
    values = {"type": act.value, "actor": actor, "reason": reason, "at": at, "data": dict(data or {})}
    entry = HookEntry(**chained({**values, "hook_id": hook.id}, seq=hook.log_seq, prev_hash=hook.log_hash))
    return replace(hook, log_seq=entry.seq, log_hash=entry.hash), entry


def hook_event(hook: Hook, entry: HookEntry) -> PublicEvent | None:
    """The public event that the entry means, id `{hook}:{seq}:0`; None: none."""
    type_ = EVENTS[HookAct(entry.type)]
    if type_ is None:
        return None
    id_ = f"{hook.id}:{entry.seq}:0"
    at = entry.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    payload: dict[str, JsonValue] = {"state": hook.state.value, "reason": entry.reason, **entry.data}
    return {
        "specversion": "1.0",
        "id": id_,
        "type": type_,
        "subject": hook.id,
        "time": at,
        "datacontenttype": "application/json",
        "tenant": hook.tenant,
        "data": {
            "eventId": id_,
            "eventType": type_,
            "timestamp": at,
            "tenant": hook.tenant,
            "hookId": hook.id,
            "payload": payload,
            "provenance": {"actor": entry.actor, "source": "webhooks"},
        },
    }
