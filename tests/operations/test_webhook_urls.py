"""Which addresses a tenant may name, in its webhooks and in the callback URLs of its jobs (R86)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.adapters.webhook_http import HttpWebhookSender
from shared.operations.webhooks import HookRequest as Request
from shared.operations.webhooks import change_hook, create_hook
from shared.refusals import HookUrlRefused
from tests.operations.conftest import World
from tests.operations.hooked import TENANT, Hooked, hooked
from tests.operations.support import submitted

BY = "user:somebody"


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_a_host_that_is_listed_for_one_tenant(given: Hooked) -> None:
    """For its webhooks and its callback URLs, however its name is spelled."""
    listed = frozenset({f"{TENANT}@hooks.corp.example:8443"})
    settings = replace(given.world.context.settings, webhook_hosts=listed)
    context = replace(given.world.context, settings=settings, sender=HttpWebhookSender(listed))
    world = replace(given.world, context=context)
    url = "https://hooks.corp.example:8443/in"
    hook, _ = await create_hook(context, TENANT, Request(url=url), BY)
    await change_hook(context, TENANT, hook.id, {"url": f"{url}/2"}, BY)
    await submitted(world, tenant_id=f" {TENANT.upper()} ", callback_urls={"done": url})
    with pytest.raises(HookUrlRefused):
        await create_hook(context, "tenant_b", Request(url=url), BY)
    other, _ = await create_hook(context, "tenant_b", Request(url="https://hooks.example.com"), BY)
    with pytest.raises(HookUrlRefused):
        await change_hook(context, "tenant_b", other.id, {"url": url}, BY)
    with pytest.raises(HookUrlRefused):
        await submitted(world, tenant_id="tenant_b", callback_urls={"done": url})


async def test_an_address_that_is_refused(given: Hooked) -> None:
    with pytest.raises(HookUrlRefused):
        await given.hook("https://refused.example")
    hook = await given.hook()
    with pytest.raises(HookUrlRefused):
        await change_hook(given.world.context, TENANT, hook.id, {"url": "https://refused.example"}, BY)
    assert await given.now(hook) == hook
