"""Examples of webhooks, built by the code of the API's responses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shared.access.webhook_signature import secrets_of
from shared.api.webhook import HookLogEntry, default_secret, delivery, hook, hook_detail, hook_secret, hook_test
from shared.apidocs.json_schema import JsonObject, dumped
from shared.core.webhooks.hook_log import append_hook_entry
from shared.core.webhooks.webhooks import (
    DEFAULT_HOOK,
    Answer,
    Delivery,
    DeliveryState,
    Hook,
    HookAct,
    HookFilter,
    SecretVersion,
)

_AT = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)
_ID = "hook_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"
_KEYS = (("example", bytes(32)),)


def by_model(job_id: str) -> JsonObject:
    """Returns an example for each response about a webhook, by the name of its model. The job `job_id` has failed, and
    the delivery of its event waits.
    """
    made, entry = append_hook_entry(
        Hook(
            id=_ID,
            tenant="tenant_a",
            url="https://hooks.example.com/lucius",
            filter=HookFilter(types=frozenset({"job.completed", "job.failed"})),
            description="billing",
            created_at=_AT,
            created_by="app:6f1c0d3a",
            updated_at=_AT,
            first=1042,
            secret=SecretVersion(version=1, key_id="example", salt=""),
        ),
        HookAct.CREATED,
        actor="app:6f1c0d3a",
        reason="",
        at=_AT,
        data={"host": "hooks.example.com", "format": "cloudevents"},
    )
    tried_at = _AT + timedelta(minutes=2)
    failing = replace(made, failures=1, failing_since=tried_at)
    waiting = Delivery(
        tenant="tenant_a",
        hook_id=_ID,
        number=1043,
        event_id=f"{job_id}:7:0",
        event_type="job.failed",
        job_id=job_id,
        created_at=tried_at,
        state=DeliveryState.PENDING,
        tries=1,
        due_at=tried_at + timedelta(seconds=5),
        tried_at=tried_at,
        status=503,
        took_ms=41,
    )
    [secret] = secrets_of(_KEYS, made, _AT, deployment="example")
    of_callbacks = replace(made, id=DEFAULT_HOOK, url=None)
    return {
        "HookPage": {"webhooks": [dumped(hook(made))]},
        "HookDetail": dumped(hook_detail(failing, waiting.created_at)),
        "HookSecret": dumped(hook_secret(made, secret)),
        "DefaultSecret": dumped(
            default_secret(of_callbacks, secrets_of(_KEYS, of_callbacks, _AT, deployment="example"))
        ),
        "HookTest": dumped(hook_test(Answer(status=204, took_ms=38))),
        "Delivery": dumped(delivery(waiting)),
        "DeliveryPage": {"deliveries": [dumped(delivery(waiting))], "next": None},
        "HookLog": {"entries": [dumped(HookLogEntry.of(entry))]},
    }
