"""Archived jobs in the API: each read has them, no change does, and a blob that is not theirs is a problem."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import azure.functions as func
import pytest

from shared.access.caller import ANYONE, Caller
from shared.core.records.canonical import digest
from tests.audit_bundles import faults
from tests.operations.conftest import World, world
from tests.operations.support import failed_at_embedding, submitted, swept
from tests.triggers.http.waiting_requests import OWNER, STRANGER, request
from triggers import controls_http, incidents_http, jobs_http, replay_http, tenants_http
from triggers.http.problems import problem_response

__all__ = ["world"]  # a fixture of the operations' tests

DAY = 86_400.0
#: sees each tenant's jobs, and changes none
READER = replace(ANYONE, tenant=None, moves_all=False)
CALLERS = pytest.mark.parametrize("caller", [ANYONE, READER, OWNER], ids=["operator", "reader", "tenant"])
READS = {
    "job": jobs_http.job_read,
    "steps": jobs_http._job_steps,
    "events": jobs_http._job_events,
    "explain": jobs_http._job_explain,
    "dependencies": jobs_http._job_dependencies,
    "audit": jobs_http._job_audit,
    "receipt": jobs_http._job_receipt,
}
CHANGES = {
    "cancel": (controls_http._cancel, {}),
    "pause": (controls_http._pause, {}),
    "resume": (controls_http._resume, {}),
    "redrive": (controls_http._redrive, {}),
    "redrive of the tree": (controls_http._redrive, {"withDependants": True}),
    "priority": (controls_http._priority, {"priority": "high", "reason": "soon"}),
    "admit": (controls_http._admit, {"reason": "soon"}),
    "dismiss": (incidents_http._dismiss_letter, {"reason": "known"}),
}


async def ask(
    world: World, handler: Any, caller: Caller, job_id: str, body: Any = None, **params: str
) -> tuple[int, Any]:
    """Status and body, or code of the problem."""
    sent = json.dumps(body).encode() if body is not None else b""
    headers = {"Content-Type": "application/json", "Content-Length": str(len(sent))} if sent else {}
    accept = params.pop("accept", None)
    http = func.HttpRequest(
        "POST" if sent else "GET",
        f"/v1/jobs/{job_id}",
        params=params,
        route_params={"jobId": job_id},
        headers=headers | ({"Accept": accept} if accept else {}),
        body=sent,
    )
    try:
        response = await handler(request(world, caller, http))
    except Exception as error:
        response = problem_response(error, "correlation")
    text = response.get_body().decode()
    return response.status_code, json.loads(text) if text.startswith("{") else text


async def archived(world: World) -> tuple[World, str, dict[str, Any]]:
    """Returns a failed job past its retention, and the responses of its reads before that."""
    context = replace(world.context, settings=replace(world.context.settings, retention_days=60))
    world = replace(world, context=context)
    job_id = await failed_at_embedding(world)
    for days in (1, 30):
        world.clock.advance(days * DAY)
        await swept(world)
    before = {name: (await ask(world, handler, ANYONE, job_id))[1] for name, handler in READS.items()}
    world.clock.advance(30 * DAY)
    assert "archive" in await swept(world)
    assert await world.ledger.read(job_id) is None
    return world, job_id, before


@CALLERS
async def test_each_read_is_as_it_was(world: World, caller: Caller) -> None:
    """But for the time of archiving, and the incident, which is gone; the bundle is proved."""
    world, job_id, before = await archived(world)
    at = world.clock.now().isoformat().replace("+00:00", "Z")
    for name, handler in READS.items():
        status, now = await ask(world, handler, caller, job_id)
        expected = before[name]
        if name == "job":
            assert now["archived_at"][:19] == at[:19]
            expected = {**expected, "archived_at": now["archived_at"], "incident": None}
        if name == "audit":
            assert faults(now) == []
            now, expected = ({**each, "taken_at": "", "digest": ""} for each in (now, expected))
        assert (status, now) == (200, expected), name
    status, past = await ask(world, READS["job"], caller, job_id, asOf="1")
    assert (status, past["status"]) == (200, "QUEUED")
    status, page = await ask(world, READS["events"], caller, job_id, limit="2")
    status, rest = await ask(world, READS["events"], caller, job_id, cursor=page["next"])
    assert page["events"] + rest["events"] == before["events"]["events"]
    status, stream = await ask(world, READS["events"], caller, job_id, accept="text/event-stream", after="earliest")
    assert (status, stream.count("\nid: ") + stream.startswith("id: ")) == (200, len(before["events"]["events"]))


@CALLERS
async def test_lists_have_archived_jobs_on_request(world: World, caller: Caller) -> None:
    """With every filter but those of keys; the list of others has only jobs of the ledger."""
    world, job_id, _ = await archived(world)
    living = await submitted(world)

    async def listed(**params: str) -> Any:
        status, page = await ask(world, jobs_http.jobs_list, caller, "", **params)
        assert status == 200, page
        return [(each["jobId"], each["archived_at"] is not None) for each in page["jobs"]]

    assert await listed() == await listed(archived="false") == [(living, False)]
    assert await listed(archived="true") == [(job_id, True)]
    assert await listed(archived="true", status="FAILED_FINAL", label="team:red") == [(job_id, True)]
    assert await listed(archived="true", status="SUCCEEDED") == []
    assert await listed(archived="true", since="2026-02-01T00:00:00Z") == []
    assert await ask(world, jobs_http._dead_letters_list, caller, "", archived="true") == (
        200,
        {"deadletters": [], "next": None, "partial": False},
    )
    for params in ({"archived": "maybe"}, {"archived": "true", "correlation_id": "c"}):
        status, problem = await ask(world, jobs_http.jobs_list, caller, "", **params)
        assert (status, problem["code"]) == (400, "ARCHIVED_INVALID")


@pytest.mark.parametrize("name", CHANGES)
async def test_no_change_reaches_an_archived_job(world: World, name: str) -> None:
    """409, and nothing is written; a caller of all tenants who only reads gets 403, another tenant 404."""
    world, job_id, _ = await archived(world)
    rows = [*world.ledger.rows.all_rows]
    handler, body = CHANGES[name]
    for caller, expected in (
        (ANYONE, (409, "JOB_ARCHIVED")),
        (OWNER, (403, "QUOTA_FORBIDDEN") if name == "admit" else (409, "JOB_ARCHIVED")),
        (READER, (403, "QUOTA_FORBIDDEN" if name == "admit" else "TENANT_FORBIDDEN")),
        (STRANGER, (403, "QUOTA_FORBIDDEN") if name == "admit" else (404, "JOB_NOT_FOUND")),
    ):
        status, problem = await ask(world, handler, caller, job_id, body)
        assert (status, problem["code"]) == expected, caller
    assert [*world.ledger.rows.all_rows] == rows


async def test_an_archived_job_is_its_tenants(world: World) -> None:
    """Another tenant gets 404; an unknown job is 404 for all."""
    world, job_id, _ = await archived(world)
    for name, handler in READS.items():
        status, problem = await ask(world, handler, STRANGER, job_id)
        assert (status, problem["code"]) == (404, "JOB_NOT_FOUND"), name
        status, problem = await ask(world, handler, ANYONE, "job_never")
        assert (status, problem["code"]) == (404, "JOB_NOT_FOUND"), name
    status, page = await ask(world, jobs_http.jobs_list, STRANGER, "", archived="true")
    assert (status, page["jobs"]) == (200, [])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (lambda text: None, (410, "ARCHIVE_GONE")),
        (lambda text: text[: len(text) // 2], (500, "ARCHIVE_INVALID")),
        (lambda text: "", (500, "ARCHIVE_INVALID")),
        (lambda text: text + " " * 10_000_000, (500, "ARCHIVE_INVALID")),
        # another tenant's bundle of the same length, whole and with its own digest
        (lambda text: text.replace("tenant_a", "tenant_b"), (500, "ARCHIVE_INVALID")),
    ],
    ids=["gone", "torn", "empty", "too long", "foreign"],
)
async def test_a_blob_that_is_not_the_jobs_is_a_problem(world: World, changed: Any, expected: tuple[int, str]) -> None:
    """With a stable code, for each read; and no change reads the blob."""
    world, job_id, _ = await archived(world)
    [(name, text)] = world.archive.kept.items()
    if (other := changed(text)) is None:
        del world.archive.kept[name]
    else:
        world.archive.kept[name] = other
    for read, handler in READS.items():
        status, problem = await ask(world, handler, OWNER, job_id)
        assert (status, problem["code"]) == expected, read
    status, problem = await ask(world, controls_http._cancel, OWNER, job_id, {})
    assert (status, problem["code"]) == (409, "JOB_ARCHIVED")


async def test_a_bundle_of_a_later_release_is_unavailable(world: World) -> None:
    """503: the release that wrote it can read it."""
    world, job_id, _ = await archived(world)
    [name] = world.archive.kept
    text = world.archive.kept[name] = world.archive.kept[name].replace("lucius-audit/2", "lucius-audit/3")
    world.ledger.rows.partitions[job_id].rows["ARCHIVED"].values["sha256"] = digest(text)
    status, problem = await ask(world, READS["job"], OWNER, job_id)
    assert (status, problem["code"]) == (503, "DEPENDENCY_UNAVAILABLE")
    # nor is a row without the column that this release needs
    del world.ledger.rows.partitions[job_id].rows["ARCHIVED"].values["blob"]
    for caller, expected in ((OWNER, 503), (READER, 503), (STRANGER, 404)):
        assert (await ask(world, READS["job"], caller, job_id))[0] == expected


#: moves each tenant's jobs, and sees none but in requests that move
MOVER = replace(ANYONE, tenant=None, sees_all=False)


@pytest.mark.parametrize("caller", [ANYONE, MOVER, OWNER], ids=["operator", "mover", "tenant"])
async def test_a_replay_is_for_callers_who_may_move_the_tenant(world: World, caller: Caller) -> None:
    """Of an archived job too: 202 with the location of its output; a repetition returns the same one.

    Others get 403 and 404.
    """
    world, job_id, _ = await archived(world)
    body = {"reason": "again", "mode": "compare"}
    status, new = await ask(world, replay_http._replay, caller, job_id, body)
    assert (status, new["replay_of"], new["mode"]) == (202, job_id, "compare")
    assert new["output_ref"]["uri"].endswith(f"/{new['jobId']}/output/SIS/")
    kept_days = world.context.settings.workspace_kept
    assert kept_days is not None
    assert new["output_kept_until"][:10] == f"{world.clock.now() + kept_days:%Y-%m-%d}"
    assert (await ask(world, replay_http._replay, caller, job_id, body))[1] == new
    for other, expected in ((READER, (403, "TENANT_FORBIDDEN")), (STRANGER, (404, "JOB_NOT_FOUND"))):
        status, problem = await ask(world, replay_http._replay, other, job_id, body)
        assert (status, problem["code"]) == expected
    for wrong in ({}, {"reason": ""}, {"reason": "x", "mode": "again"}, {"reason": "x", "priority": "urgent"}):
        status, problem = await ask(world, replay_http._replay, caller, job_id, wrong)
        assert (status, problem["code"]) == (400, "REPLAY_INVALID")
    for reader in (ANYONE, READER, OWNER):
        status, compared = await ask(world, replay_http._comparison, reader, new["jobId"])
        assert (status, compared["deterministic"]) == (200, None)
        assert {step["outcome"] for step in compared["steps"]} == {"PENDING"}
        status, problem = await ask(world, replay_http._comparison, reader, job_id)
        assert (status, problem["code"]) == (409, "NOT_A_REPLAY")
    status, problem = await ask(world, replay_http._comparison, STRANGER, new["jobId"])
    assert (status, problem["code"]) == (404, "JOB_NOT_FOUND")


async def test_only_operators_purge(world: World) -> None:
    """A tenant's own administrator does not: its quotas are the operators'. A preview needs the same."""
    world, _, _ = await archived(world)
    for dry_run in (True, False):
        body = {"tenant": " Tenant_A ", "reason": "left", "dryRun": dry_run}
        for caller in (OWNER, STRANGER, READER):
            status, problem = await ask(world, tenants_http._purge, caller, "", body)
            assert (status, problem["code"]) == (403, "PURGE_FORBIDDEN")
    status, preview = await ask(world, tenants_http._purge, MOVER, "", {**body, "dryRun": True})
    assert (status, preview) == (200, {"dryRun": True, "tenant": "tenant_a", "living": 0, "jobs": 1})
    status, bulk = await ask(world, tenants_http._purge, MOVER, "", body)
    assert (status, bulk["action"], bulk["tenant"], bulk["state"]) == (202, "purge", "tenant_a", "RUNNING")
    for wrong in ({"tenant": "a"}, {"reason": "x"}, {"tenant": " ", "reason": "x"}):
        status, problem = await ask(world, tenants_http._purge, ANYONE, "", wrong)
        assert (status, problem["code"]) == (400, "PURGE_INVALID")
    await submitted(world)
    status, problem = await ask(world, tenants_http._purge, ANYONE, "", body)
    assert (status, problem["code"], problem["living"]) == (409, "TENANT_LIVE", 1)
