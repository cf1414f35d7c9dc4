"""The responses about a webhook."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from shared.api.webhook import hook
from shared.core.webhooks.webhooks import Hook, HookState, SecretVersion

AT = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)
HOOK = Hook(
    id="hook_1",
    tenant="tenant_a",
    url="https://hooks.example.com/lucius",
    created_at=AT,
    created_by="app:1",
    updated_at=AT,
    first=1,
    secret=SecretVersion(version=1, key_id="k1", salt="a"),
)


@pytest.mark.parametrize(
    ("row", "links"),
    [
        (HOOK, False),
        (replace(HOOK, waits_until=AT), True),
        (replace(HOOK, state=HookState.SUSPENDED), True),
        (replace(HOOK, state=HookState.DISABLED), True),
    ],
)
def test_what_waits_for_anything_has_a_link_that_ends_it(row: Hook, links: bool) -> None:
    assert (hook(row).links.resume is not None) is links
