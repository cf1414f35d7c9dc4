"""Calls of operators, by both clients: quotas, breakers, bulk operations, incidents and sums."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from operator import methodcaller
from typing import Any

import pytest

from lucius_client import Conflicting, RuleChanged
from lucius_client.models import Quota
from shared.apidocs.bulk_examples import by_model
from tests.lucius_client import samples
from tests.lucius_client.conftest import EitherClient
from tests.lucius_client.stub_api import CannedResponse, serving


async def test_a_rule_is_changed_as_it_was_read(either: EitherClient) -> None:
    """The gate's id, names and ETag are sent with the change; 412 is RuleChanged."""
    gate, change = samples.quota(source="scanner/7"), samples.quota_change()
    pages = {"quotas": [gate], "next": None}
    with serving(CannedResponse(body=pages), CannedResponse(body=change)) as api:
        known = await either.call(api.url, lambda client: client.quota("tenant_a", source="scanner/7"))
        numbers = {"max_active": 2, "burst": None}
        changed = await either.call(
            api.url, lambda client: client.set_quota(known, numbers, reason="why", dry_run=True)
        )
        await either.call(api.url, lambda client: client.delete_quota(known, reason="why not"))
    assert (changed.changed, changed.quota.id) == (True, gate["id"])
    read, patch, delete = api.requests
    assert read.path == "/v1/quotas?tenant=tenant_a&source=scanner%2F7"
    names = "tenant=tenant_a&source=scanner%2F7"
    assert (patch.method, patch.path) == ("PATCH", f"/v1/quotas/{gate['id']}?{names}&dryRun=true")
    assert json.loads(patch.body) == {**numbers, "reason": "why"}
    assert patch.headers["if-match"] == delete.headers["if-match"] == gate["etag"]
    assert (delete.method, delete.path) == ("DELETE", f"/v1/quotas/{gate['id']}?{names}&reason=why+not")
    with serving(CannedResponse(412, samples.problem(412, "RULE_CHANGED"))) as api:
        with pytest.raises(RuleChanged):
            await either.call(api.url, lambda client: client.set_quota(known, {}, reason="why"))


async def test_a_breaker_is_set_and_reset(either: EitherClient) -> None:
    """Its numbers are sent in their own object; the names of the gate are sent with the reset; 409 is Conflicting."""
    known = Quota.model_validate(samples.quota(source="s"))
    refused = CannedResponse(409, samples.problem(409, "NO_BREAKER"))
    with serving(
        CannedResponse(body=samples.quota_change()), CannedResponse(body=samples.quota_change()), refused
    ) as api:
        numbers: dict[str, Any] = {"breaker": {"failure_rate": 0.25, "cooldown_s": None}}
        await either.call(api.url, lambda client: client.set_quota(known, numbers, reason="r"))
        await either.call(api.url, lambda client: client.reset_breaker(known, reason="r"))
        with pytest.raises(Conflicting):
            await either.call(api.url, lambda client: client.reset_breaker(known, reason="r"))
    sent = [(request.method, request.path, json.loads(request.body)) for request in api.requests[:2]]
    path = f"/v1/quotas/{known.id}"
    assert sent == [
        ("PATCH", f"{path}?tenant=tenant_a&source=s", {**numbers, "reason": "r"}),
        ("POST", f"{path}:reset?tenant=tenant_a&source=s", {"reason": "r"}),
    ]


async def test_a_gate_is_held_throttled_and_resumed(either: EitherClient) -> None:
    """One gate by its names, a time with its zone; an omitted argument is not sent."""
    until = datetime(2026, 5, 1, tzinfo=UTC)
    with serving(CannedResponse(body=samples.quota_change())) as api:
        await either.call(api.url, lambda client: client.hold_gate("a", reason="r", source="s", until=until))
        await either.call(
            api.url, lambda client: client.throttle_gate("a", reason="r", job_type="OCR", max_per_hour=60)
        )
        await either.call(api.url, lambda client: client.resume_gate("a", reason="r"))
    sent = [(request.path, json.loads(request.body)) for request in api.requests]
    assert sent == [
        ("/v1/limits/pause", {"tenant": "a", "source": "s", "until": "2026-05-01T00:00:00+00:00", "reason": "r"}),
        ("/v1/limits/throttle", {"tenant": "a", "job_type": "OCR", "max_per_hour": 60, "reason": "r"}),
        ("/v1/limits/resume", {"tenant": "a", "reason": "r"}),
    ]


async def test_gates_who_waits_and_what_changed_are_lists(either: EitherClient) -> None:
    """Lists come page by page, with the names of each gate; a gate without limits is found by its names."""
    known = Quota.model_validate(samples.quota(source="s"))
    path = f"/v1/quotas/{known.id}"
    reads: dict[str, tuple[Callable[[Any], Any], str]] = {
        "/v1/quotas?": (lambda client: client.quotas(tenant="tenant_a"), "quotas"),
        f"{path}/waiting?": (lambda client: client.waiting(known), "waiting"),
        f"{path}/log?": (lambda client: client.quota_log(known), "entries"),
    }
    for start, (call, key) in reads.items():
        with serving(CannedResponse(body={key: [], "next": "p2"}), CannedResponse(body={key: [], "next": None})) as api:
            assert await either.call(api.url, call) == []
        assert all(request.path.startswith(start) and "tenant=tenant_a" in request.path for request in api.requests)
        assert ["cursor=p2" in request.path for request in api.requests] == [False, True]


async def test_a_bulk_is_made_read_and_stopped(either: EitherClient) -> None:
    """A filter as JSON, with instants as texts; the key of the caller, else a random one; the tenant that is named."""
    since, made = datetime(2026, 5, 1, tzinfo=UTC), by_model("job_1")
    with serving(CannedResponse(202, made["Bulk"])) as api:
        words = {"status": ["QUEUED"], "since": since, "label": None}
        bulk = await either.call(api.url, lambda client: client.start_bulk("pause", words, reason="r", key="k"))
        await either.call(api.url, lambda client: client.redrive_tree("job_1", reason="r"))
        await either.call(api.url, lambda client: client.bulk("bulk_1", tenant="a"))
        await either.call(api.url, lambda client: client.cancel_bulk("bulk_1"))
    assert bulk.bulkId == made["Bulk"]["bulkId"]
    started, tree, read, cancelled = api.requests
    sent = {"status": ["QUEUED"], "since": "2026-05-01T00:00:00+00:00"}
    assert json.loads(started.body) == {"action": "pause", "filter": sent, "reason": "r"}
    assert started.headers["idempotency-key"] == "k"
    assert (tree.path, json.loads(tree.body)) == ("/v1/jobs/job_1:redrive", {"reason": "r", "withDependants": True})
    assert len(tree.headers["idempotency-key"]) == 36
    assert (read.path, cancelled.path) == ("/v1/bulk/bulk_1?tenant=a", "/v1/bulk/bulk_1:cancel")
    with serving(CannedResponse(200, made["BulkPreview"])) as api:
        found = await either.call(api.url, lambda client: client.preview_bulk("pause", {"status": "QUEUED"}))
    assert (found.matched, json.loads(api.requests[0].body)["dryRun"]) == (1, True)


async def test_an_empty_parameter_of_a_bulk_filter_is_sent(either: EitherClient) -> None:
    """No job matches an empty parameter, or the API refuses it. Without it, the filter would match every job."""
    words = {"status": (), "label": "", "archived": False}
    with serving(CannedResponse(202, by_model("job_1")["Bulk"])) as api:
        await either.call(api.url, lambda client: client.start_bulk("cancel", words, reason="r"))
    assert json.loads(api.requests[0].body)["filter"] == {"status": [], "label": "", "archived": False}


async def test_bulks_items_and_related_jobs_are_lists(either: EitherClient) -> None:
    """Page by page; the jobs that a job depends on come at once."""
    reads: dict[str, tuple[Callable[[Any], Any], str]] = {
        "/v1/bulk?tenant=a&": (lambda client: client.bulks(tenant="a"), "bulks"),
        "/v1/bulk/b/items?outcome=OPEN&": (lambda client: client.bulk_items("b", outcome="OPEN"), "items"),
        "/v1/jobs/job_1/dependencies?": (lambda client: client.dependants("job_1"), "dependants"),
    }
    for start, (call, key) in reads.items():
        with serving(CannedResponse(body={key: [], "next": "p2"}), CannedResponse(body={key: [], "next": None})) as api:
            assert await either.call(api.url, call) == []
        assert all(request.path.startswith(start) for request in api.requests)
        assert ["cursor=p2" in request.path for request in api.requests] == [False, True]
    with serving(CannedResponse(body=by_model("job_1")["DependencyPage"])) as api:
        [related] = await either.call(api.url, lambda client: client.dependencies("job_1"))
    assert related.status is None


async def test_incidents_are_listed_read_and_settled(either: EitherClient) -> None:
    """The filter's words as they are, several with commas between; an act is a POST with its reason."""
    line, whole = samples.incident(), samples.incident_detail()
    pages = [{"incidents": [line], "next": "p2", "partial": True}, {"incidents": [], "next": None, "partial": False}]
    with serving(*(CannedResponse(body=each) for each in pages)) as api:
        since = datetime(2026, 5, 1, tzinfo=UTC)
        found = await either.call(
            api.url, lambda client: client.incidents(tenant_id="a", state=["OPEN", "RETRIED"], kind="JOB", since=since)
        )
    assert [(each.incidentId, each.state) for each in found] == [("inc_job_1", "OPEN")]
    words = "tenant_id=a&state=OPEN%2CRETRIED&kind=JOB&since=2026-05-01T00%3A00%3A00%2B00%3A00"
    assert [request.path.split("&limit")[0] for request in api.requests] == [f"/v1/incidents?{words}"] * 2
    with serving(CannedResponse(body=whole)) as api:
        read = await either.call(api.url, lambda client: client.incident("inc_job_1"))
        for verb in ("resolve", "retry", "dismiss"):
            await either.call(api.url, methodcaller(f"{verb}_incident", "inc_job_1", reason="why"))
    assert [entry.type for entry in read.log] == ["OPENED"]
    assert api.requests[0].path == "/v1/incidents/inc_job_1"
    sent = [(request.path, json.loads(request.body)) for request in api.requests[1:]]
    assert sent == [(f"/v1/incidents/inc_job_1:{verb}", {"reason": "why"}) for verb in ("resolve", "retry", "dismiss")]
    with serving(CannedResponse(body=samples.job("FAILED_FINAL"))) as api:
        put_aside = await either.call(api.url, lambda client: client.dismiss_dead_letter("job_1", reason="why"))
    assert (put_aside.jobId, api.requests[0].path) == ("job_1", "/v1/deadletters/job_1:dismiss")


async def test_sums_come_page_by_page(either: EitherClient) -> None:
    """Each page is a sum of its own jobs, and names the next page."""
    pages = [CannedResponse(body=samples.sums(next_)) for next_ in ("p2", None)]
    with serving(*pages) as api:
        found = await either.call(api.url, lambda client: client.receipts(tenant_id="a", by="source"))
    assert [page.jobs for page in found] == [0, 0]
    assert ["by=source" in request.path for request in api.requests] == [True, True]
    assert ["cursor=p2" in request.path for request in api.requests] == [False, True]
