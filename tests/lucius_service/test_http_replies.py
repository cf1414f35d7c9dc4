"""Replies over HTTP, to a server that answers as LUCIUS does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lucius_service import replies
from lucius_service.directive import Directive
from lucius_service.errors import FailedFinal
from lucius_service.http_replies import HttpReplySender
from lucius_service.replies import Sent


@dataclass
class Lucius:
    """Its callbacks; `answers` are given in turn, then `{}` with 200."""

    answers: list[tuple[int, Any]] = field(default_factory=list)
    #: path, token and body of each call
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.calls.append((request.path, request.headers["Authorization"], await request.json()))
        status, answer = self.answers.pop(0) if self.answers else (200, {})
        if status == 0:
            assert request.transport is not None
            request.transport.abort()
        headers = {"Location": "/elsewhere"} if status == 307 else {}
        return web.Response(status=status or 200, body=json.dumps(answer).encode(), headers=headers)


@dataclass
class NoBus:
    sent: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, directive: Directive, reply: dict[str, Any]) -> Sent:
        self.sent.append(reply)
        return Sent(True)

    async def close(self) -> None: ...


@dataclass
class Line:
    lucius: Lucius
    bus: NoBus
    sender: HttpReplySender
    directive: Directive


@pytest.fixture
async def line(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    monkeypatch.setattr(replies, "PUBLISH_PAUSES_S", (0.01,))
    lucius, bus = Lucius(), NoBus()
    app = web.Application()
    app.router.add_post("/{path:.*}", lucius.take)
    async with TestServer(app) as server:
        urls = {kind: str(server.make_url(f"/v1/callbacks/{kind}")) for kind in ("ack", "result", "heartbeat")}
        directive = Directive.model_validate(
            {
                **{"jobId": "j", "tenant_id": "t", "stepId": "s", "step_type": "S", "attempt_no": 1, "lease_id": "l"},
                **{"lane": 0, "input_ref": "http://h/a", "workspace_ref": "http://h/w/"},
                "callback_urls": {**urls, "token": "first"},
            }
        )
        sender = HttpReplySender(aiohttp.ClientSession(), bus)
        yield Line(lucius, bus, sender, directive)
        await sender.close()


async def test_each_reply_has_its_address_and_the_freshest_token(line: Line) -> None:
    """ACK, HEARTBEAT and RESULT have their own addresses; each reply has the token of the answer before it."""
    line.lucius.answers = [(200, {"job_status": "IN_PROGRESS", "token": "second"}), (200, {"token": "third"})]
    for reply in (
        replies.ack(line.directive),
        replies.heartbeat(line.directive, 0.5, "half"),
        replies.failed(line.directive, FailedFinal("X", "y")),
    ):
        assert await line.sender.send(line.directive, reply) == Sent(True)
    assert [(path, token) for path, token, _ in line.lucius.calls] == [
        ("/v1/callbacks/ack", "Bearer first"),
        ("/v1/callbacks/heartbeat", "Bearer second"),
        ("/v1/callbacks/result", "Bearer third"),
    ]
    assert [body["type"] for *_, body in line.lucius.calls] == ["ACK", "HEARTBEAT", "RESULT"]


@pytest.mark.parametrize("fault", [(0, {}), (500, {}), (503, "not an object"), (429, {}), (408, {})])
async def test_a_reply_is_sent_until_it_is_taken(fault: tuple[int, Any], line: Line) -> None:
    """A lost connection and a busy server are tried again, with the same body."""
    line.lucius.answers = [fault, fault]
    result = replies.failed(line.directive, FailedFinal("X", "y"))
    assert await asyncio.wait_for(replies.publish(line.sender, line.directive, result), 30) == Sent(True)
    assert [body for *_, body in line.lucius.calls] == [result] * 3


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 307])
async def test_a_refusal_is_for_good_and_cancels(status: int, line: Line) -> None:
    """A permanently refused reply is not sent again, and no redirect is followed."""
    line.lucius.answers = [(status, {"code": "TOKEN_INVALID"})]
    sent = await replies.publish(line.sender, line.directive, replies.ack(line.directive))
    assert sent.stop is not None
    assert sent.stop.code == "CANCELLED"
    assert len(line.lucius.calls) == 1


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"job_status": "CANCELLING", "token": "x"}, "FAILED_FINAL"),
        ({"job_status": "FAILED_FINAL"}, "FAILED_FINAL"),
        ({"job_status": "IN_PROGRESS", "why": "STALE_ATTEMPT"}, "FAILED_RETRY"),
        ({"job_status": "IN_PROGRESS", "token": "x"}, None),
        ({"job_status": "PAUSING", "token": "x"}, None),
        ([], None),
    ],
)
async def test_an_answer_shows_whether_the_attempt_goes_on(answer: Any, status: str | None, line: Line) -> None:
    """A cancelled or ended job, and an attempt without a valid token, end."""
    line.lucius.answers = [(200, answer)]
    sent = await line.sender.send(line.directive, replies.heartbeat(line.directive, 0, ""))
    assert (None if sent.stop is None else sent.stop.status) == status


async def test_a_directive_without_addresses_is_replied_to_on_the_bus(line: Line) -> None:
    """Callbacks may be off for the job."""
    plain = line.directive.model_copy(update={"callback_urls": None})
    assert await line.sender.send(plain, replies.ack(plain)) == Sent(True)
    assert [reply["type"] for reply in line.bus.sent] == ["ACK"]
    assert line.lucius.calls == []
