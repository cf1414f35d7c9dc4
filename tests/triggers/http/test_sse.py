"""Streams without HTTP: responses without events, during an outage, and past the maximum of waiting requests (R76)."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.access.caller import Caller, Scope
from shared.access.stream_ticket import MAX_LIFE, StreamTicket, read_ticket, sign_ticket, ticket_for
from shared.errors import KeysUnavailable, LedgerUnavailable
from shared.operations.process.context import Context
from shared.operations.process.waiters import MAX_FOLLOWERS
from shared.ports.feed import Head
from shared.refusals import TokenInvalid
from shared.wiring import Wiring
from tests.operations.conftest import World, world
from tests.operations.support import submitted
from tests.worlds.events import of
from triggers import events_http, job_stream, jobs_http
from triggers.http.routes import build_blueprint

__all__ = ["world"]  # a fixture of the operations' tests

KEYS = (("k1", b"k" * 32),)
READER = Caller(actor="app:reader", scopes=frozenset({Scope.READ}), tenant="tenant_a")


class OneWiring:
    """Over the memory stores; every token is the caller's, or `fault` comes of it."""

    def __init__(self, context: Context, fault: Exception | None = None, caller: Caller = READER) -> None:
        self._context, self._fault, self._caller = context, fault, caller

    def callers(self) -> OneWiring:
        return self

    async def caller(self, authorization: str | None) -> Caller:
        if self._fault is not None:
            raise self._fault
        return self._caller

    def context(self) -> Context:
        return self._context


@pytest.fixture
def context(world: World) -> Context:
    found = of(world).world.context
    return replace(found, settings=replace(found.settings, callback_keys=KEYS))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_http, "HOLD_S", 0.01)
    monkeypatch.setattr(job_stream, "HOLD_S", 0.01)


async def get(
    wiring: OneWiring,
    path: str = "/v1/events",
    *,
    headers: dict[str, str] | None = None,
    body: Any = None,
    **query: str,
) -> func.HttpResponse:
    job_id = path.split("/")[3] if path.startswith("/v1/jobs/") else None
    module, name = (jobs_http, "job_events") if job_id else (events_http, "events_read")
    if path.endswith(":ticket"):
        name = "events_ticket"
    app = df.DFApp()
    app.register_functions(build_blueprint([module], cast(Wiring, wiring)))
    [function] = [each for each in app.get_functions() if each.get_function_name() == name]
    sent = {"Accept": "text/event-stream", "Authorization": "Bearer s3cret", **(headers or {})}
    request = func.HttpRequest(
        "GET" if body is None else "POST",
        path,
        headers={key: value for key, value in sent.items() if value},
        params=query,
        route_params={"jobId": job_id} if job_id else {},
        body=json.dumps(body).encode() if body is not None else b"",
    )
    answer = await function.get_user_function()(request)
    assert isinstance(answer, func.HttpResponse)
    return answer


def text(answer: func.HttpResponse) -> str:
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == ("no-store", "Accept")
    return str(answer.get_body().decode())


@contextlib.contextmanager
def full(context: Context, tenant: str = "tenant_a") -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_FOLLOWERS):
            stack.enter_context(context.process.waiters.hold(tenant, follower=True))
        yield


def retry_ms(found: str) -> int:
    first, _, _ = found.partition("\n")
    return int(first.removeprefix("retry: "))


async def test_a_comment_with_the_position_ends_a_wait(context: Context, world: World) -> None:
    """Of a feed, and of a job; the reader reconnects at once."""
    job_id = await submitted(world)
    for path in ("/v1/events", f"/v1/jobs/{job_id}/events"):
        first = text(await get(OneWiring(context), path))
        position = first.split("id: ")[1].split("\n")[0]
        found = text(await get(OneWiring(context), path, headers={"Last-Event-ID": position}, after="earliest"))
        assert found == f"retry: 250\n\n: nothing more yet\nid: {position}\n\n" == first


@pytest.mark.parametrize(
    ("accept", "streams"),
    [
        ("Text/Event-Stream; charset=utf-8", True),
        ("application/json;q=0.5, text/event-stream", True),
        ("application/json, text/event-stream", True),
        ("text/event-stream;q=0.1, */*", True),
        ("text/event-stream;q=none", True),
        ("text/event-stream; q=0, */*", False),
        ("text/event-stream;q=0.000", False),
        ("application/json, text/event-stream;q=0.9", False),
        ("text/*", False),
        (",;q=1,", False),
    ],
)
async def test_who_asks_for_a_stream(context: Context, accept: str, streams: bool) -> None:
    """By name, and not if it prefers JSON: a client that lists several types gets the preferred one."""
    answer = await get(OneWiring(context), headers={"Accept": accept})
    assert (answer.status_code, answer.mimetype == "text/event-stream") == (200, streams)


async def test_past_the_room_a_reader_comes_later(context: Context, world: World) -> None:
    """It gets existing events nevertheless; its delay depends on the caller, so that not all reconnect together."""
    job_id = await submitted(world)
    times = set()
    with full(context):
        for actor in ("app:a", "app:b"):
            for path in ("/v1/events", f"/v1/jobs/{job_id}/events"):
                wiring = OneWiring(context, caller=replace(READER, actor=actor))
                position = text(await get(wiring, path)).split("id: ")[1].split("\n")[0]
                times.add(retry_ms(text(await get(wiring, path, after=position))))
        assert retry_ms(text(await get(OneWiring(context), f"/v1/jobs/{job_id}/events", after="earliest"))) == 250
    assert len(times) == 2
    assert all(5_000 <= each <= 10_000 for each in times)


async def test_who_reads_a_job_counts_for_its_tenant(context: Context, world: World) -> None:
    """Operators too: they take no place from each other at other tenants' jobs."""
    operator = OneWiring(context, caller=replace(READER, tenant=None, sees_all=True))
    waits = {}
    with full(context, "tenant_a"):
        for tenant in ("tenant_a", "tenant_b"):
            path = f"/v1/jobs/{await submitted(world, tenant_id=tenant)}/events"
            position = text(await get(operator, path)).split("id: ")[1].split("\n")[0]
            waits[tenant] = retry_ms(text(await get(operator, path, after=position)))
    assert waits["tenant_a"] >= 5_000
    assert waits["tenant_b"] == 250


@pytest.mark.parametrize("away", ["keys", "feed", "ledger"])
async def test_a_fault_that_passes_ends_no_reader(
    context: Context, world: World, monkeypatch: pytest.MonkeyPatch, away: str
) -> None:
    """An EventSource never reconnects after an error status; a page gets its 503."""
    path, fault = "/v1/events", KeysUnavailable("away") if away == "keys" else None

    async def fails(*_given: Any, **_named: Any) -> Head:
        raise LedgerUnavailable("away")

    if away == "feed":
        monkeypatch.setattr(context.events.feed, "head", fails)
    if away == "ledger":
        path = f"/v1/jobs/{await submitted(world)}/events"
        monkeypatch.setattr(world.ledger, "read", fails)
    assert 5_000 <= retry_ms(text(await get(OneWiring(context, fault), path))) <= 10_000
    page = await get(OneWiring(context, fault), path, headers={"Accept": "application/json"})
    assert (page.status_code, page.headers["Vary"]) == (503, "Accept")


async def test_a_fault_of_ours_does_end_it(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(tenant: str) -> Head:
        raise ZeroDivisionError

    monkeypatch.setattr(context.events.feed, "head", fails)
    assert (await get(OneWiring(context))).status_code == 500


async def test_without_a_feed_jobs_have_their_streams(context: Context, world: World) -> None:
    """With `LUCIUS_EVENTS=off` a tenant has none; a job's is read from the ledger."""
    off = OneWiring(replace(context, events=None))
    answer = await get(off)
    assert (answer.status_code, json.loads(answer.get_body())["code"]) == (404, "EVENTS_OFF")
    found = text(await get(off, f"/v1/jobs/{await submitted(world)}/events", after="earliest"))
    assert '"type": "JOB_CREATED"' in found


async def test_no_log_has_a_ticket(context: Context, caplog: pytest.LogCaptureFixture) -> None:
    """Valid or invalid, in a stream or elsewhere; the line names the owner of the ticket."""
    caplog.set_level(logging.DEBUG)
    refused = OneWiring(context, TokenInvalid("no"))
    ticket = StreamTicket(
        actor="user:1", tenant="tenant_a", path="/v1/events", expires_at=context.clock.now() + timedelta(minutes=1)
    )
    signed = sign_ticket(ticket, KEYS, deployment="local")
    no_token = {"Authorization": ""}
    assert (await get(refused, headers=no_token, ticket=signed)).status_code == 200
    assert (await get(refused, headers=no_token, ticket=f"{signed}x")).status_code == 401
    assert (await get(refused, headers=no_token | {"Accept": ""}, ticket=signed)).status_code == 401
    lines = [json.loads(each.message) for each in caplog.records if each.message.startswith("{")]
    access = [line for line in lines if line["event"] == "ACCESS"]
    assert [(line["status"], line.get("actor")) for line in access] == [(200, "user:1"), (401, None), (401, None)]
    assert signed not in caplog.text


async def test_a_ticket_ends_with_its_token(context: Context) -> None:
    """And after a quarter of an hour; it permits reading one path for one tenant, for any holder."""
    now = context.clock.now()
    operator = Caller(actor="app:o", scopes=frozenset(Scope), tenant=None, sees_all=True, moves_all=True)
    for expires in (None, (now + 2 * MAX_LIFE).timestamp(), 1e18):
        longest = ticket_for(replace(operator, expires=expires), "t", "/v1/events", now)
        assert longest.expires_at == (now + MAX_LIFE).replace(microsecond=0)
    token_end = now + timedelta(minutes=2)
    ticket = ticket_for(replace(operator, expires=token_end.timestamp()), "t", "/v1/events", now)
    assert ticket.expires_at == token_end.replace(microsecond=0)
    assert ticket.caller == Caller(actor="app:o", scopes=frozenset({Scope.READ}), tenant="t")
    signed = sign_ticket(ticket, KEYS, deployment="local")
    assert read_ticket(signed, (("k2", b"x" * 32), *KEYS), deployment="local", path="/v1/events", now=now) == ticket
    for keys, deployment, path, at in (
        (KEYS, "local", "/v1/events", ticket.expires_at),
        (KEYS, "local", "/v1/jobs/j/events", now),
        (KEYS, "prod", "/v1/events", now),
        ((("k1", b"x" * 32),), "local", "/v1/events", now),
        ((), "local", "/v1/events", now),
    ):
        with pytest.raises(TokenInvalid):
            read_ticket(signed, keys, deployment=deployment, path=path, now=at)


async def test_without_keys_there_are_no_tickets(context: Context) -> None:
    wiring = OneWiring(replace(context, settings=replace(context.settings, callback_keys=())))
    answer = await get(
        wiring, "/v1/events:ticket", body={"path": "/v1/events"}, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, json.loads(answer.get_body())["code"]) == (404, "TICKETS_OFF")


async def test_a_reader_of_all_tenants_gets_a_ticket_for_a_job(context: Context, world: World) -> None:
    """It may move no job of another tenant, and a ticket moves none."""
    path = f"/v1/jobs/{await submitted(world, tenant_id='tenant_b')}/events"
    wiring = OneWiring(context, caller=replace(READER, tenant=None, sees_all=True))
    answer = await get(wiring, "/v1/events:ticket", body={"path": path}, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200
    ticket = read_ticket(
        json.loads(answer.get_body())["ticket"], KEYS, deployment="local", path=path, now=context.clock.now()
    )
    assert ticket.caller.tenant == "tenant_b"
