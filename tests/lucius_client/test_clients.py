"""The behaviour of both clients, over real sockets."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from operator import methodcaller
from typing import Any

import pytest

from emulator.up.ports import find_free
from lucius_client import (
    AsyncClient,
    BadAddress,
    BadId,
    BadRequest,
    Client,
    Conflicting,
    Forbidden,
    JobNotFound,
    KeyConflict,
    LimitReached,
    NotLucius,
    Overloaded,
    Refused,
    Retries,
    RuleChanged,
    ServerFault,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WaitTimeout,
)
from lucius_client.models import Quota
from shared.apidocs.bulk_examples import by_model
from tests.lucius_client import samples
from tests.lucius_client.stub_api import CannedResponse, serving

FAST_RETRIES = Retries(attempts=4, first_s=0.001)


class EitherClient:
    """One of the two clients, with one way to call it."""

    def __init__(self, kind: type[Client] | type[AsyncClient]) -> None:
        self._kind = kind

    async def call(self, url: str, call: Callable[[Any], Any], **options: Any) -> Any:
        client = self._kind(url, **{"retries": FAST_RETRIES, **options})
        try:
            result = call(client)
            if isinstance(result, AsyncIterator):
                return [each async for each in result]
            if hasattr(result, "__await__"):
                return await result
            return list(result) if hasattr(result, "__next__") else result
        finally:
            closed = client.close()
            if closed is not None:
                await closed


@pytest.fixture(params=[Client, AsyncClient])
def either(request: pytest.FixtureRequest) -> EitherClient:
    return EitherClient(request.param)


def _public(kind: type) -> dict[str, tuple[str, str | None]]:
    """Signature and docstring of the constructor and of each public method."""
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: (str(inspect.signature(method)).replace("Async", ""), inspect.getdoc(method))
        for name, method in methods
        if name == "__init__" or not name.startswith("_")
    }


def test_both_clients_have_the_same_methods() -> None:
    """Names, parameters, defaults, types and docstrings are equal, but for `Async` in the names of types."""
    assert _public(Client) == _public(AsyncClient)
    assert inspect.getdoc(Client) == inspect.getdoc(AsyncClient)
    assert len(_public(Client)) > 20


async def test_a_lost_response_is_one_job(either: EitherClient) -> None:
    """A submit without a key gets one, which is the same in every repetition."""
    with serving(
        CannedResponse(body=None),
        CannedResponse(503, samples.problem(503, "DEPENDENCY_UNAVAILABLE")),
        CannedResponse(202, samples.accepted()),
    ) as api:
        submitted = await either.call(api.url, lambda client: client.submit(samples.ENVELOPE))
    assert submitted.job.jobId == "job_1"
    keys = [json.loads(request.body)["idempotency_key"] for request in api.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


@pytest.mark.parametrize("key", ["mine", None])
async def test_a_key_that_is_given_is_kept(either: EitherClient, key: str | None) -> None:
    """A key of the caller is sent, also null, which makes the body the key."""
    with serving(CannedResponse(202, samples.accepted(), {"Idempotency-Replayed": "true"})) as api:
        submitted = await either.call(
            api.url, lambda client: client.submit({**samples.ENVELOPE, "idempotency_key": key})
        )
    assert submitted.replayed
    assert json.loads(api.requests[0].body)["idempotency_key"] == key


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "ENVELOPE_INVALID", BadRequest),
        (401, "TOKEN_INVALID", Unauthenticated),
        (403, "SCOPE_MISSING", Forbidden),
        (404, "JOB_NOT_FOUND", JobNotFound),
        (409, "IDEMPOTENCY_CONFLICT", KeyConflict),
        (409, "CONTROL_NOT_POSSIBLE", Conflicting),
        (429, "LIMIT_REACHED", LimitReached),
        (503, "NOT_READY", Unavailable),
        (503, "OVERLOADED", Overloaded),
        (500, "INTERNAL", ServerFault),
        (418, "TEAPOT", Refused),
    ],
)
async def test_problems_are_typed(either: EitherClient, status: int, code: str, kind: type[Refused]) -> None:
    """The class follows the problem's code, or else the status; the error holds the problem."""
    body = samples.problem(
        status, code, errors=(("payload.ocr", "is missing"),), members={"limit": "LUCIUS_MAX_INFLIGHT"}
    )
    with serving(CannedResponse(status, body)) as api:
        with pytest.raises(kind) as refused:
            await either.call(api.url, lambda client: client.job("job_1"))
    error = refused.value
    assert type(error) is kind
    assert (error.status, error.code, error.limit) == (status, code, "LUCIUS_MAX_INFLIGHT")
    assert "payload.ocr: is missing" in str(error)
    assert len(api.requests) == (4 if status in (429, 500, 503) else 1)


async def test_a_retry_after_that_is_too_long_is_raised_at_once(either: EitherClient) -> None:
    """A `Retry-After` over `longest_s` raises at once, with the time to wait."""
    with serving(CannedResponse(429, samples.problem(429, "LIMIT_REACHED"), {"Retry-After": "3600"})) as api:
        with pytest.raises(LimitReached) as refused:
            await either.call(api.url, lambda client: client.submit(samples.ENVELOPE))
    assert refused.value.retry_after_s == 3600
    assert len(api.requests) == 1


async def test_a_page_of_a_proxy_is_an_error(either: EitherClient) -> None:
    """An HTML page is an error of its status; with status 200 it is NotLucius."""
    with serving(CannedResponse(502, b"<html>Bad gateway</html>")) as api:
        with pytest.raises(ServerFault, match="HTTP_502"):
            await either.call(api.url, lambda client: client.job("job_1"))
    with serving(CannedResponse(200, b"<html>Welcome</html>")) as api:
        with pytest.raises(NotLucius):
            await either.call(api.url, lambda client: client.job("job_1"))


async def test_no_response_and_bad_addresses_have_errors_of_their_own(either: EitherClient) -> None:
    """No server is Unreachable, a wrong URL BadAddress, an id that would change the path BadId."""
    with pytest.raises(Unreachable):
        await either.call(f"http://127.0.0.1:{find_free()}", lambda client: client.live())
    with pytest.raises(BadAddress):
        await either.call("ftp://127.0.0.1", lambda client: client.live())
    for name in ("", ".", ".."):
        with pytest.raises(BadId):
            await either.call(f"http://127.0.0.1:{find_free()}", lambda client, name=name: client.job(name))


async def test_a_list_is_fetched_page_by_page(either: EitherClient) -> None:
    """The cursor of each page, also of an empty one, requests the next; `limit` ends the list."""
    pages = (
        CannedResponse(body=samples.page("a", "b", next_="p2")),
        CannedResponse(body=samples.page(next_="p3")),
        CannedResponse(body=samples.page("c", "d")),
    )
    with serving(*pages) as api:
        lines = await either.call(
            api.url, lambda client: client.jobs(status=["FAILED_FINAL", "CANCELLED"], label="team:red")
        )
        assert [line.jobId for line in lines] == ["a", "b", "c", "d"]
    assert "status=FAILED_FINAL%2CCANCELLED" in api.requests[0].path
    assert ["cursor=p2" in request.path for request in api.requests] == [False, True, False]
    with serving(*pages) as api:
        lines = await either.call(api.url, lambda client: client.jobs(limit=3))
        assert [line.jobId for line in lines] == ["a", "b", "c"]
    assert "limit=1" in api.requests[-1].path


async def test_waiting_is_a_long_poll(either: EitherClient) -> None:
    """The ETag is sent with `wait`, a 304 yields nothing, and the final state ends the iterator."""
    responses = (
        CannedResponse(body=samples.job("QUEUED"), headers={"ETag": '"one"'}),
        CannedResponse(304, headers={"ETag": '"one"'}),
        CannedResponse(body=samples.job("SUCCEEDED"), headers={"ETag": '"two"'}),
    )
    with serving(*responses) as api:
        changes = await either.call(api.url, lambda client: client.changes("job_1"))
    assert [job.status for job in changes] == ["QUEUED", "SUCCEEDED"]
    assert [request.headers.get("if-none-match") for request in api.requests] == [None, '"one"', '"one"']
    assert [request.path for request in api.requests] == ["/v1/jobs/job_1", *["/v1/jobs/job_1?wait=20"] * 2]


async def test_waiting_for_the_gates(either: EitherClient) -> None:
    """Until the job waits no more, whatever else changes; one that never waited is there at once."""
    staged = {**samples.job("THROTTLED"), "staged_at": "2026-01-27T10:00:00Z"}
    paused = {**staged, "status": "PAUSED"}
    inside = {**staged, "status": "QUEUED", "admitted_at": "2026-01-27T10:05:00Z"}
    bodies = [
        CannedResponse(body=body, headers={"ETag": f'"{at}"'}) for at, body in enumerate((staged, paused, inside))
    ]
    with serving(*bodies) as api:
        job = await either.call(api.url, lambda client: client.wait_admitted("job_1"))
    assert (job.status, [request.path for request in api.requests]) == (
        "QUEUED",
        ["/v1/jobs/job_1", *["/v1/jobs/job_1?wait=20&until=admitted"] * 2],
    )
    with serving(CannedResponse(body=samples.job("IN_PROGRESS"), headers={"ETag": '"one"'})) as api:
        assert (await either.call(api.url, lambda client: client.wait_admitted("job_1"))).status == "IN_PROGRESS"
    assert len(api.requests) == 1


async def test_waiting_ends_when_its_time_is_up(either: EitherClient) -> None:
    """WaitTimeout holds the last state of the job."""
    with serving(
        CannedResponse(body=samples.job("IN_PROGRESS"), headers={"ETag": '"one"'}), CannedResponse(304)
    ) as api:
        with pytest.raises(WaitTimeout) as late:
            await either.call(api.url, lambda client: client.wait("job_1", timeout_s=0.3))
    assert late.value.job.status == "IN_PROGRESS"


async def test_the_token_is_asked_for_before_each_request(either: EitherClient) -> None:
    """A function is called for each request, a string stays the same, None sends no header."""
    tokens = iter(["first", "second"])
    with serving(CannedResponse(503, samples.problem(503, "NOT_READY")), CannedResponse()) as api:
        await either.call(api.url, lambda client: client.job("job_1"), token=lambda: next(tokens))
        await either.call(api.url, lambda client: client.job("job_1"), token="fixed")
        await either.call(api.url, lambda client: client.job("job_1"))
    sent = [request.headers.get("authorization") for request in api.requests]
    assert sent == ["Bearer first", "Bearer second", "Bearer fixed", None]


async def test_an_id_is_never_a_path(either: EitherClient) -> None:
    """An id is quoted as one segment of the path."""
    with serving(CannedResponse()) as api:
        await either.call(api.url, lambda client: client.job("../admin?x=1"))
    assert api.requests[0].path == "/v1/jobs/..%2Fadmin%3Fx%3D1"


async def test_what_a_newer_api_adds_is_kept(either: EitherClient) -> None:
    """Unknown fields of a response are kept."""
    with serving(CannedResponse(body={**samples.job(), "invented": 1})) as api:
        job = await either.call(api.url, lambda client: client.job("job_1"))
    assert job.plain()["invented"] == 1


async def test_a_rule_is_changed_as_it_was_read(either: EitherClient) -> None:
    """The gate's id, names and ETag go with the change; 412 is RuleChanged."""
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
    """Its numbers in an object of their own; the names of the gate go with the reset; 409 is Conflicting."""
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
    """One gate by its names, a time with its zone; what is not named is not sent."""
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
    """Page by page, with the names of the gate, by which also one is found for which nothing is set."""
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
    """Each page is a sum of its own jobs, and names the next."""
    pages = [CannedResponse(body=samples.sums(next_)) for next_ in ("p2", None)]
    with serving(*pages) as api:
        found = await either.call(api.url, lambda client: client.receipts(tenant_id="a", by="source"))
    assert [page.jobs for page in found] == [0, 0]
    assert ["by=source" in request.path for request in api.requests] == [True, True]
    assert ["cursor=p2" in request.path for request in api.requests] == [False, True]


async def test_an_awaited_token() -> None:
    """The asynchronous client awaits a token where the function returns an awaitable."""

    async def token() -> str:
        return "awaited"

    with serving(CannedResponse()) as api:
        async with AsyncClient(api.url, token=token) as client:
            await client.job("job_1")
    assert api.requests[0].headers["authorization"] == "Bearer awaited"
