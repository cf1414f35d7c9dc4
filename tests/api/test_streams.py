"""Streams of events over HTTP: positions, waiting, ends of readers, and tickets (R75-R77)."""

from __future__ import annotations

import base64
import json
import random
import re
import shlex
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from lucius_client import Client, events
from tests.api.live import Live, envelope
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.cli.test_docs import block
from tests.waiting import wait_until

STREAM = {"Accept": "text/event-stream"}
DEADLINE_S = 40


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone."""
    return f"streams-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    return api.client(tenant=tenant)


@pytest.fixture(scope="module")
def ended(own: httpx.Client, tenant: str) -> str:
    """Returns a job that has ended, with its events and those of its quota in the feed, which then does not grow."""
    job_id = waiting(own, tenant)
    own.post(f"/v1/jobs/{job_id}:cancel").raise_for_status()

    def whole() -> bool:
        types = {each["type"] for each in own.get("/v1/events").json()["events"]}
        return {"quota.changed", "job.canceled"} <= types

    wait_until(whole, "the feed is not whole")
    return job_id


def submitted(client: httpx.Client, tenant: str, **changes: str) -> str:
    body = envelope(tenant_id=tenant, idempotency_key=str(uuid.uuid4()), **changes)
    return str(client.post("/v1/orchestrate", json=body).raise_for_status().json()["jobId"])


def waiting(client: httpx.Client, tenant: str) -> str:
    """Returns a waiting job, which has no directive in flight, so that a cancel ends it."""
    gate = {"tenant": tenant, "source": "held", "reason": "a test"}
    client.post("/v1/limits/pause", json=gate).raise_for_status()
    return submitted(client, tenant, source="held")


class Reader:
    """A reader that handles responses as an EventSource does (WHATWG HTML 9.2.6)."""

    def __init__(self, client: httpx.Client, path: str, **query: str) -> None:
        self._client, self._path, self._query = client, path, query
        self.last_id = ""
        self.retry_ms = 0
        self.events: list[tuple[str, str, Any]] = []
        self.closed = False

    def once(self) -> httpx.Response:
        headers = STREAM | ({"Last-Event-ID": self.last_id} if self.last_id else {})
        answer = self._client.get(self._path, params=self._query, headers=headers)
        if answer.status_code != 200:
            self.closed = True
            return answer
        assert answer.headers["Content-Type"].split(";")[0] == "text/event-stream"
        self.take(answer.text)
        return answer

    def take(self, text: str) -> None:
        for message in text.split("\n\n")[:-1]:
            kind, data = "message", []
            for line in message.split("\n"):
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last_id = value
                elif name == "retry":
                    self.retry_ms = int(value)
                elif name == "event":
                    kind = value
                elif name == "data":
                    data.append(value)
            if data:
                self.events.append((self.last_id, kind, json.loads("\n".join(data))))


def feed_of(client: httpx.Client) -> list[str]:
    found: list[str] = []
    after = "earliest"
    while page := client.get("/v1/events", params={"after": after}).raise_for_status().json():
        if not page["events"]:
            return found
        found += [each["id"] for each in page["events"]]
        after = page["next"]
    raise AssertionError


@pytest.mark.parametrize("path", ["/v1/events", "/v1/dashboard/events"])
def test_a_stream_has_the_events_of_the_page(own: httpx.Client, ended: str, path: str) -> None:
    reader = Reader(own, path, after="earliest", limit="1")
    answer = reader.once()
    assert {name: answer.headers[name] for name in ("Vary", "Cache-Control")} == {
        "Vary": "Accept",
        "Cache-Control": "no-store",
    }
    assert (len(reader.events), reader.retry_ms) == (1, 250)
    # a header that a browser sends by itself has precedence over the URL
    reader.once()
    page = own.get(path, params={"limit": "2"})
    assert page.headers["Vary"] == "Accept"
    assert [event for _, _, event in reader.events] == page.json()["events"]
    assert reader.last_id == page.json()["next"]


def test_without_a_position_it_is_from_now_on(own: httpx.Client, tenant: str, ended: str) -> None:
    """The first response is immediate and has a position: events before the second request are in its response."""
    reader = Reader(own, "/v1/events")
    reader.once()
    assert (reader.events, reader.last_id) == ([], own.get("/v1/events?after=latest").json()["next"])
    job_id = waiting(own, tenant)
    reader.once()
    assert reader.events[0][2]["subject"] == job_id


def test_who_waits_is_answered_when_something_happens(own: httpx.Client, tenant: str, ended: str) -> None:
    """By a page and by a stream; the feed does not grow until both have started."""
    after = own.get("/v1/events?after=latest").json()["next"]
    with ThreadPoolExecutor(2) as pool:
        page = pool.submit(lambda: own.get("/v1/events", params={"after": after, "wait": "20"}).json())
        reader = Reader(own, "/v1/events", after=after)
        stream = pool.submit(reader.once)
        job_id = waiting(own, tenant)
        assert page.result(DEADLINE_S)["events"][0]["subject"] == job_id
        stream.result(DEADLINE_S)
    assert reader.events[0][2]["subject"] == job_id


def test_a_position_that_is_gone_is_a_gap(own: httpx.Client, ended: str) -> None:
    stranger = base64.urlsafe_b64encode(b"0123456789abcdef:1").decode()
    reader = Reader(own, "/v1/events", after=stranger)
    reader.once()
    [(last_id, kind, data)] = reader.events
    assert (kind, data, last_id) == ("gap", {"earliest": reader.last_id}, reader.last_id)
    reader.once()
    assert reader.events[1][2] == own.get("/v1/events?limit=1").json()["events"][0]


def test_a_jobs_stream_ends_with_204(own: httpx.Client, ended: str) -> None:
    """It has the objects of the JSON page; an EventSource does not reconnect after 204."""
    reader = Reader(own, f"/v1/jobs/{ended}/events", after="earliest", limit="2")
    for _ in range(100):
        reader.once()
        if reader.closed:
            break
    page = own.get(f"/v1/jobs/{ended}/events").json()
    assert [event for _, _, event in reader.events] == page["events"]
    answer = own.get(f"/v1/jobs/{ended}/events", headers=STREAM)
    assert (answer.status_code, answer.content, answer.headers["Cache-Control"]) == (204, b"", "no-store")


def test_a_jobs_stream_waits_for_its_end(own: httpx.Client, tenant: str) -> None:
    job_id = waiting(own, tenant)
    reader = Reader(own, f"/v1/jobs/{job_id}/events")
    reader.once()
    assert (reader.events, bool(reader.last_id)) == ([], True)

    def follow() -> None:
        until = time.monotonic() + DEADLINE_S
        while not reader.closed and time.monotonic() < until:
            reader.once()

    follower = threading.Thread(target=follow)
    follower.start()
    own.post(f"/v1/jobs/{job_id}:cancel").raise_for_status()
    follower.join(DEADLINE_S)
    assert reader.closed
    page = own.get(f"/v1/jobs/{job_id}/events").json()["events"]
    assert [event for _, _, event in reader.events] == page[-len(reader.events) :]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/events?after=x", 400, "CURSOR_INVALID"),
        ("/v1/events?wait=21", 400, "WAIT_INVALID"),
        ("/v1/events?tenant_id=other", 403, "TENANT_FORBIDDEN"),
        ("/v1/jobs/job_0/events", 404, "JOB_NOT_FOUND"),
        ("/v1/jobs/{ended}/events?after=x", 400, "CURSOR_INVALID"),
        ("/v1/jobs/{ended}/events?after=OTk5OQ==", 400, "CURSOR_INVALID"),
    ],
)
def test_what_ends_a_reader(own: httpx.Client, ended: str, path: str, status: int, code: str) -> None:
    headers = {} if "wait" in path else STREAM
    answer = own.get(path.format(ended=ended), headers=headers)
    assert (answer.status_code, answer.json()["code"], answer.headers["Cache-Control"]) == (status, code, "no-store")


def test_a_stranger_ends(api: Live, ended: str) -> None:
    assert api.stack.http.get("/v1/events", headers=STREAM).status_code == 401
    other = api.client(tenant=f"other-{uuid.uuid4()}")
    assert other.get(f"/v1/jobs/{ended}/events", headers=STREAM).status_code == 404


@pytest.fixture
def ticket(own: httpx.Client) -> str:
    given = own.post("/v1/events:ticket", json={"path": "/v1/events"}).raise_for_status()
    assert given.headers["Cache-Control"] == "no-store"
    return str(given.json()["ticket"])


def test_a_ticket_opens_its_own_stream_and_nothing_else(api: Live, own: httpx.Client, ended: str, ticket: str) -> None:
    def status(path: str, given: str, **headers: str) -> int:
        params = {"ticket": given, "after": "earliest"}
        return api.stack.http.get(path, params=params, headers=STREAM | headers).status_code

    assert status("/v1/events", ticket) == 200
    assert status("/v1/dashboard/events", ticket) == 401
    assert status(f"/v1/jobs/{ended}/events", ticket) == 401
    assert status("/v1/events", ticket[:-2]) == 401
    # only a stream accepts a ticket, which is not a token
    assert status("/v1/events", ticket, Accept="application/json") == 401
    assert status("/v1/jobs", ticket) == 401
    assert api.stack.http.get("/v1/events", headers=STREAM | {"Authorization": f"Bearer {ticket}"}).status_code == 401
    path = f"/v1/jobs/{ended}/events"
    job_ticket = own.post("/v1/events:ticket", json={"path": path}).raise_for_status().json()["ticket"]
    assert (status(path, job_ticket), status("/v1/events", job_ticket)) == (200, 401)
    logs = (api.stack.data / "logs").glob("*.log")
    assert not any(each in log.read_text(errors="replace") for log in logs for each in (ticket, job_ticket))


def test_an_operators_ticket_is_for_one_tenant(api: Live, own: httpx.Client, tenant: str, ended: str) -> None:
    operator = api.operator()
    refused = operator.post("/v1/events:ticket", json={"path": "/v1/events"})
    assert (refused.status_code, refused.json()["code"]) == (400, "TENANT_REQUIRED")
    given = (
        operator.post("/v1/events:ticket", json={"path": "/v1/events", "tenant_id": tenant})
        .raise_for_status()
        .json()["ticket"]
    )
    query = {"ticket": given, "after": "earliest"}
    assert api.stack.http.get("/v1/events", params=query, headers=STREAM).status_code == 200
    other = api.stack.http.get("/v1/events", params=query | {"tenant_id": "other"}, headers=STREAM)
    assert other.status_code == 403


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"path": "/v1/jobs"}, 400, "TICKET_INVALID"),
        ({"path": "/v1/events?x=1"}, 400, "TICKET_INVALID"),
        ({"path": "/v1/events", "paths": "/v1/events"}, 400, "TICKET_INVALID"),
        ({}, 400, "TICKET_INVALID"),
        ({"path": "/v1/events", "tenant_id": "other"}, 403, "TENANT_FORBIDDEN"),
        ({"path": "/v1/jobs/job_0/events"}, 404, "JOB_NOT_FOUND"),
    ],
)
def test_tickets_that_are_refused(own: httpx.Client, body: dict[str, Any], status: int, code: str) -> None:
    answer = own.post("/v1/events:ticket", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_readers_that_drop_at_random_miss_nothing(api: Live) -> None:
    """Two tenants, whose readers disconnect within a response and reconnect with the last received id."""
    chance = random.Random(20)
    tenants = [f"drops-{n}-{uuid.uuid4()}" for n in range(2)]
    clients = [api.client(tenant=each) for each in tenants]
    readers = [Reader(client, "/v1/events", after="earliest", limit="7") for client in clients]
    for client, name in zip(clients, tenants, strict=True):
        for _ in range(8):
            submitted(client, name)
    for client, name, reader in zip(clients, tenants, readers, strict=True):
        wait_until(lambda client=client: len(feed_of(client)) == 16, f"the feed of {name} has not 16 events")
        whole = feed_of(client)
        for _ in range(200):
            if len(reader.events) >= len(whole):
                break
            headers = STREAM | ({"Last-Event-ID": reader.last_id} if reader.last_id else {})
            query = {"after": "earliest", "limit": "7"}
            text = client.get("/v1/events", params=query, headers=headers).raise_for_status().text
            # an event without its empty line did not arrive
            reader.take(text[: chance.choice([chance.randrange(len(text)), len(text)])])
        assert [event["id"] for _, _, event in reader.events] == whole
        numbers = [int(event["sequence"]) for _, _, event in reader.events]
        assert numbers == list(range(1, len(whole) + 1))


def test_the_text_is_what_a_reader_of_the_standard_takes(own: httpx.Client, ended: str) -> None:
    text = own.get("/v1/events", params={"after": "earliest"}, headers=STREAM).text
    assert re.fullmatch(r"retry: \d+\n\n(?:id: [\w=-]+\ndata: \{.*\}\n\n|: [^\n]*\n(?:id: [\w=-]+\n)?\n)+", text)


def test_the_client_and_the_command_read_the_feed(api: Live, own: httpx.Client, tenant: str, ended: str) -> None:
    token = api.token(tenant=tenant)
    with Client(api.stack.api, token=token) as client:
        found = [each.id for each in events(client, follow=False)]
        assert found == feed_of(own)
        # once without and once with a follower
        after = own.get("/v1/events?after=latest").json()["next"]
        both = {waiting(own, tenant), waiting(own, tenant)}
        follower = events(client, after=after, types="job.throttled")
        # nothing orders two jobs
        assert {next(follower).subject, next(follower).subject} == both


def test_the_commands_of_the_docs(api: Live, own: httpx.Client, tenant: str, ended: str, tmp_path: Path) -> None:
    """The block of docs/reference/cli.md: ended jobs are listed, and the position is stored."""
    begun = {"jobId": submitted(own, tenant)}
    wait_until(lambda: len(own.get("/v1/events", params=begun).json()["events"]) == 2, "it is not in the feed")
    token, outputs = api.token(tenant=tenant), []
    for line in block("reference/cli.md", "events", "sh", api.stack).splitlines():
        completed = run_main(*shlex.split(line)[1:], api=api.stack.api, cwd=tmp_path, LUCIUS_TOKEN=token)
        assert completed.returncode == 0, line + completed.stderr
        outputs.append(completed.stdout)
    listed, ends, ids = outputs
    assert "job.queued" in listed
    assert ended in [each["subject"] for each in json.loads(ends)]
    assert f"{ended}:" in ids
    assert (tmp_path / "position").read_text().strip()
