"""Changes the events that a webhook gets, or its state, under HEAD's ETag. The same write adds the log entry and the
public event (R84).
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shared.core.events.public_events import Issuer, PublicEvent, encode_json, number_event
from shared.core.webhooks.deliveries import with_dead_logged
from shared.core.webhooks.hook_log import SYSTEM, append_hook_entry, make_hook_event
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Delivery, Hook, HookAct, SecretVersion
from shared.errors import Conflict, Contended, Transient
from shared.operations.process.context import MAX_TRIES, Context
from shared.operations.process.known_feeds import KnownFeed
from shared.operations.process.topic_relay import add_sent
from shared.ports.feed import FeedEvent, FeedWrite
from shared.ports.hooks import Hooks, HookWrite, StoredDelivery, StoredHook
from shared.webhook_refusals import HookLimit, WebhooksOff

#: maximum webhooks of a tenant, without `default`
MAX_HOOKS = 20


@dataclass(frozen=True, kw_only=True)
class LoggedHookChange:
    """A change of a webhook, with its log entry, that is written under HEAD's ETag."""

    act: HookAct
    #: the webhook before; None if it is created
    before: StoredHook | None
    #: the webhook after; for a deletion, its last state
    after: Hook
    actor: str = SYSTEM
    reason: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    deliveries: Sequence[tuple[StoredDelivery | None, Delivery]] = ()


def hooks_of(context: Context) -> Hooks:
    """Returns the store of webhooks. Raises WebhooksOff."""
    context.require_webhooks()
    return context.require_events().hooks


async def write_change(context: Context, tenant: str, found: LoggedHookChange) -> Hook:
    """Writes a change with one try and returns the webhook as written. A new webhook gets events from the next number
    on.

    Raises HookLimit, LedgerRefused, LedgerUnavailable, and Conflict if HEAD, the webhook or a delivery has changed.
    """
    # `events.hooks` refuses other tenants than the caller's; a caller without access to the feed can change a webhook
    feed, events = context.of_all_tenants.require_events().feed, context.require_events()
    known, relay = await events.known_feeds.of(feed, tenant, events.hooks), events.relay
    try:
        # a batch of hints takes the same turn
        async with known.turn:
            write, hook = _write_of(context, tenant, found, known)
            of_feed = add_sent(relay, FeedWrite(tenant=tenant, head=known.head, events=write.events, seen={}))
            write = replace(write, head=of_feed.head)
            head = await events.hooks.write(write)
            assert head is not None
            if relay is not None:
                relay.wrote(of_feed)
            known.head, known.hooks = head, _after(known.hooks or (), write)
            events.tails.grew(tenant, head.number)
    except (Conflict, Transient):
        events.known_feeds.forget(tenant)
        raise
    if relay is not None and write.events:
        await relay.pass_on([tenant])
    return hook


async def change_in_turn(
    context: Context, tenant: str, decide: Callable[[], Awaitable[LoggedHookChange | Hook]]
) -> Hook:
    """Writes the change that `decide` returns, and calls `decide` again after each conflict. `decide` may return the
    webhook unchanged.

    Raises Contended, and errors of `decide` and of `write_change`.
    """

    async def change() -> Hook:
        found = await decide()
        return found if isinstance(found, Hook) else await write_change(context, tenant, found)

    return await context.retry_on_conflict(change, f"the feed of tenant {tenant}")


def _write_of(context: Context, tenant: str, found: LoggedHookChange, known: KnownFeed) -> tuple[HookWrite, Hook]:
    now, after = context.clock.now(), found.after
    if found.before is None:
        if len(known.hooks or ()) >= MAX_HOOKS:
            raise HookLimit(MAX_HOOKS)
        # requested past events end at the present end of the feed
        past = min(after.caught_up, known.head.number) if after.caught_up is not None else None
        after = replace(after, first=known.head.number + 1, caught_up=past)
    hook, entry = append_hook_entry(
        replace(after, updated_at=now),
        found.act,
        actor=found.actor,
        reason=found.reason,
        at=now,
        data=found.data,
    )
    event = make_hook_event(hook, entry)
    write = HookWrite(
        tenant=tenant,
        head=known.head,
        events=[_number_event(context, event, known.head.number + 1)] if event is not None else [],
        before=found.before,
        after=hook if found.act is not HookAct.REMOVED else None,
        entry=entry,
        deliveries=found.deliveries,
    )
    return replace(write, hooks=len(_after(known.hooks or (), write))), hook


def _number_event(context: Context, event: PublicEvent, number: int) -> FeedEvent:
    issuer = Issuer(context.settings.environment, context.settings.public_url)
    return FeedEvent(
        number=number,
        event_id=event["id"],
        event_type=event["type"],
        # the event is about a webhook
        job_id="",
        at=context.clock.now(),
        text=encode_json(number_event(event, number, issuer)).decode(),
    )


def _after(hooks: Sequence[Hook], write: HookWrite) -> list[Hook]:
    changed = write.after.id if write.after is not None else write.before.hook.id if write.before is not None else ""
    kept = [hook for hook in hooks if hook.id != changed]
    return kept + ([write.after] if write.after is not None and changed != DEFAULT_HOOK else [])


def dead_logged(context: Context, found: LoggedHookChange) -> LoggedHookChange:
    """Adds the abandoned deliveries that the webhook's log does not have yet."""
    after, data, reason = with_dead_logged(found.after, context.clock.now())
    return replace(found, after=after, data=data, reason=reason)


async def log_dead(context: Context, stored: StoredHook) -> None:
    """Writes abandoned deliveries to the webhook's log and the feed.

    Raises the errors of `write_change` except Conflict. After a Conflict, the next sweep tries again.
    """
    change = LoggedHookChange(act=HookAct.DEAD, before=stored, after=stored.hook)
    with contextlib.suppress(Conflict):
        await write_change(context, stored.hook.tenant, dead_logged(context, change))


async def default_hook(context: Context, tenant: str) -> StoredHook:
    """Returns the webhook of `callback_urls`, and creates it if it is missing. Raises WebhooksOff, Contended,
    LedgerUnavailable.
    """
    hooks = hooks_of(context)
    # no wait: each try ends with a write of this or another process, so the next one finds the webhook
    for _ in range(MAX_TRIES):
        if (found := await hooks.read(tenant, DEFAULT_HOOK)) is not None:
            return found
        now = context.clock.now()
        new = Hook(
            id=DEFAULT_HOOK,
            tenant=tenant,
            url=None,
            created_at=now,
            created_by=SYSTEM,
            updated_at=now,
            first=0,
            secret=newest_secret(context, 1),
        )
        hook, entry = append_hook_entry(new, HookAct.CREATED, actor=SYSTEM, reason="", at=now)
        with contextlib.suppress(Conflict):
            # HEAD need not order it, since the jobs name their callbacks. A caller with read access to the tenant finds
            # it too
            await hooks_of(context.of_all_tenants).write(HookWrite(tenant=tenant, after=hook, entry=entry))
    raise Contended("concurrent writers changed the default webhook at every try")


def newest_secret(context: Context, version: int) -> SecretVersion:
    """Returns version `version` of a secret, with the first configured key and a new salt. Raises WebhooksOff."""
    if not context.settings.webhook_keys:
        raise WebhooksOff
    return SecretVersion(version=version, key_id=context.settings.webhook_keys[0][0], salt=context.new_salt())
