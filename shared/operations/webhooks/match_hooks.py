"""Finds the webhooks of the events in a feed transaction, which `shared.operations.events.feed_writer` writes (R84)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from shared.core.events.event_types import TERMINAL
from shared.core.events.hints import Hint
from shared.core.events.public_events import PublicEvent
from shared.core.webhooks.deliveries import find_targets
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Delivery
from shared.operations.process.context import Context
from shared.operations.process.known_feeds import KnownFeed
from shared.ports.feed import FeedEvent

#: targets of one event: webhook ids, each with the name of a callback, or ""
Targets = Sequence[tuple[str, str]]

#: minimum time between two notes of a tenant with callbacks for the sweeper, which drops a note after an hour
NOTED_EVERY = timedelta(minutes=10)


def callbacks_of(hints: Sequence[Hint]) -> tuple[str, ...] | None:
    """Returns the callbacks of the job if these hints include the job's terminal state, else an empty tuple. Returns
    None if such a hint does not name the callbacks.
    """
    found: tuple[str, ...] = ()
    for hint in hints:
        if any(event["type"] in TERMINAL for event in hint.events or ()):
            if hint.callbacks is None:
                return None
            found = hint.callbacks
    return found


def targets_of(
    context: Context, known: KnownFeed, events: Sequence[PublicEvent], callbacks: tuple[str, ...]
) -> list[Targets]:
    """Returns the targets of each event: the webhooks, and the callbacks of a job."""
    # without keys, no call can be signed
    called = callbacks if context.webhooks is not None else ()
    return [find_targets(known.hooks or (), event, called if event["type"] in TERMINAL else ()) for event in events]


async def note_callbacks(context: Context, tenant: str, known: KnownFeed, pending: Sequence[Delivery]) -> None:
    """Notes the tenant for the sweeper before deliveries to callbacks are written, so that lost messages are replaced.

    Raises LedgerUnavailable.
    """
    if not any(each.hook_id == DEFAULT_HOOK for each in pending):
        return
    now = context.clock.now()
    if known.noted_at is None or now - known.noted_at >= NOTED_EVERY:
        await context.require_events().hooks.note(tenant, now)
        known.noted_at = now


def pending_of(tenant: str, events: Sequence[FeedEvent], found: Sequence[Targets]) -> list[Delivery]:
    """Makes the rows of deliveries, all due immediately."""
    return [
        pending(tenant, event, hook_id, name)
        for event, of_event in zip(events, found, strict=True)
        for hook_id, name in of_event
    ]


def pending(tenant: str, event: FeedEvent, hook_id: str, name: str = "") -> Delivery:
    return Delivery(
        tenant=tenant,
        hook_id=hook_id,
        number=event.number,
        name=name,
        event_id=event.event_id,
        event_type=event.event_type,
        job_id=event.job_id or None,
        created_at=event.at,
        due_at=event.at,
    )
