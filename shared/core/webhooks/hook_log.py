"""The log of a webhook, and the public events of its entries (R84)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.core.events.event_types import PublicType
from shared.core.events.public_events import PublicEvent, make_cloud_event, remove_none
from shared.core.jobs.job import JsonValue
from shared.core.records.canonical import digest
from shared.core.records.chained_log import chain_entry
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Hook, HookAct, HookEntry

#: actor of a webhook change that LUCIUS makes itself
SYSTEM = "system"

#: public type that an entry produces; None for no public event
EVENTS: Mapping[HookAct, PublicType | None] = {
    HookAct.CREATED: None,
    HookAct.CHANGED: None,
    HookAct.ROTATED: None,
    HookAct.REMOVED: None,
    HookAct.DISABLED: PublicType.WEBHOOK_DISABLED,
    HookAct.SUSPENDED: PublicType.WEBHOOK_SUSPENDED,
    HookAct.RESUMED: PublicType.WEBHOOK_RESUMED,
    HookAct.DEAD: PublicType.WEBHOOK_DEAD,
}
#: prefix of types of events about webhooks, which no webhook receives
PREFIX = "webhook."
#: members of `payload` for DEAD: the number of deliveries, and the numbers of their first and last event
_NUMBERS = ("deliveries", "first", "last")


def append_hook_entry(
    hook: Hook, act: HookAct, *, actor: str, reason: str, at: datetime, data: Mapping[str, Any] | None = None
) -> tuple[Hook, HookEntry]:
    """Returns the changed webhook with its new log head, and the log entry."""
    values = {"type": act.value, "actor": actor, "reason": reason, "at": at, "data": dict(data or {})}
    entry = HookEntry(**chain_entry({**values, "hook_id": hook.id}, seq=hook.log_seq, prev_hash=hook.log_hash))
    return replace(hook, log_seq=entry.seq, log_hash=entry.hash), entry


def make_hook_event(hook: Hook, entry: HookEntry) -> PublicEvent | None:
    """Returns the public event of the entry, with id `{hook}:{seq}:0`. Returns None if the entry produces no public
    event.

    Every tenant can have a `default` webhook, so `{hook}` of a `default` webhook includes a digest of the tenant.
    Otherwise the topic drops its event as a duplicate of another tenant's.
    """
    type_ = EVENTS[HookAct(entry.type)]
    if type_ is None:
        return None
    numbers = {name: entry.data.get(name) for name in _NUMBERS}
    payload = remove_none({"status": hook.state.value, "reason": entry.reason or None, **numbers})
    key = hook.id if hook.id != DEFAULT_HOOK else f"{hook.id}_{digest(hook.tenant)[:32]}"
    return make_hook_envelope(hook, f"{key}:{entry.seq}:0", type_, entry.at, payload, entry.actor) | {
        "jobseq": entry.seq
    }


def make_hook_envelope(
    hook: Hook, id_: str, type_: str, at: datetime, payload: Mapping[str, JsonValue], actor: str = SYSTEM
) -> dict[str, JsonValue]:
    """Makes a CloudEvent about a webhook, without the fields that need the feed."""
    data = {"hookId": hook.id, "payload": dict(payload), "provenance": {"actor": actor}}
    return make_cloud_event(type_, id_, hook.id, at, hook.tenant, data)
