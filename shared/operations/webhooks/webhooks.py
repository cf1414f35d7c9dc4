"""Operations of callers on webhooks of their tenant, which is normalised (R84, R85)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from shared.core.events.public_events import Issuer, encode_json, number_event
from shared.core.records.canonical import canonical_json, digest
from shared.core.webhooks.deliveries import enable_hook
from shared.core.webhooks.hook_log import PREFIX, append_hook_entry, make_hook_envelope
from shared.core.webhooks.webhooks import (
    DEFAULT_HOOK,
    MAX_LOG,
    Answer,
    Delivery,
    DeliveryState,
    Hook,
    HookAct,
    HookEntry,
    HookFilter,
    HookFormat,
    HookState,
)
from shared.operations.process.context import Context
from shared.operations.webhooks.change_hooks import (
    LoggedHookChange,
    change_in_turn,
    default_hook,
    hooks_of,
    newest_secret,
)
from shared.operations.webhooks.post_webhook import post
from shared.operations.webhooks.send_deliveries import catch_up_of, flow_of, send_delivery_calls, send_tries
from shared.ports.hooks import DeliveryPosition, Hooks, HookWrite, StoredHook
from shared.refusals import FilterInvalid, Overloaded
from shared.webhook_refusals import DefaultHook, DeliveryNotFound, HookKeyConflict, HookNotFound

#: time after a rotation in which the previous secret signs too
BOTH_SECRETS_FOR = timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class HookRequest:
    """A webhook as a caller requests it."""

    url: str
    format: HookFormat = HookFormat.CLOUDEVENTS
    filter: HookFilter = field(default_factory=HookFilter)
    description: str = ""
    #: number of an event in the tenant's feed after which the webhook also gets past events, if they are retained;
    #: None means only new events
    after: int | None = None


async def create_hook(
    context: Context, tenant: str, request: HookRequest, actor: str, *, key: str | None = None
) -> tuple[Hook, bool]:
    """Creates a webhook, or returns the webhook that the same idempotency key created. The flag is `True` for an
    earlier webhook.

    Raises WebhooksOff, HookUrlRefused, HookLimit, HookKeyConflict, Contended, LedgerUnavailable.
    """
    hooks = hooks_of(context)
    _check(context, tenant, request.url)
    now = context.clock.now()
    hook = Hook(
        id=f"hook_{context.new_salt() if key is None else digest(canonical_json([tenant, key]))[:32]}",
        tenant=tenant,
        url=request.url,
        format=request.format,
        filter=request.filter,
        description=request.description,
        created_at=now,
        created_by=actor,
        updated_at=now,
        first=0,
        caught_up=request.after,
        secret=newest_secret(context, 1),
    )
    # before it gets events, so that lost messages are replaced
    await hooks.note(tenant, now)

    known: Hook | None = None

    async def decide() -> LoggedHookChange | Hook:
        nonlocal known
        known = await _find_existing(hooks, hook) if key is not None else None
        return known or LoggedHookChange(
            act=HookAct.CREATED, before=None, after=hook, actor=actor, data=_describe_new(hook)
        )

    made = await change_in_turn(context, tenant, decide)
    if made.caught_up is not None:
        await send_delivery_calls(context, [catch_up_of(made)])
    return made, made is known


async def _find_existing(hooks: Hooks, hook: Hook) -> Hook | None:
    """Returns the webhook with this id, which is made from an idempotency key, or None. Raises HookKeyConflict,
    LedgerUnavailable.

    A deleted webhook is not created again while its log is retained. Otherwise its secret and the ids of its events
    repeat.
    """
    stored = await hooks.read(hook.tenant, hook.id)
    entries = await hooks.log(hook.tenant, hook.id, after=0, limit=1)
    if stored is None and entries:
        # Race hook-key: another request may have created it between the two reads
        stored = await hooks.read(hook.tenant, hook.id)
        if stored is None:
            raise HookKeyConflict(hook.id)
    if stored is None:
        return None
    known = stored.hook
    same = ("url", "format", "filter", "description")
    is_same = known.secret.version == 1 and all(getattr(known, name) == getattr(hook, name) for name in same)
    # a shortened log (R88) cannot show it
    if not is_same or any(each.seq == 1 and each.data.get("after") != hook.caught_up for each in entries):
        raise HookKeyConflict(hook.id)
    return known


async def change_hook(context: Context, tenant: str, hook_id: str, changes: Mapping[str, Any], actor: str) -> Hook:
    """Changes a webhook. `changes`: some of `url`, `format`, `filter`, `description` and `enabled`.

    A webhook gets no events of the time in which it was disabled. Earlier waiting deliveries continue. With a new URL,
    an enabled webhook that waits continues immediately. Raises WebhooksOff, HookNotFound, DefaultHook, HookUrlRefused,
    Contended, LedgerUnavailable.
    """
    if "url" in changes:
        _check(context, tenant, changes["url"])
    columns = {name: changes[name] for name in ("url", "format", "filter", "description") if name in changes}
    probe = 0

    async def decide() -> LoggedHookChange:
        nonlocal probe
        stored = await _read_own(context, tenant, hook_id)
        probe = stored.hook.probe
        after, act = replace(stored.hook, **columns), HookAct.CHANGED
        enabled, is_off = changes.get("enabled"), stored.hook.state is HookState.DISABLED
        if enabled is False and not is_off:
            act = HookAct.DISABLED
            after = replace(after, state=HookState.DISABLED, state_reason="CALLER", waits_until=None)
            after = replace(after, probe=after.probe + 1)
        elif enabled is True and stored.hook.state is not HookState.ENABLED:
            after, act = enable_hook(after), HookAct.RESUMED
        elif stored.hook.state is HookState.ENABLED and after.url != stored.hook.url:
            after = enable_hook(after)
        reason = "CALLER" if act is not HookAct.CHANGED else ""
        return LoggedHookChange(
            act=act, before=stored, after=after, actor=actor, reason=reason, data=_describe_changes(stored.hook, after)
        )

    made = await change_in_turn(context, tenant, decide)
    if made.state is HookState.ENABLED and made.probe != probe:
        await send_delivery_calls(
            context, [flow_of(made), *([catch_up_of(made)] if made.caught_up is not None else [])]
        )
    return made


async def resume_hook(context: Context, tenant: str, hook_id: str, actor: str) -> Hook:
    """Resumes a webhook at the oldest waiting delivery, after any kind of wait.

    Raises WebhooksOff, HookNotFound, DefaultHook, Contended, LedgerUnavailable.
    """

    async def decide() -> LoggedHookChange:
        stored = await _read_own(context, tenant, hook_id)
        after = enable_hook(stored.hook)
        return LoggedHookChange(act=HookAct.RESUMED, before=stored, after=after, actor=actor, reason="CALLER")

    made = await change_in_turn(context, tenant, decide)
    await send_delivery_calls(context, [flow_of(made), *([catch_up_of(made)] if made.caught_up is not None else [])])
    return made


async def remove_hook(context: Context, tenant: str, hook_id: str, actor: str) -> None:
    """Deletes a webhook. Its waiting deliveries are not sent, and are deleted within about an hour. Its log stays
    (R88). Raises WebhooksOff, HookNotFound, DefaultHook, Contended, LedgerUnavailable.
    """

    async def decide() -> LoggedHookChange:
        stored = await _read_own(context, tenant, hook_id)
        return LoggedHookChange(act=HookAct.REMOVED, before=stored, after=stored.hook, actor=actor)

    await change_in_turn(context, tenant, decide)


async def rotate_hook(context: Context, tenant: str, hook_id: str, actor: str) -> Hook:
    """Creates a new secret, also for `default`. The previous secret also signs for a day after the rotation.

    A webhook that waits because its key was removed continues immediately. Raises WebhooksOff, HookNotFound, Contended,
    LedgerUnavailable.
    """
    hooks = hooks_of(context)

    async def rotate() -> Hook:
        stored, now = await _read(context, tenant, hook_id), context.clock.now()
        hook = replace(
            stored.hook,
            secret=newest_secret(context, stored.hook.secret.version + 1),
            previous=stored.hook.secret,
            previous_until=now + BOTH_SECRETS_FOR,
            updated_at=now,
        )
        keys = {key_id for key_id, _ in context.settings.webhook_keys}
        goes_on = hook.waits_until is not None and stored.hook.secret.key_id not in keys
        after, entry = append_hook_entry(
            enable_hook(hook) if goes_on else hook, HookAct.ROTATED, actor=actor, reason="", at=now
        )
        # the webhook gets the same events as before, so HEAD need not order the change
        await hooks.write(HookWrite(tenant=tenant, before=stored, after=after, entry=entry))
        if goes_on:
            await send_delivery_calls(context, [flow_of(after)])
        return after

    return await context.retry_on_conflict(rotate, f"webhook {hook_id}")


async def read_hook(context: Context, tenant: str, hook_id: str) -> Hook:
    """Reads a webhook. Creates `default` if it is missing. Raises WebhooksOff, HookNotFound, Contended,
    LedgerUnavailable.
    """
    return (await _read(context, tenant, hook_id)).hook


async def list_hooks(context: Context, tenant: str) -> list[Hook]:
    """Lists the webhooks except `default`, oldest first. Raises WebhooksOff, LedgerUnavailable."""
    found = [each.hook for each in await hooks_of(context).all_of(tenant) if each.hook.id != DEFAULT_HOOK]
    return sorted(found, key=lambda hook: (hook.created_at, hook.id))


async def list_hook_log(context: Context, tenant: str, hook_id: str) -> list[HookEntry]:
    """Returns the last `MAX_LOG` (1,000) entries in order, or for a deleted webhook its first 1,000 entries.

    Raises WebhooksOff, HookNotFound, LedgerUnavailable.
    """
    hooks = hooks_of(context)
    stored = await hooks.read(tenant, hook_id)
    first = max(stored.hook.log_seq - MAX_LOG, 0) if stored is not None else 0
    found = await hooks.log(tenant, hook_id, after=first, limit=MAX_LOG)
    if not found:
        raise HookNotFound(hook_id)
    return found


async def list_deliveries(
    context: Context, tenant: str, hook_id: str, *, state: DeliveryState | None, after: str | None, limit: int
) -> tuple[list[Delivery], str | None]:
    """Returns a page of deliveries and the cursor of the next page. The cursor is None if no page follows.

    Waiting deliveries come first, the oldest event first. Ended deliveries follow, the newest event first. Raises
    WebhooksOff, HookNotFound, FilterInvalid for an invalid cursor, LedgerUnavailable.
    """
    hooks = hooks_of(context)
    if hook_id != DEFAULT_HOOK:
        await _read(context, tenant, hook_id)
    is_ended, place = _parse_cursor(after) if after is not None else (False, None)
    found: list[Delivery] = []
    if state in (None, DeliveryState.PENDING) and not is_ended:
        rows = await hooks.pending(tenant, hook_id, after=place, limit=limit + 1)
        found, place = [row.delivery for row in rows], None
    if state is not DeliveryState.PENDING and len(found) <= limit:
        more = await hooks.list_ended(tenant, hook_id, state=state, after=place, limit=limit + 1 - len(found))
        found += [row.delivery for row in more]
    page = found[:limit]
    return page, _encode_cursor(page[-1]) if len(found) > limit else None


async def redeliver(context: Context, tenant: str, hook_id: str, number: int, name: str, actor: str) -> Delivery:
    """Makes a waiting or ended delivery due now. If the webhook waits or is not enabled, the delivery waits too.

    Raises WebhooksOff, HookNotFound, Contended, LedgerUnavailable, and DeliveryNotFound if the delivery or its event
    does not exist.
    """
    hooks, feed = hooks_of(context), context.of_all_tenants.require_events().feed

    async def wait_again() -> Delivery:
        stored = await _read(context, tenant, hook_id)
        row = await hooks.delivery(tenant, hook_id, number, name)
        kept = await feed.events(tenant, after=number - 1, limit=1)
        if row is None or not kept or kept[0].number != number:
            raise DeliveryNotFound(hook_id, number)
        now = context.clock.now()
        again = replace(row.delivery, state=DeliveryState.PENDING, due_at=now, ended_at=None)
        if row.delivery.state is not DeliveryState.PENDING:
            # no message with this number of tries was ever sent
            again = replace(again, refusals=0)
        await hooks.note(tenant, now)
        await hooks.write(HookWrite(tenant=tenant, deliveries=[(row, again)]))
        if stored.hook.waits_until is None:
            await send_tries(context, [again])
        return again

    return await context.retry_on_conflict(wait_again, f"delivery {number} of webhook {hook_id}")


async def send_test_event(context: Context, tenant: str, hook_id: str) -> Answer:
    """Posts an event of type `webhook.test`, which no feed has, and returns the result.

    A tenant can have at most four tests at the same time in a process. Each test holds a request until the endpoint
    responds, at most ten seconds. Raises WebhooksOff, HookNotFound, DefaultHook, Overloaded, LedgerUnavailable.
    """
    hook = (await _read_own(context, tenant, hook_id)).hook
    id_ = f"{hook.id}:test:{context.new_salt()}"
    event = make_hook_envelope(hook, id_, f"{PREFIX}test", context.clock.now(), {"status": hook.state.value})
    # the type is not in the feed, so it has no schema
    text = encode_json(number_event(event, 0, Issuer(context.settings.environment))).decode()
    assert hook.url is not None
    with context.require_webhooks().tests.hold(f"{tenant} tests", (tenant, hook.id, 0, id_)) as has_room:
        if not has_room:
            raise Overloaded
        return await post(context, hook, hook.url, id_, text)


def _check(context: Context, tenant: str, url: str) -> None:
    context.require_webhooks().sender.check(url, tenant=tenant)


async def _read(context: Context, tenant: str, hook_id: str) -> StoredHook:
    """Reads a webhook. Raises WebhooksOff, HookNotFound, LedgerUnavailable."""
    if hook_id == DEFAULT_HOOK:
        return await default_hook(context, tenant)
    stored = await hooks_of(context).read(tenant, hook_id)
    if stored is None:
        raise HookNotFound(hook_id)
    return stored


async def _read_own(context: Context, tenant: str, hook_id: str) -> StoredHook:
    """Reads a webhook with a URL of its own. Raises DefaultHook for `default`, and the errors of `_read`."""
    if hook_id == DEFAULT_HOOK:
        raise DefaultHook
    return await _read(context, tenant, hook_id)


def _describe(hook: Hook) -> dict[str, Any]:
    """Returns the webhook's values for the log. The URL may be a secret, so the result has only the host."""
    lets_in = hook.filter
    return {
        "host": urlsplit(hook.url or "").netloc,
        "format": hook.format.value,
        "description": hook.description,
        "types": sorted(lets_in.types),
        "jobTypes": sorted(lets_in.job_types),
        "labels": dict(lets_in.labels),
    }


def _describe_new(hook: Hook) -> dict[str, Any]:
    """Returns the values of a new webhook for the log, with the number after which it requests past events."""
    return _describe(hook) | ({"after": hook.caught_up} if hook.caught_up is not None else {})


def _describe_changes(before: Hook, after: Hook) -> dict[str, Any]:
    old, new = _describe(before), _describe(after)
    return {name: value for name, value in new.items() if value != old[name]}


def _encode_cursor(delivery: Delivery) -> str:
    kind = "p" if delivery.state is DeliveryState.PENDING else "e"
    return base64.urlsafe_b64encode(f"{kind}{delivery.number}:{delivery.name}".encode()).decode()


def _parse_cursor(cursor: str) -> tuple[bool, DeliveryPosition]:
    """Returns `True` for a cursor among the ended deliveries, and the position of the cursor. Raises FilterInvalid."""
    try:
        text = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
        number, _, name = text[1:].partition(":")
        if text[:1] not in ("p", "e") or not (number.isascii() and number.isdecimal() and len(number) <= 19):
            raise ValueError
    except (binascii.Error, ValueError):
        raise FilterInvalid("cursor", "must be `next` of the previous page") from None
    return text[0] == "e", (int(number), name)
