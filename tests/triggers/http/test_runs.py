"""Logs and artifacts of runs: positions, streams and their end, attempts, tenants."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from dataclasses import replace
from typing import Any

import azure.functions as func
import pytest

from shared.access.caller import ANYONE, Caller
from shared.operations.process.waiters import MAX_FOLLOWERS
from shared.ports.runs import LogPart
from shared.refusals import JobNotFound
from tests.memory_runs import MemoryRuns
from tests.operations.conftest import World, world
from tests.operations.jobs.test_archived_dependencies import archives
from tests.operations.support import dispatch, service_sends, submitted
from tests.triggers.http.waiting_requests import OWNER, STRANGER, request, waiting_at
from triggers import run_log, runs_http
from triggers.http.problems import RequestError

__all__ = ["world"]  # a fixture of the operations' tests

PAYLOAD = {"packId": "test", "packVersion": "1.0.0", "planHash": f"sha256:{'0' * 64}"}
TENANT = "tenant_a"


@pytest.fixture
def files(world: World) -> MemoryRuns:
    return MemoryRuns()


@pytest.fixture
async def api(world: World, files: MemoryRuns, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(run_log, "HOLD_S", 0)
    monkeypatch.setattr(run_log, "_LOOK_S", 0.01)
    return replace(world, context=replace(world.context, runs=files))


async def started(world: World, doc_id: str = "one") -> str:
    job_id = await submitted(world, request_type="PACK_RUN", payload=PAYLOAD, doc_id=doc_id)
    await dispatch(world, job_id, "pack")
    await service_sends(world, job_id, "ACK", 1, step_id="pack")
    return job_id


async def ended(world: World, job_id: str, number: int = 2, **fields: Any) -> None:
    await service_sends(world, job_id, "RESULT", number, step_id="pack", **fields)


async def second_attempt(world: World, job_id: str) -> None:
    error = {"code": "BUSY", "message": "later"}
    await ended(world, job_id, status="FAILED_RETRY", error=error, result_ref=None)
    world.clock.advance(60)
    await dispatch(world, job_id, "pack")


async def get(
    world: World,
    handler: Any,
    job_id: str,
    *,
    caller: Caller = OWNER,
    accept: str = "text/event-stream",
    last: str | None = None,
    name: str = "",
    **query: str,
) -> func.HttpResponse:
    headers = {"Accept": accept, **({"Last-Event-ID": last} if last else {})}
    route = {"jobId": job_id, "name": name}
    http = func.HttpRequest("GET", "/v1/runs", headers=headers, params=query, route_params=route, body=b"")
    answer: func.HttpResponse = await handler(request(world, caller, http))
    return answer


async def stream(world: World, job_id: str, last: str | None = None) -> tuple[list[dict[str, Any]], str | None, bool]:
    """Returns the parts of one response, the position after it, and whether it has the event `end`."""
    answer = await get(world, runs_http._run_logs, job_id, last=last)
    text = answer.get_body().decode()
    pieces = [json.loads(each) for each in re.findall(r"^data: (.*)$", text, re.MULTILINE)]
    positions = re.findall(r"^id: (.*)$", text, re.MULTILINE)
    is_end = "event: end" in text
    return (pieces[:-1] if is_end else pieces), (positions[-1] if positions else last), is_end


async def test_a_log_is_followed_to_its_end(api: World, files: MemoryRuns) -> None:
    """Each byte once, from the position of the reader; after the end 204, so that EventSource does not reconnect."""
    job_id = await started(api)
    assert await stream(api, job_id) == ([], "1.0", False)
    files.logs[TENANT, job_id, 1] = b"one\n"
    assert await stream(api, job_id) == ([{"attempt": 1, "offset": 0, "text": "one\n"}], "1.4", False)
    files.logs[TENANT, job_id, 1] += b"two\n"
    await ended(api, job_id)
    assert await stream(api, job_id, "1.4") == ([{"attempt": 1, "offset": 4, "text": "two\n"}], "1.8.end", True)
    assert await stream(api, job_id, "1.8") == ([], "1.8.end", True)
    assert (await get(api, runs_http._run_logs, job_id, last="1.8.end")).status_code == 204


async def test_attempts_follow_one_another(api: World, files: MemoryRuns) -> None:
    """A reader stays at an attempt until the runner has closed its log, and then has the rest of it first."""
    job_id = await started(api)
    files.logs[TENANT, job_id, 1] = b"first\n"
    await second_attempt(api, job_id)
    assert await stream(api, job_id, "1.6") == ([], "1.6", False)
    files.logs[TENANT, job_id, 1] += b"closed\n"
    files.logs[TENANT, job_id, 2] = b"second\n"
    pieces, after, _ = await stream(api, job_id, "1.6")
    assert [(each["attempt"], each["offset"], each["text"]) for each in pieces] == [
        (1, 6, "closed\n"),
        (2, 0, "second\n"),
    ]
    assert after == "2.7"
    answer = await get(api, runs_http._run_logs, job_id, accept="*/*")
    assert answer.get_body() == b"first\nclosed\nsecond\n"


async def test_what_is_written_while_a_reader_moves_on_is_read(api: World, files: MemoryRuns) -> None:
    """The older log gets its last bytes between two reads of the app."""
    job_id = await started(api)
    await second_attempt(api, job_id)
    files.logs[TENANT, job_id, 1] = b"a"

    class Late(MemoryRuns):
        async def read_log(self, tenant: str, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart | None:
            part = await super().read_log(tenant, job_id, attempt, offset=offset, limit=limit)
            if attempt == 1 and offset == 1:
                # after this read, and before any other
                self.logs[tenant, job_id, 1] = b"ab"
                self.logs[tenant, job_id, 2] = b"c"
            return part

    late = Late()
    late.logs = files.logs
    other = replace(api, context=replace(api.context, runs=late))
    read, after = b"", "1.0"
    for _ in range(3):
        pieces, after_, _ = await stream(other, job_id, after)
        read, after = read + b"".join(each["text"].encode() for each in pieces), after_ or after
    assert read == b"abc"


async def test_a_character_is_never_cut(api: World, files: MemoryRuns) -> None:
    """An incomplete character waits for its rest; one without a rest is replaced at the end."""
    job_id = await started(api)
    whole = "né €\n".encode()
    files.logs[TENANT, job_id, 1] = whole[:-2]
    [piece], after, _ = await stream(api, job_id)
    assert (piece["text"], after) == ("né ", "1.4")
    files.logs[TENANT, job_id, 1] = whole + b"\xff\xe2"
    await ended(api, job_id)
    [piece], _, is_end = await stream(api, job_id, after)
    assert (piece["text"], is_end) == ("€\n\ufffd\ufffd", True)


async def test_the_text_leads_to_its_rest(api: World, files: MemoryRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    """By `Link`, in responses of bounded size, until the run has ended."""
    monkeypatch.setattr(run_log, "MAX_TEXT", 4)
    job_id = await started(api)
    files.logs[TENANT, job_id, 1] = b"one\ntwo\n"
    await ended(api, job_id)
    read, link = b"", f"</v1/runs/{job_id}/logs?after=1.0>"
    while link:
        after = re.findall(r"after=([0-9.]+)>", link)[0]
        answer = await get(api, runs_http._run_logs, job_id, accept="*/*", after=after)
        read, link = read + answer.get_body(), answer.headers.get("Link", "")
    assert read == b"one\ntwo\n"


async def test_a_request_is_held_until_the_log_grows(
    api: World, files: MemoryRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the run ends the wait too; with too many waiting requests, the reader gets Retry-After."""
    monkeypatch.setattr(run_log, "HOLD_S", 20)
    job_id = await started(api)
    waiting = asyncio.create_task(stream(api, job_id))
    await waiting_at(api, 1)
    files.logs[TENANT, job_id, 1] = b"now\n"
    pieces, after, _ = await waiting
    assert [each["text"] for each in pieces] == ["now\n"]
    waiting = asyncio.create_task(stream(api, job_id, after))
    await waiting_at(api, 1)
    await ended(api, job_id)
    assert (await waiting)[2]
    other = await started(api, "other")
    with contextlib.ExitStack() as held:
        for _ in range(MAX_FOLLOWERS):
            held.enter_context(api.context.process.waiters.hold(TENANT, follower=True))
        answer = await get(api, runs_http._run_logs, other)
    assert int(answer.get_body().decode().split("\n")[0].removeprefix("retry: ")) >= 5000


@pytest.mark.parametrize("position", ["1", "0.0", "1.-1", "01.0", "3.0", "1.0.done", "x"])
async def test_a_position_that_no_response_has_is_refused(api: World, position: str) -> None:
    job_id = await started(api)
    with pytest.raises(RequestError) as caught:
        await get(api, runs_http._run_logs, job_id, last=position)
    assert caught.value.code == "CURSOR_INVALID"


async def test_artifacts_are_listed_and_linked(api: World, files: MemoryRuns) -> None:
    """Of the last attempt, or of the one that is named; a browser is redirected, a program gets the link."""
    job_id = await started(api)
    files.names[TENANT, job_id, 1] = ["report.json"]
    await second_attempt(api, job_id)
    files.names[TENANT, job_id, 2] = ["second.md"]
    listed = json.loads((await get(api, runs_http._run_artifacts, job_id)).get_body())
    assert (listed["attempt"], [each["name"] for each in listed["artifacts"]]) == (2, ["second.md"])
    found = await get(api, runs_http._run_artifact, job_id, name="report.json", attempt="1", accept="text/html")
    assert found.status_code == 307
    assert found.headers["Location"].startswith(f"https://store/{TENANT}/{job_id}/1/report.json?until=")
    linked = await get(api, runs_http._run_artifact, job_id, name="second.md", accept="application/json")
    assert json.loads(linked.get_body())["url"].startswith(f"https://store/{TENANT}/{job_id}/2/second.md")


async def test_a_run_of_an_archived_job_is_read(api: World, files: MemoryRuns) -> None:
    """As long as its files are there; another tenant learns nothing of it."""
    job_id = await started(api)
    files.logs[TENANT, job_id, 1] = b"one\n"
    files.names[TENANT, job_id, 1] = ["report.json"]
    await ended(api, job_id)
    await archives(api, job_id)
    assert await stream(api, job_id) == ([{"attempt": 1, "offset": 0, "text": "one\n"}], "1.4.end", True)
    listed = json.loads((await get(api, runs_http._run_artifacts, job_id)).get_body())
    assert [each["name"] for each in listed["artifacts"]] == ["report.json"]
    with pytest.raises(JobNotFound):
        await get(api, runs_http._run_logs, job_id, caller=STRANGER)


@pytest.mark.parametrize("name", ["missing", "a/b", "../1.log", "..", "a%2Fb", ""])
async def test_a_name_that_is_no_artifact_is_not_found(api: World, files: MemoryRuns, name: str) -> None:
    """Also if a blob had that name."""
    job_id = await started(api)
    files.names[TENANT, job_id, 1] = ["real", "a/b", "../1.log", ".."]
    with pytest.raises(RequestError) as caught:
        await get(api, runs_http._run_artifact, job_id, name=name)
    assert caught.value.code == "ARTIFACT_NOT_FOUND"
    with pytest.raises(RequestError) as caught:
        await get(api, runs_http._run_artifacts, job_id, attempt="0")
    assert caught.value.code == "ATTEMPT_INVALID"


async def test_a_run_is_its_tenants(api: World, files: MemoryRuns) -> None:
    """Another tenant learns as much of it as of a job that never was; a job without PACK is no run."""
    job_id = await started(api)
    files.logs[TENANT, job_id, 1] = b"secret"
    for handler in (runs_http._run_logs, runs_http._run_artifacts, runs_http._run_artifact):
        with pytest.raises(JobNotFound):
            await get(api, handler, job_id, caller=STRANGER, name="real")
        with pytest.raises(JobNotFound):
            await get(api, handler, "job_of_nobody")
    assert files.calls["read_log"] == 0
    answer = await get(api, runs_http._run_logs, job_id, caller=ANYONE, accept="*/*")
    assert answer.get_body() == b"secret"
    scoped = request(api, STRANGER, func.HttpRequest("GET", "/", body=b"")).context()
    with pytest.raises(PermissionError):
        await scoped.runs.read_log(TENANT, job_id, 1, offset=0, limit=1)
    other = await submitted(api)
    with pytest.raises(RequestError) as caught:
        await get(api, runs_http._run_logs, other)
    assert caught.value.code == "RUN_NOT_FOUND"
