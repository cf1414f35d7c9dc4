"""Following a job by both clients and by the command: each event once, with any fault of the connection (R82)."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from rich.console import Console

from lucius_client import AsyncClient, Client, JobNotFound, NotLucius, Retries
from lucius_client.cli import board
from lucius_client.cli.board import Board, follow
from lucius_client.exchange import Pause, Response
from lucius_client.job_stream import JobEvents
from lucius_client.models import Event
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.cli.test_board import event
from tests.lucius_client.stub_api import CannedResponse, StubApi, serving

FAST_RETRIES = Retries(attempts=4, first_s=0.001)
UNAVAILABLE = CannedResponse(503, samples.problem(503, "DEPENDENCY_UNAVAILABLE"))
#: an event whose connection is cut before its empty line
HALF = b"retry: 0\n\nid: p9\ndata: {}\n"


def stream(*events: dict[str, Any], following: str | None = None, retry_ms: int = 1) -> CannedResponse:
    parts = [f"retry: {retry_ms}\n\n"]
    parts += [f"id: p{each['seq']}\ndata: {json.dumps(each)}\n\n" for each in events]
    if following is not None:
        parts.append(f": nothing more yet\nid: {following}\n\n")
    return CannedResponse(body="".join(parts).encode(), headers={"Content-Type": "text/event-stream; charset=utf-8"})


ENDED = CannedResponse(204, b"")


def positions(api: StubApi) -> list[str]:
    """Of the requests for the stream."""
    asked = [urlsplit(each.path) for each in api.requests if each.headers.get("accept") == "text/event-stream"]
    return [parse_qs(each.query)["after"][0] for each in asked]


@pytest.fixture(params=[Client, AsyncClient])
def read(request: pytest.FixtureRequest) -> Callable[..., Any]:
    async def all_of(url: str) -> list[Event]:
        if request.param is Client:
            with Client(url, retries=FAST_RETRIES) as client:
                return list(client.follow("job_1"))
        async with AsyncClient(url, retries=FAST_RETRIES) as client:
            return [each async for each in client.follow("job_1")]

    return all_of


async def test_each_event_once(read: Callable[..., Any]) -> None:
    """Each event arrives once, through a cut connection, a fault, empty answers and Retry-After, until the 204."""
    answers = (
        stream(event(1), event(2)),
        CannedResponse(body=None),
        UNAVAILABLE,
        stream(following="p2", retry_ms=2),
        CannedResponse(body=HALF, headers={"Content-Type": "text/event-stream"}),
        stream(event(3)),
        ENDED,
    )
    with serving(*answers) as api:
        found = await read(api.url)
    assert [each.seq for each in found] == [1, 2, 3]
    assert positions(api) == ["earliest", *["p2"] * 5, "p3"]


def test_an_answer_that_is_cut_anywhere_loses_nothing() -> None:
    """A message without its empty line counts as not received; the next request starts before it."""
    events = [event(seq) for seq in (1, 2, 3)]
    whole = stream(*events).body
    for cut in range(len(whole) + 1):
        series, found, bodies = JobEvents("job_1", FAST_RETRIES), list[int](), [whole[:cut]]
        while len(found) < len(events):
            flow = series.next()
            step = next(flow)
            while isinstance(step, Pause):
                step = flow.send(None)
            after = step.query["after"].removeprefix("p")
            body = bodies.pop() if bodies else stream(*events[0 if after == "earliest" else int(after) :]).body
            with pytest.raises(StopIteration) as answered:
                flow.send(Response(200, {"content-type": "text/event-stream"}, body))
            found += [each.seq for each in answered.value.value]
        assert found == [1, 2, 3]


async def test_what_is_no_stream(read: Callable[..., Any]) -> None:
    """A page of a proxy, an API without streams, and a text with the content type of a stream are refused."""
    wrong = CannedResponse(body=b"id: p1\ndata: nonsense\n\n", headers={"Content-Type": "text/event-stream"})
    for answer in (CannedResponse(body=b"<html>Welcome</html>"), CannedResponse(body={"events": []}), wrong):
        with serving(answer) as api:
            with pytest.raises(NotLucius):
                await read(api.url)


async def test_a_job_that_is_not_there(read: Callable[..., Any]) -> None:
    with serving(CannedResponse(404, samples.problem(404, "JOB_NOT_FOUND"))) as api:
        with pytest.raises(JobNotFound):
            await read(api.url)
    assert len(api.requests) == 1


def job(seq: int, job_status: str = "QUEUED", **step: Any) -> dict[str, Any]:
    whole = samples.job(job_status)
    steps = [{**each, **step} if each["stepId"] == "ocr" else each for each in whole["steps"]]
    return {**whole, "event_seq": seq, "steps": steps}


def test_the_command_shows_each_event_as_a_line() -> None:
    """Events between the position and the read of the job are in both, and shown once; the end is the job's."""
    ocr = {"stepId": "ocr", "attempt_no": 1}
    recorded = event(2, to_status="INITIATED", changes={"attempt_no": 1, "status": "INITIATED"}, **ocr)
    beats = [
        event(seq, to_status="PROCESSING", changes={"status": "PROCESSING", "progress": progress}, **ocr)
        for seq, progress in ((3, None), (4, 0.4), (5, 0.4), (6, 0.75))
    ]
    end = event(7, to_status="FAILED_FINAL", job_to="FAILED_FINAL", changes={"status": "FAILED_FINAL"}, **ocr)
    last = job(7, "FAILED_FINAL", status="FAILED_FINAL", attempt_no=1)
    answers = (
        stream(following="p1"),
        CannedResponse(body=job(2, status="INITIATED", attempt_no=1)),
        stream(recorded, beats[0]),
        CannedResponse(body=None),
        stream(*beats[1:]),
        stream(following="p6"),
        stream(end),
        CannedResponse(body=last),
    )
    with serving(*answers) as api:
        completed = run_main("job", "watch", "job_1", api=api.url)
    assert completed.returncode == 1, completed.stderr
    lines = re.findall(r" s  job_1  (step .*)", completed.stdout)
    assert lines == [
        "step 1/3 ocr  INITIATED  attempt 1/3",
        "step 1/3 ocr  PROCESSING  attempt 1/3",
        "step 1/3 ocr  PROCESSING  attempt 1/3  40%",
        "step 1/3 ocr  PROCESSING  attempt 1/3  75%",
        "step 1/3 ocr  FAILED_FINAL  attempt 1/3",
    ]
    assert positions(api) == ["latest", "p1", "p3", "p3", "p6", "p6"]
    assert "job_1" in completed.stdout.splitlines()[-1]


def test_a_job_that_has_ended_is_read_once() -> None:
    with serving(ENDED, CannedResponse(body=job(7, "SUCCEEDED"))) as api:
        completed = run_main("job", "watch", "job_1", "-o", "ids", api=api.url)
    assert (completed.returncode, completed.stdout, len(api.requests)) == (0, "job_1\n", 2)


class ManyJobs:
    """An API with jobs that end at their second event; each request is held for a moment, as the API does."""

    def __init__(self) -> None:
        self.held, self.most, self.asked = 0, 0, Counter[str]()
        self._lock = threading.Lock()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        job_id, _, is_stream = request.url.path.removeprefix("/v1/jobs/").partition("/")
        if not is_stream:
            has_ended = self.asked[job_id] > 3
            whole = job(2 if has_ended else 1, "SUCCEEDED" if has_ended else "QUEUED")
            return httpx.Response(200, json={**whole, "jobId": job_id})
        with self._lock:
            self.held += 1
            self.most = max(self.most, self.held)
            self.asked[job_id] += 1
        threading.Event().wait(0.01)
        with self._lock:
            self.held -= 1
        is_last = self.asked[job_id] > 3
        answer = stream(event(2, job_to="SUCCEEDED"), retry_ms=0) if is_last else stream(following="p1", retry_ms=0)
        return httpx.Response(200, content=answer.body, headers=answer.headers)


def test_many_jobs_are_followed_in_turns() -> None:
    """A bounded number of requests is held at a time, and a job without events does not delay the others."""
    api = ManyJobs()
    with Client("http://lucius", transport=httpx.MockTransport(api)) as client, Board(Console(quiet=True)) as shown:
        ended = follow(client, shown, {f"job {n}": f"job_{n}" for n in range(20)})
    assert list(ended) == [f"job {n}" for n in range(20)]
    assert {each["status"] for each in ended.values()} == {"SUCCEEDED"}
    assert 1 < api.most <= board._AT_ONCE
    assert set(api.asked.values()) == {4}


def test_what_is_pending_is_submitted_when_there_is_room() -> None:
    api, under_way, most = ManyJobs(), set[str](), 0

    def pending() -> Iterator[tuple[str, Callable[[], str]]]:
        for number in range(6):
            yield f"job {number}", lambda number=number: submit(f"job_{number}")  # type: ignore[misc]

    def submit(job_id: str) -> str:
        nonlocal most
        under_way.add(job_id)
        most = max(most, len(under_way) - sum(count > 3 for count in api.asked.values()))
        return job_id

    with Client("http://lucius", transport=httpx.MockTransport(api)) as client, Board(Console(quiet=True)) as shown:
        ended = follow(client, shown, {}, pending(), max_in_flight=2)
    assert (len(ended), most) == (6, 2)


def test_an_error_ends_the_command() -> None:
    """Also one that comes while another job is waited for."""
    gone = CannedResponse(404, samples.problem(404, "JOB_NOT_FOUND"))
    with serving(stream(following="p1"), CannedResponse(body=job(1)), gone) as api:
        completed = run_main("job", "watch", "job_1", api=api.url)
    assert (completed.returncode, "JOB_NOT_FOUND" in completed.stderr) == (3, True)
