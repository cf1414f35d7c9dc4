"""Both clients, each over real sockets, held to the same behaviour."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
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
    Refused,
    Retries,
    ServerFault,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WaitTimeout,
)
from tests.lucius_client import samples
from tests.lucius_client.api_of_its_own import Says, serving

SOON = Retries(attempts=4, first_s=0.001)


class Either:
    """One of the two clients, called the same way."""

    def __init__(self, kind: type[Client] | type[AsyncClient]) -> None:
        self._kind = kind

    async def ask(self, url: str, call: Callable[[Any], Any], **options: Any) -> Any:
        client = self._kind(url, **{"retries": SOON, **options})
        try:
            told = call(client)
            if isinstance(told, AsyncIterator):
                return [each async for each in told]
            if hasattr(told, "__await__"):
                return await told
            return list(told) if hasattr(told, "__next__") else told
        finally:
            closed = client.close()
            if closed is not None:
                await closed


@pytest.fixture(params=[Client, AsyncClient])
def either(request: pytest.FixtureRequest) -> Either:
    return Either(request.param)


async def test_a_lost_answer_is_one_job(either: Either) -> None:
    """A submit without a key gets one, and it is the same in every repetition."""
    with serving(
        Says(body=None), Says(503, samples.problem(503, "DEPENDENCY_UNAVAILABLE")), Says(202, samples.accepted())
    ) as api:
        submitted = await either.ask(api.url, lambda client: client.submit(samples.ENVELOPE))
    assert submitted.job.jobId == "job_1"
    keys = [json.loads(asked.body)["idempotency_key"] for asked in api.asked]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert keys[0]


@pytest.mark.parametrize("key", ["mine", None])
async def test_a_key_that_is_given_is_kept(either: Either, key: str | None) -> None:
    """Also null, which says that the body is the key."""
    with serving(Says(202, samples.accepted(), {"Idempotency-Replayed": "true"})) as api:
        submitted = await either.ask(
            api.url, lambda client: client.submit({**samples.ENVELOPE, "idempotency_key": key})
        )
    assert submitted.replayed
    assert json.loads(api.asked[0].body)["idempotency_key"] == key


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
        (500, "INTERNAL", ServerFault),
        (418, "TEAPOT", Refused),
    ],
)
async def test_problems_are_typed(either: Either, status: int, code: str, kind: type[Refused]) -> None:
    """By code where it has a class, else by status; the problem itself is at hand."""
    body = samples.problem(
        status, code, errors=(("payload.ocr", "is missing"),), members={"limit": "LUCIUS_MAX_INFLIGHT"}
    )
    with serving(Says(status, body)) as api:
        with pytest.raises(kind) as refused:
            await either.ask(api.url, lambda client: client.job("job_1"))
    error = refused.value
    assert type(error) is kind
    assert (error.status, error.code, error.limit) == (status, code, "LUCIUS_MAX_INFLIGHT")
    assert "payload.ocr: is missing" in str(error)
    assert len(api.asked) == (4 if status in (429, 500, 503) else 1)


async def test_a_retry_after_that_is_too_long_is_told(either: Either) -> None:
    """The caller learns when to come again."""
    with serving(Says(429, samples.problem(429, "LIMIT_REACHED"), {"Retry-After": "3600"})) as api:
        with pytest.raises(LimitReached) as refused:
            await either.ask(api.url, lambda client: client.submit(samples.ENVELOPE))
    assert refused.value.retry_after_s == 3600
    assert len(api.asked) == 1


async def test_a_proxys_page_is_an_error_of_ours(either: Either) -> None:
    """An HTML page is told by its status; one with status 200 is no LUCIUS."""
    with serving(Says(502, b"<html>Bad gateway</html>")) as api:
        with pytest.raises(ServerFault, match="HTTP_502"):
            await either.ask(api.url, lambda client: client.job("job_1"))
    with serving(Says(200, b"<html>Welcome</html>")) as api:
        with pytest.raises(NotLucius):
            await either.ask(api.url, lambda client: client.job("job_1"))


async def test_silence_and_nonsense_are_told_apart(either: Either) -> None:
    """Nobody there: Unreachable. No address: BadAddress. An id that would make another address: BadId."""
    with pytest.raises(Unreachable):
        await either.ask(f"http://127.0.0.1:{find_free()}", lambda client: client.live())
    with pytest.raises(BadAddress):
        await either.ask("ftp://127.0.0.1", lambda client: client.live())
    for name in ("", ".", ".."):
        with pytest.raises(BadId):
            await either.ask(f"http://127.0.0.1:{find_free()}", lambda client, name=name: client.job(name))


async def test_a_list_is_fetched_page_by_page(either: Either) -> None:
    """Cursors follow each other, also past an empty page, and a limit ends it."""
    pages = (
        Says(body=samples.page("a", "b", next_="p2")),
        Says(body=samples.page(next_="p3")),
        Says(body=samples.page("c", "d")),
    )
    with serving(*pages) as api:
        found = await either.ask(
            api.url, lambda client: client.jobs(status=["FAILED_FINAL", "CANCELLED"], label="team:red")
        )
        assert [line.jobId for line in found] == ["a", "b", "c", "d"]
    assert "status=FAILED_FINAL%2CCANCELLED" in api.asked[0].path
    assert ["cursor=p2" in asked.path for asked in api.asked] == [False, True, False]
    with serving(*pages) as api:
        found = await either.ask(api.url, lambda client: client.jobs(limit=3))
        assert [line.jobId for line in found] == ["a", "b", "c"]
    assert "limit=1" in api.asked[-1].path


async def test_waiting_is_a_long_poll(either: Either) -> None:
    """The ETag goes back with `wait`; a 304 is nothing new; the end of the job is the end of it."""
    answers = (
        Says(body=samples.job("QUEUED"), headers={"ETag": '"one"'}),
        Says(304, headers={"ETag": '"one"'}),
        Says(body=samples.job("SUCCEEDED"), headers={"ETag": '"two"'}),
    )
    with serving(*answers) as api:
        changes = await either.ask(api.url, lambda client: client.changes("job_1"))
    assert [job.status for job in changes] == ["QUEUED", "SUCCEEDED"]
    assert [asked.headers.get("if-none-match") for asked in api.asked] == [None, '"one"', '"one"']
    assert [asked.path for asked in api.asked] == ["/v1/jobs/job_1", *["/v1/jobs/job_1?wait=20"] * 2]


async def test_waiting_ends_when_its_time_is_up(either: Either) -> None:
    """WaitTimeout has the job as it was last seen."""
    with serving(Says(body=samples.job("IN_PROGRESS"), headers={"ETag": '"one"'}), Says(304)) as api:
        with pytest.raises(WaitTimeout) as late:
            await either.ask(api.url, lambda client: client.wait("job_1", timeout_s=0.3))
    assert late.value.job.status == "IN_PROGRESS"


async def test_the_token_is_asked_for_before_each_request(either: Either) -> None:
    """A callable renews it; a string stays; without one nothing is sent."""
    tokens = iter(["first", "second"])
    with serving(Says(503, samples.problem(503, "NOT_READY")), Says()) as api:
        await either.ask(api.url, lambda client: client.job("job_1"), token=lambda: next(tokens))
        await either.ask(api.url, lambda client: client.job("job_1"), token="fixed")
        await either.ask(api.url, lambda client: client.job("job_1"))
    sent = [asked.headers.get("authorization") for asked in api.asked]
    assert sent == ["Bearer first", "Bearer second", "Bearer fixed", None]


async def test_an_id_is_never_a_path(either: Either) -> None:
    """What a caller names stays one segment."""
    with serving(Says()) as api:
        await either.ask(api.url, lambda client: client.job("../admin?x=1"))
    assert api.asked[0].path == "/v1/jobs/..%2Fadmin%3Fx%3D1"


async def test_what_a_newer_api_adds_is_kept(either: Either) -> None:
    """Unknown fields are no error, and are there."""
    with serving(Says(body={**samples.job(), "invented": 1})) as api:
        job = await either.ask(api.url, lambda client: client.job("job_1"))
    assert job.plain()["invented"] == 1


async def test_an_awaited_token() -> None:
    """The asynchronous client also takes one that has to be awaited."""

    async def token() -> str:
        return "awaited"

    with serving(Says()) as api:
        async with AsyncClient(api.url, token=token) as client:
            await client.job("job_1")
    assert api.asked[0].headers["authorization"] == "Bearer awaited"
