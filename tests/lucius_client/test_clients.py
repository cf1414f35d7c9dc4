"""Requests, retries, pages, waits and errors of both clients, over real sockets."""

from __future__ import annotations

import inspect
import json

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
    ServerFault,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WaitTimeout,
)
from tests.lucius_client import samples
from tests.lucius_client.conftest import EitherClient
from tests.lucius_client.stub_api import CannedResponse, serving


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


async def test_waiting_for_the_end_is_one_request(either: EitherClient) -> None:
    """The API holds the request; if it does not, or after its maximum wait, the client sends it again with the ETag."""
    with serving(CannedResponse(body=samples.job("SUCCEEDED"), headers={"ETag": '"one"'})) as api:
        job = await either.call(api.url, lambda client: client.wait("job_1"))
    assert (job.status, [request.path for request in api.requests]) == (
        "SUCCEEDED",
        ["/v1/jobs/job_1?wait=20&until=ended"],
    )
    responses = (
        CannedResponse(body=samples.job("PAUSED"), headers={"ETag": '"one"'}),
        CannedResponse(304, headers={"ETag": '"one"'}),
        CannedResponse(body=samples.job("CANCELLED"), headers={"ETag": '"two"'}),
    )
    with serving(*responses) as api:
        assert (await either.call(api.url, lambda client: client.wait("job_1"))).status == "CANCELLED"
    assert [request.path for request in api.requests] == ["/v1/jobs/job_1?wait=20&until=ended"] * 3
    assert [request.headers.get("if-none-match") for request in api.requests] == [None, '"one"', '"one"']


async def test_a_submission_waits_for_the_end(either: EitherClient) -> None:
    """By the preference of RFC 7240, again after a lost response; 200 is the job, 202 that it has not ended."""
    lost, ended = CannedResponse(body=None), CannedResponse(200, samples.job("SUCCEEDED"))
    with serving(lost, ended) as api:
        submitted = await either.call(api.url, lambda client: client.submit(samples.ENVELOPE, wait=20))
    assert (submitted.job.jobId, submitted.ended.status) == ("job_1", "SUCCEEDED")
    assert [request.headers.get("prefer") for request in api.requests] == ["wait=20"] * 2
    assert len({json.loads(request.body)["idempotency_key"] for request in api.requests}) == 1
    with serving(CannedResponse(202, samples.accepted())) as api:
        assert (await either.call(api.url, lambda client: client.submit(samples.ENVELOPE, wait=5))).ended is None
        assert (await either.call(api.url, lambda client: client.submit(samples.ENVELOPE))).ended is None
    assert [request.headers.get("prefer") for request in api.requests] == ["wait=5", None]


async def test_waiting_for_the_gates(either: EitherClient) -> None:
    """The call returns when no gate holds the job, at any other change it waits; for an admitted job, at once."""
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
        ["/v1/jobs/job_1?wait=20&until=admitted"] * 3,
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


async def test_an_awaited_token() -> None:
    """The asynchronous client awaits a token where the function returns an awaitable."""

    async def token() -> str:
        return "awaited"

    with serving(CannedResponse()) as api:
        async with AsyncClient(api.url, token=token) as client:
            await client.job("job_1")
    assert api.requests[0].headers["authorization"] == "Bearer awaited"
