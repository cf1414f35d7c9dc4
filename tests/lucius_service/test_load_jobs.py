"""`lucius service load --api`, against a server that answers as LUCIUS does; a live stack: tests/stack/test_jobs.py."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from lucius_service.contract.bench import NotRun
from lucius_service.load import Plan
from lucius_service.load_jobs import Api, drive
from tests.lucius_service.test_load import load

REQUEST = {"tenant_id": "t", "input_ref": {"uri": "http://h/a"}, "payload": {}}


@dataclass
class Lucius:
    """The API; the third read of a job returns its end, ten seconds after its start, by `fate`."""

    keys: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    looks: Counter[str] = field(default_factory=Counter)

    async def post(self, request: web.Request) -> web.Response:
        self.tokens.add(request.headers.get("Authorization"))
        body = await request.json()
        if body["payload"].get("fate") == "malformed":
            return web.json_response({"code": "REQUEST_INVALID", "detail": "payload"}, status=400)
        if "dryRun" in request.query:
            return web.json_response({"idempotency": {}})
        self.keys.append(body["idempotency_key"])
        if body["payload"].get("fate") == "busy":
            return web.json_response({"code": "OVERLOADED"}, status=503)
        fate = body["payload"].get("fate", "SUCCEEDED")
        return web.json_response({"jobId": f"{fate}-{len(self.keys)}"}, status=202)

    async def get(self, request: web.Request) -> web.Response:
        job = request.match_info["job"]
        self.looks[job] += 1
        fate = job.partition("-")[0]
        if self.looks[job] == 1:
            return web.Response(status=503)
        over = self.looks[job] == 3 and fate != "never"
        times = {"created_at": "2026-01-27T10:00:00Z", "completed_at": "2026-01-27T10:00:10Z" if over else None}
        failed = "NO_TEXT_FOUND" if fate == "FAILED_FINAL" else None
        return web.json_response({"status": fate if over else "QUEUED", "error_code": failed, **times})

    def server(self) -> TestServer:
        app = web.Application()
        app.router.add_post("/v1/orchestrate", self.post)
        app.router.add_get("/v1/jobs/{job}", self.get)
        return TestServer(app)


def request(fate: str) -> dict[str, Any]:
    return REQUEST | {"payload": {"fate": fate}}


async def test_whole_jobs_are_driven_and_measured() -> None:
    """Each job has its own duration; refusals and jobs without an end are counted as lost."""
    lucius = Lucius()
    mix = [(request(fate), 1.0) for fate in ("SUCCEEDED", "FAILED_FINAL", "busy")]
    async with lucius.server() as server:
        measured = await drive(Api(str(server.make_url("")), "secret"), Plan(500, 40, mix, seed=1))
        shown = measured.describe()
        never = await drive(
            Api(str(server.make_url("")), "secret", wait_s=0.1), Plan(500, 2, [(request("never"), 1.0)])
        )
    assert (never.lost, never.outcomes, len(never.first_s)) == (2, {}, 2)
    assert (shown["sent"], len(set(lucius.keys)), lucius.tokens) == (40, 42, {"Bearer secret"})
    assert set(shown["outcomes"]) == {"SUCCEEDED", "FAILED_FINAL NO_TEXT_FOUND", "503 OVERLOADED"}
    assert (sum(shown["outcomes"].values()), shown["lost"]) == (40, shown["outcomes"]["503 OVERLOADED"])
    assert 10 <= shown["job_s"][50] <= shown["job_s"][100]
    assert set(shown) == {"sent", "lost", "outcomes", "jobs_per_s", "accepted_s", "job_s"}
    assert "jobs a second" in measured.table()


async def test_a_request_that_would_be_refused_is_not_sent(tmp_path: Path) -> None:
    """The API validates the request first: a refusal, or an API other than LUCIUS, ends the command before any job."""
    lucius = Lucius()
    async with lucius.server() as server:
        with pytest.raises(NotRun, match="400 REQUEST_INVALID payload"):
            await drive(Api(str(server.make_url(""))), Plan(10, 10, [(request("malformed"), 1.0)]))
        with pytest.raises(NotRun, match="no API responds"):
            await drive(Api(str(server.make_url("/elsewhere"))), Plan(10, 10, [(REQUEST, 1.0)]))
    assert lucius.keys == []


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "--step-type, for directives, or --api"),
        (("--api", "http://127.0.0.1:9", "--step-type", "X"), "--step-type, for directives, or --api"),
        (("--step-type", "X"), "--bus and --blob"),
        (("--api", "http://127.0.0.1:9"), "no API responds at http://127.0.0.1:9"),
        (("--api", "nonsense"), "no API responds at nonsense"),
    ],
)
def test_what_cannot_be_driven_is_one_line(words: tuple[str, ...], named: str, tmp_path: Path) -> None:
    """Exit code 2."""
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    code, out, err = load("--mix", str(tmp_path / "request.json"), *words, step_type=None)
    assert (code, out, len(err.splitlines())) == (2, "", 1), err
    assert named in err
