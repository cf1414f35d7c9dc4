"""Allowed addresses of a tenant, in its webhooks and in the callback URLs of its jobs (R86)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.access.references import Retention
from shared.adapters.tables.rows import job_entity, job_of
from shared.adapters.webhook_http import HttpWebhookSender
from shared.api.audit import bundle
from shared.api.job import job_response
from shared.core.jobs.as_of import rebuild_as_of
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import jcs_digest
from shared.operations.webhooks.webhooks import HookRequest as Request
from shared.operations.webhooks.webhooks import change_hook, create_hook
from shared.webhook_refusals import HookUrlRefused
from tests.audit_bundles import faults
from tests.contexts import changed
from tests.operations.conftest import World
from tests.operations.support import cancelled, history, redrive, submitted
from tests.worlds.webhooks import TENANT, Hooked, hooked

BY = "user:somebody"


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_a_host_that_is_listed_for_one_tenant(given: Hooked) -> None:
    """For its webhooks and its callback URLs, in any spelling of its name."""
    listed = frozenset({f"{TENANT}@hooks.corp.example:8443"})
    settings = replace(given.world.context.settings, webhook_hosts=listed)
    context = changed(given.world.context, settings=settings, sender=HttpWebhookSender(listed))
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


async def test_what_a_callback_url_holds_is_delivered_to_and_not_shown(given: Hooked) -> None:
    """No read, past state, history or bundle has more than scheme and host; the bundle proves itself, and its digest
    proves the addresses. The job of a redrive delivers to them too."""
    urls = {
        "flow": "https://prod-1.logic.azure.example/workflows/1?sig=S3CRET",
        "chat": "https://Hooks.chat.example/services/S3CRET",
    }
    hosts = {"flow": "https://prod-1.logic.azure.example", "chat": "https://Hooks.chat.example"}
    world = given.world
    first = await submitted(world, callback_urls=urls)
    await cancelled(world, first)
    second = (await redrive(world, first)).stored.record.job.job_id
    await cancelled(world, second)
    for job_id in (first, second):
        record, events = await history(world, job_id)
        past = rebuild_as_of(record, events, 1)
        shown = [job_response(each, Retention("https://w.example/w", None)) for each in (record, past)]
        assert [dict(each.callback_urls) for each in shown] == [hosts, hosts]
        audited = json.loads(json.dumps(bundle(record, events, world.clock.now())))
        assert audited["job"]["callback_urls"] == hosts
        assert audited["job"]["callback_digest"] == f"sha256:{jcs_digest(urls)}"
        for text in (*(each.model_dump_json() for each in shown), json.dumps(audited)):
            assert "S3CRET" not in text
        assert faults(audited) == []
        audited["job"]["callback_urls"]["chat"] = "https://other.example"
        assert faults(audited)
        # they are stored and deleted with the job
        assert job_of(job_entity(record.job)) == record.job
    await given.fed()
    await given.run(timedelta(minutes=1))
    assert sorted(url for url, _, _ in given.receiver.got) == sorted([*urls.values()] * 2)
    assert {body["type"] for _, _, body in given.receiver.got} == {"job.canceled"}
    assert record.job.status is JobStatus.CANCELLED
