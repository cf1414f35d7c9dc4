"""The events that a webhook gets, and the effect of a response on a delivery and its webhook (R84, R85)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.core.events.public_events import PublicEvent
from shared.core.webhooks.hook_log import PREFIX
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Answer, Delivery, DeliveryState, Hook, HookAct, HookState

#: waits after a failed try, and after a failed probe; the last one repeats, except for the webhook `default`
WAITS = (
    timedelta(seconds=5),
    timedelta(seconds=30),
    timedelta(minutes=2),
    timedelta(minutes=10),
    timedelta(hours=1),
    timedelta(hours=3),
    timedelta(hours=8),
)
#: consecutive failures after which all deliveries of a webhook wait
FAILURES_TO_WAIT = 5
#: time without a success after which a webhook is suspended
SUSPENDED_AFTER = timedelta(days=1)
#: maximum wait that a `Retry-After` header can request
_MAX_WAIT = timedelta(days=1)
#: maximum time between two tries of a failing webhook; a longer gap means that it had no deliveries, not that it failed
_TRIED_WITHIN = _MAX_WAIT + timedelta(hours=1)
#: minimum time between two log entries and events about deliveries that were given up. So an endpoint that refuses
#: everything does not block the writers of the feed
LOGGED_EVERY = timedelta(minutes=1)
#: maximum number of a job's callback URLs with the same host, so that jobs cannot flood a host with requests
MAX_CALLBACKS_OF_HOST = 2
#: number of permanent refusals after which a delivery is given up
MAX_REFUSALS = 3
#: minimum time between two writes of `succeeded_at` on a healthy webhook
_NOTED_EVERY = timedelta(minutes=1)
#: client errors that may be temporary: timeout, too early, too many requests
_PASSING = frozenset({408, 425, 429})
_GONE = 410

#: reasons to give a delivery up without a response
EXPIRED, JOB_GONE = "EXPIRED", "JOB_GONE"


@dataclass(frozen=True, kw_only=True)
class RecordedAnswer:
    """The result of a try of a delivery."""

    #: the webhook, as the same object if it did not change
    hook: Hook
    delivery: Delivery
    #: the entry for the webhook's log, and its reason
    act: HookAct | None = None
    reason: str = ""
    #: `True` if deliveries that wait for their webhook can continue
    flows: bool = False


def is_for(hook: Hook, event: PublicEvent) -> bool:
    """Returns `True` if the webhook gets the event. A filter of labels never matches an event that omits labels of more
    than 2 KiB.
    """
    if hook.state is HookState.DISABLED or hook.url is None or event["type"].startswith(PREFIX):
        return False
    lets_in, data = hook.filter, event["data"]
    if lets_in.types and event["type"] not in lets_in.types:
        return False
    if lets_in.job_types and data.get("jobType") not in lets_in.job_types:
        return False
    labels = data.get("labels") or {}
    return all(labels.get(name) == value for name, value in lets_in.labels.items())


def find_targets(hooks: Sequence[Hook], event: PublicEvent, callbacks: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Returns the targets of an event: the id of each webhook that gets the event with "", and `default` with each of
    `callbacks`.
    """
    found = [(hook.id, "") for hook in hooks if is_for(hook, event)]
    return found + [(DEFAULT_HOOK, name) for name in callbacks]


def record_answer(
    hook: Hook, delivery: Delivery, answer: Answer, now: datetime, *, is_probe: bool = False
) -> RecordedAnswer:
    """Applies the result of a try to its delivery and webhook.

    A delivery of the webhook `default` has its own schedule, since the URLs of `default` belong to different endpoints.
    """
    tried = replace(
        delivery,
        tries=delivery.tries + 1,
        tried_at=now,
        status=answer.status,
        error=answer.error,
        took_ms=answer.took_ms,
        due_at=None,
    )
    if answer.is_success:
        well, flows = _apply_success(hook, now)
        return RecordedAnswer(hook=well, delivery=_end(tried, DeliveryState.DELIVERED, now), flows=flows)
    if hook.id == DEFAULT_HOOK:
        return _apply_default(hook, tried, answer, now)
    if answer.status == _GONE:
        if hook.state is not HookState.ENABLED:
            # another try got this response first and disabled the webhook: this event was not refused
            return RecordedAnswer(hook=hook, delivery=tried)
        off = replace(hook, state=HookState.DISABLED, state_reason="GONE", waits_until=None, probe=hook.probe + 1)
        return RecordedAnswer(hook=off, delivery=tried, act=HookAct.DISABLED, reason="GONE")
    if _is_refusal(answer):
        return _apply_refusal(hook, tried, answer, now, is_probe=is_probe)
    return _apply_failure(hook, tried, answer, now, is_probe=is_probe)


def _apply_success(hook: Hook, now: datetime) -> tuple[Hook, bool]:
    is_noted = hook.succeeded_at is not None and now - hook.succeeded_at < _NOTED_EVERY
    if is_noted and not hook.failures and hook.failing_since is None:
        return hook, False
    well = replace(hook, succeeded_at=now, failures=0, failing_since=None, failed_at=None, waits=0)
    if hook.waits_until is None:
        return well, False
    return replace(well, waits_until=None, probe=hook.probe + 1), True


def _apply_default(hook: Hook, tried: Delivery, answer: Answer, now: datetime) -> RecordedAnswer:
    tried = replace(tried, refusals=tried.refusals + _is_refusal(answer))
    if answer.status == _GONE or tried.refusals >= MAX_REFUSALS or tried.tries > len(WAITS):
        return _end_dead(hook, tried, answer, now)
    return RecordedAnswer(hook=hook, delivery=_postpone(tried, answer, now))


def _apply_refusal(hook: Hook, tried: Delivery, answer: Answer, now: datetime, *, is_probe: bool) -> RecordedAnswer:
    """Returns the result of an error response from a working endpoint. Other deliveries of the webhook continue."""
    tried = replace(tried, refusals=tried.refusals + 1)
    flows = is_probe and hook.waits_until is not None
    if flows:
        hook = replace(hook, failures=0, waits_until=None, probe=hook.probe + 1)
    if tried.refusals >= MAX_REFUSALS:
        return replace(_end_dead(hook, tried, answer, now), flows=flows)
    return RecordedAnswer(hook=hook, delivery=_postpone(tried, answer, now), flows=flows)


def _apply_failure(hook: Hook, tried: Delivery, answer: Answer, now: datetime, *, is_probe: bool) -> RecordedAnswer:
    if hook.state is not HookState.ENABLED:
        return RecordedAnswer(hook=hook, delivery=tried)
    if hook.failed_at is not None and now - hook.failed_at > _TRIED_WITHIN:
        hook = replace(hook, failures=0, failing_since=None, waits=0)
    failing = replace(hook, failures=hook.failures + 1, failing_since=hook.failing_since or now, failed_at=now)
    assert failing.failing_since is not None
    if now - failing.failing_since >= SUSPENDED_AFTER:
        off = replace(
            failing, state=HookState.SUSPENDED, state_reason="NO_SUCCESS", waits_until=None, probe=hook.probe + 1
        )
        return RecordedAnswer(hook=off, delivery=tried, act=HookAct.SUSPENDED, reason="NO_SUCCESS")
    if is_probe or (failing.failures >= FAILURES_TO_WAIT and hook.waits_until is None):
        until = now + _compute_wait(failing.waits, answer)
        return RecordedAnswer(
            hook=replace(failing, waits=failing.waits + 1, waits_until=until, probe=hook.probe + 1), delivery=tried
        )
    if hook.waits_until is not None:
        return RecordedAnswer(hook=failing, delivery=tried)
    return RecordedAnswer(hook=failing, delivery=_postpone(tried, answer, now))


def give_up(hook: Hook, delivery: Delivery, error: str, now: datetime) -> RecordedAnswer:
    """Abandons a delivery without another attempt, since its event or its callback URL no longer exists."""
    return _end_dead(hook, replace(delivery, error=error, status=None), Answer(status=None, error=error), now)


def with_dead(hook: Hook, number: int, reason: str) -> Hook:
    """Returns the webhook with one more abandoned delivery that is not in its log yet. `number` is the number of the
    event.
    """
    first, last = hook.unlogged_first or number, hook.unlogged_last or number
    return replace(
        hook,
        unlogged=hook.unlogged + 1,
        unlogged_first=min(first, number),
        unlogged_last=max(last, number),
        unlogged_reason=reason,
    )


def is_log_due(hook: Hook, now: datetime) -> bool:
    """Returns `True` if the log needs an entry about abandoned deliveries."""
    return hook.unlogged > 0 and (hook.dead_logged_at is None or now - hook.dead_logged_at >= LOGGED_EVERY)


def with_dead_logged(hook: Hook, now: datetime) -> tuple[Hook, dict[str, int | None], str]:
    """Returns the webhook without unlogged deliveries, the data of the log entry, and its reason."""
    data = {"deliveries": hook.unlogged, "first": hook.unlogged_first, "last": hook.unlogged_last}
    after = replace(hook, unlogged=0, unlogged_first=None, unlogged_last=None, unlogged_reason=None, dead_logged_at=now)
    return after, data, hook.unlogged_reason or ""


def _end_dead(hook: Hook, tried: Delivery, answer: Answer, now: datetime) -> RecordedAnswer:
    reason = answer.error or f"HTTP_{answer.status}"
    counted = with_dead(hook, tried.number, reason)
    act = HookAct.DEAD if is_log_due(counted, now) else None
    return RecordedAnswer(hook=counted, delivery=_end(tried, DeliveryState.DEAD, now), act=act, reason=reason)


def _end(delivery: Delivery, state: DeliveryState, now: datetime) -> Delivery:
    return replace(delivery, state=state, ended_at=now, due_at=None)


def _postpone(tried: Delivery, answer: Answer, now: datetime) -> Delivery:
    return replace(tried, due_at=now + _compute_wait(tried.tries - 1, answer))


def _compute_wait(before: int, answer: Answer) -> timedelta:
    """Returns the next wait after `before` waits, or a longer wait that the endpoint requested."""
    asked = min(answer.retry_after or timedelta(), _MAX_WAIT)
    return max(WAITS[min(before, len(WAITS) - 1)], asked)


def _is_refusal(answer: Answer) -> bool:
    status = answer.status
    return status is not None and 400 <= status < 500 and status not in _PASSING


def enable_hook(hook: Hook) -> Hook:
    """Returns the webhook in state ENABLED, without failures and waits."""
    return replace(
        hook,
        state=HookState.ENABLED,
        state_reason=None,
        failures=0,
        failing_since=None,
        failed_at=None,
        waits_until=None,
        waits=0,
        probe=hook.probe + 1,
    )
