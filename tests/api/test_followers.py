"""Followers of jobs continue across restarts and outages: the loop and the page of the docs, the command (R76, R82)."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

from tests import machine
from tests.api.live import Live
from tests.api.test_streams import STREAM, feed_of, submitted, waiting
from tests.lucius_client.cli.command import PROGRAM
from tests.lucius_client.cli.test_docs import block
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.running_stack import RunningStack
from tests.stack.scripted_service import TENANT, ScriptedService
from tests.waiting import wait_until

DEADLINE_S = 120


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone."""
    return f"followed-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    return api.client(tenant=tenant)


def lines(file: Path) -> list[str]:
    """Returns the complete lines of the output so far."""
    return file.read_text().split("\n")[:-1]


def started(words: list[str], out: Path, **environment: str) -> subprocess.Popen[bytes]:
    with out.open("wb") as written:
        return subprocess.Popen(
            words, cwd=out.parent, stdout=written, env={**os.environ, **environment}, start_new_session=True
        )


def test_a_restart_of_the_host_makes_no_gap(api: Live, own: httpx.Client, tenant: str, tmp_path: Path) -> None:
    """Neither in the loop of the docs, which reads a tenant, nor in the command, which shows a job: the host is killed
    while both wait, and does not respond for a while.
    """
    job_id, token = waiting(own, tenant), api.token(tenant=tenant)
    loop, shown = tmp_path / "loop", tmp_path / "shown"
    script = block("reference/events.md", "curl", "sh", api.stack).replace("tenant_id=acme", f"tenant_id={tenant}")
    processes = [
        started(["sh", "-c", script], loop, TOKEN=token, LUCIUS_API=api.stack.api),
        started([str(PROGRAM), "job", "watch", job_id], shown, LUCIUS_TOKEN=token, LUCIUS_API=api.stack.api),
    ]
    try:
        wait_until(lambda: lines(loop) and lines(shown), "they did not begin", deadline_s=DEADLINE_S)
        api.stack.restart("host")
        for _ in range(3):
            submitted(own, tenant)
        own.patch(f"/v1/jobs/{job_id}", json={"priority": "high", "reason": "a test"}).raise_for_status()
        own.post(f"/v1/jobs/{job_id}:pause").raise_for_status()
        wait_until(lambda: any("PAUSED" in line for line in lines(shown)), "no line came", deadline_s=DEADLINE_S)
        own.post(f"/v1/jobs/{job_id}:cancel").raise_for_status()
        assert processes[1].wait(DEADLINE_S) == 1
        wait_until(lambda: len(feed_of(own)) >= 6, "the feed is not whole", deadline_s=DEADLINE_S)
        whole = feed_of(own)
        wait_until(lambda: len(lines(loop)) >= len(whole), "the loop stopped", deadline_s=DEADLINE_S)
    finally:
        for each in processes:
            # a shell and its command, unless they have ended
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait(DEADLINE_S)
    # attempts of the other jobs are recorded meanwhile
    found = [json.loads(line)["id"] for line in lines(loop)]
    assert found == feed_of(own)[: len(found)]
    assert len(found) >= len(whole)
    assert re.findall(r" s  job_\w+  step 1/1 ocr  (\w+)  ", shown.read_text()) == ["THROTTLED", "PAUSED", "CANCELLED"]


def test_the_loop_ends_when_it_is_refused(api: Live, tmp_path: Path) -> None:
    """It prints the problem, and does not retry for ever."""
    loop = tmp_path / "loop"
    words = ["sh", "-c", block("reference/events.md", "curl", "sh", api.stack)]
    [process] = [started(words, loop, TOKEN="none", LUCIUS_API=api.stack.api)]
    try:
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
    assert json.loads(loop.read_text())["code"] == "TOKEN_INVALID"


def test_the_loop_ends_where_no_feed_is(api: Live, tmp_path: Path) -> None:
    """With `LUCIUS_EVENTS=off`, too, the problem is its last words."""
    loop = tmp_path / "loop"
    words = ["sh", "-c", block("reference/events.md", "curl", "sh", api.stack)]
    with serving(CannedResponse(404, {"code": "EVENTS_OFF"})) as stub:
        [process] = [started(words, loop, TOKEN="", LUCIUS_API=stub.url)]
        try:
            assert process.wait(DEADLINE_S) == 0
        finally:
            process.kill()
    assert json.loads(loop.read_text()) == {"code": "EVENTS_OFF"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=machine.path_of("browser"), timeout=DEADLINE_S * 1000)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, api: Live) -> Iterator[Page]:
    """An empty page at the API's own address, so that these tests are about EventSource and not about CORS."""
    page = browser.new_page()
    page.set_default_timeout(DEADLINE_S * 1000)
    yield page
    page.close()


def opened(page: Page, stack: RunningStack, job_id: str, token: str) -> None:
    """The page of the docs, with the places filled in that its reader fills in."""
    text = block("reference/events.md", "page", "html", stack)
    for example, real in (("https://lucius.example.com", stack.api), ("JOB_ID", job_id), ("TOKEN", token)):
        assert text.count(f'"{example}"') == 1
        text = text.replace(f'"{example}"', json.dumps(real))
    page.route("**/own-page", lambda route: route.fulfill(body=text, content_type="text/html"))
    page.goto(f"{stack.api}/own-page")


def shown_on(page: Page) -> list[str]:
    return [str(each) for each in page.locator("li").all_text_contents()]


def events_of(client: httpx.Client, job_id: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = client.get(f"/v1/jobs/{job_id}/events").raise_for_status().json()["events"]
    return events


@pytest.mark.needs("browser")
def test_a_page_shows_a_jobs_progress_to_its_end(api: Live, page: Page) -> None:
    """A browser's own EventSource reconnects after each response, and is CLOSED after 204."""
    own = api.client()
    job_id = submitted(own, TENANT)
    opened(page, api.stack, job_id, api.token(tenant=TENANT))
    page.wait_for_function("document.querySelectorAll('li').length >= 2")
    with ScriptedService(api.stack.bus_connection) as service:
        directive = service.directive(job_id)
        service.reply(directive, "ACK", progress=0.4)
        page.wait_for_function("document.querySelector('ol').textContent.includes('PROCESSING 0.4')")
        service.reply(directive, "RESULT")
    page.wait_for_function("document.title === 'The job has ended'")
    assert [line.split()[:2] for line in shown_on(page)] == [
        [str(each["seq"]), each["type"]] for each in events_of(own, job_id)
    ]


@pytest.mark.needs("browser")
def test_a_page_whose_ticket_is_refused_stops(api: Live, own: httpx.Client, tenant: str, page: Page) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/v1/" in request.url else None)
    opened(page, api.stack, submitted(own, tenant), "none")
    page.wait_for_function("document.title.includes('token')")
    # a loop would be at its hundredth request
    page.wait_for_timeout(1_500)
    assert len(asked) == 1


@pytest.mark.needs("browser")
def test_a_page_without_a_token_asks_for_no_ticket(api: Live, own: httpx.Client, tenant: str, page: Page) -> None:
    """As for an API without tokens; this one refuses, and the page limits its requests."""
    answered: list[Request] = []
    page.on("response", lambda response: answered.append(response.request) if "/v1/" in response.url else None)
    with page.expect_request("**/v1/jobs/**") as first:
        opened(page, api.stack, submitted(own, tenant), "")
    assert "ticket" not in first.value.url
    while len(answered) < 3:
        page.wait_for_timeout(100)
    assert min(gaps_ms(answered)) > 900


def gaps_ms(answered: list[Request]) -> list[float]:
    """Returns the times between the starts of requests, by the browser's own clock: this process may get them later."""
    starts = [request.timing["startTime"] for request in answered]
    return [later - earlier for earlier, later in itertools.pairwise(starts)]


def away(stack: RunningStack) -> None:
    """The tables refuse connections; their supervisor is stopped."""
    stack.process.send_signal(signal.SIGSTOP)
    # it saves its state
    stack.kill("azurite", signal.SIGTERM)
    wait_until(lambda: refuses(stack.ports.azurite), "Azurite did not end", deadline_s=DEADLINE_S)


def refuses(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return False
    return True


def back(stack: RunningStack) -> None:
    starts = stack.children()["azurite"]["starts"]
    stack.process.send_signal(signal.SIGCONT)
    stack.wait_for_start("azurite", starts + 1)


@pytest.mark.needs("browser")
@pytest.mark.parametrize(
    ("leave", "come", "seconds"),
    [
        (away, back, 0),
        pytest.param(away, back, 30, marks=pytest.mark.long),
        # connections are taken, and nothing answers
        pytest.param(
            partial(RunningStack.pause, name="azurite"),
            partial(RunningStack.resume, name="azurite"),
            30,
            marks=pytest.mark.long,
        ),
    ],
    ids=["refused", "refused for 30 s", "silent for 30 s"],
)
def test_a_browsers_own_reader_goes_on_after_an_outage(
    api: Live,
    own: httpx.Client,
    tenant: str,
    page: Page,
    leave: Callable[[RunningStack], None],
    come: Callable[[RunningStack], None],
    seconds: int,
) -> None:
    """Without tables a stream is 200 with a later `retry`, which EventSource obeys; afterwards nothing is missing.

    Over 5 s: the outage, and the wait that the browser was given, are real.
    """
    job_id = waiting(own, tenant)
    path = f"/v1/jobs/{job_id}/events"
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if path in request.url else None)
    opened(page, api.stack, job_id, api.token(tenant=tenant))
    page.wait_for_function("document.querySelectorAll('li').length >= 1")
    leave(api.stack)
    try:
        until = time.monotonic() + seconds
        answers = [own.get(path, params={"after": "earliest"}, headers=STREAM) for _ in range(2)]
        # it has reconnected at least twice, and met the outage at least once
        seen = len(asked)
        page.wait_for_timeout(100)
        while time.monotonic() < until or len(asked) < seen + 2:
            page.wait_for_timeout(100)
        met = asked.copy()
    finally:
        come(api.stack)
    for answer in answers:
        first = answer.text.partition("\n")[0]
        assert (answer.status_code, 5_000 <= int(first.removeprefix("retry: ")) <= 10_000) == (200, True)
    assert "ended" not in page.title()
    own.post(f"/v1/jobs/{job_id}:cancel").raise_for_status()
    page.wait_for_function("document.title === 'The job has ended'")
    # each of them has been answered by now
    assert max(gaps_ms(met)) >= 5_000
    assert [int(line.split()[0]) for line in shown_on(page)] == [each["seq"] for each in events_of(own, job_id)]
