"""Incidents over HTTP, with tokens: rights to see and settle them, and every refusal (R24, R63)."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from shared.api.incident import IncidentDetail, IncidentPage
from shared.api.job import Job
from shared.core.jobs.routing import lane_of
from tests.api.live import Live, envelope
from tests.api.strict import misfits
from tests.stack.scripted_service import LANE, ScriptedService
from tests.waiting import wait_until

REASON = {"reason": "the service was restarted"}
EXHAUSTED = {"code": "ATTEMPTS_EXHAUSTED", "message": "no ACK within 30 s"}


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone, on the lane that the test listens to."""
    return next(name for name in (f"incident-{uuid.uuid4()}" for _ in range(1000)) if lane_of(name, 16) == LANE)


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    return api.client(tenant=tenant)


@pytest.fixture(scope="module")
def failed(api: Live, own: httpx.Client, tenant: str) -> list[str]:
    """Three jobs that failed so, and one by its document's fault, the last that failed first."""
    jobs = []
    with ScriptedService(api.stack.bus_connection) as service:
        for error in ({"code": "PDF_ENCRYPTED", "message": "locked"}, EXHAUSTED, EXHAUSTED, EXHAUSTED):
            body = envelope(tenant_id=tenant, idempotency_key=str(uuid.uuid4()))
            job_id = str(own.post("/v1/orchestrate", json=body).json()["jobId"])
            service.reply(service.directive(job_id), "RESULT", status="FAILED_FINAL", error=error, result_ref=None)
            jobs.append(job_id)
    for path, key, count in (("/v1/incidents", "incidents", 3), ("/v1/deadletters", "deadletters", 4)):
        wait_until(lambda: len(own.get(path).json()[key]) == count, f"not all are in {path}", deadline_s=60)  # noqa: B023
    return jobs[::-1]


def listed(client: httpx.Client, **filters: str) -> list[str]:
    answer = client.get("/v1/incidents", params=filters).raise_for_status().json()
    assert misfits(IncidentPage, answer) == []
    return [str(each["subject"]) for each in answer["incidents"]]


def act(client: httpx.Client, incident_id: str, verb: str, **body: Any) -> httpx.Response:
    return client.post(f"/v1/incidents/{incident_id}:{verb}", json=body or REASON)


def test_a_tenant_sees_its_own(api: Live, own: httpx.Client, failed: list[str], tenant: str) -> None:
    """Page by page, with its filters; another tenant's do not exist, and an operator has all."""
    assert set(listed(own)) == set(failed[:3])
    first = own.get("/v1/incidents", params={"limit": 2}).json()
    rest = own.get("/v1/incidents", params={"limit": 2, "cursor": first["next"]}).json()
    assert [each["subject"] for each in (*first["incidents"], *rest["incidents"])] == listed(own)
    assert rest["next"] is None
    assert listed(own, state="RESOLVED,DISMISSED", kind="JOB") == listed(own, kind="BREAKER") == []
    assert set(listed(own, state="open", request_type="OCR", since="2020-01-01T00:00:00Z")) == set(failed[:3])
    foreign, operator = api.client(tenant="somebody"), api.operator()
    incident_id = f"inc_{failed[0]}"
    assert listed(foreign) == []
    assert foreign.get(f"/v1/incidents/{incident_id}").json()["code"] == "INCIDENT_NOT_FOUND"
    for verb in ("resolve", "retry", "dismiss"):
        assert act(foreign, incident_id, verb).status_code == 404
    assert foreign.post(f"/v1/deadletters/{failed[0]}:dismiss", json=REASON).json()["code"] == "JOB_NOT_FOUND"
    assert foreign.get("/v1/incidents", params={"tenant_id": tenant}).status_code == 403
    for filters in ({"state": "OPEN"}, {}, {"state": "OPEN", "tenant_id": tenant}):
        assert set(failed[:3]) <= set(listed(operator, limit="1000", **filters))
    read = own.get(f"/v1/incidents/{incident_id}").json()
    assert misfits(IncidentDetail, read) == []
    assert (read["code"], read["detail"], read["state"]) == (*EXHAUSTED.values(), "OPEN")
    assert [(each["type"], each["actor"]) for each in read["log"]] == [("OPENED", "system")]
    assert own.get(f"/v1/jobs/{failed[0]}").json()["incident"] == incident_id
    assert own.get(f"/v1/jobs/{failed[3]}").json()["incident"] is None


def test_each_act_is_done_once_and_logged(api: Live, own: httpx.Client, failed: list[str], tenant: str) -> None:
    """With its actor and reason; again it is the same answer, and any other act is refused."""
    retried, resolved, dismissed = (f"inc_{job_id}" for job_id in failed[:3])
    for incident_id, verb, state in (
        (retried, "retry", "RETRIED"),
        (resolved, "resolve", "RESOLVED"),
        (dismissed, "dismiss", "DISMISSED"),
    ):
        assert act(own, incident_id, verb, reason="").json()["code"] == "REASON_INVALID"
        assert own.post(f"/v1/incidents/{incident_id}:{verb}").json()["code"] == "REASON_INVALID"
        assert own.get(f"/v1/incidents/{incident_id}").json()["state"] == "OPEN"
        first, again = act(own, incident_id, verb), act(own, incident_id, verb)
        assert (first.status_code, misfits(IncidentDetail, first.json())) == (200, [])
        assert first.json() == again.json()
        assert (first.json()["state"], first.json()["reason"]) == (state, REASON["reason"])
        assert (len(first.json()["log"]), first.json()["settled_by"]) == (2, first.json()["log"][1]["actor"])
        for other in {"retry", "resolve", "dismiss"} - {verb}:
            assert act(own, incident_id, other).json()["code"] == "INCIDENT_SETTLED"
        if verb == "retry":
            new = first.json()["retried_by"]
            assert (first.headers["Location"], again.headers["Idempotency-Replayed"]) == (f"/v1/jobs/{new}", "true")
            assert own.get(f"/v1/jobs/{new}").json()["redrive_of"] == failed[0]
            assert act(own, f"inc_{new}", "retry").json()["code"] == "JOB_LIVE"
    assert listed(own, state="OPEN") == []
    letters = [each["jobId"] for each in own.get("/v1/deadletters").json()["deadletters"]]
    assert set(letters) == {failed[1], failed[3]}
    put_aside = own.post(f"/v1/deadletters/{failed[3]}:dismiss", json=REASON)
    assert (put_aside.status_code, misfits(Job, put_aside.json())) == (200, [])
    assert own.post(f"/v1/deadletters/{failed[0]}:dismiss", json=REASON).json()["code"] == "CONTROL_NOT_POSSIBLE"
    assert [each["jobId"] for each in own.get("/v1/deadletters").json()["deadletters"]] == [failed[1]]
    reader = api.client(tenant=tenant, scope="orch:read")
    assert act(reader, resolved, "resolve").json()["code"] == "SCOPE_MISSING"


def test_bad_input_is_a_problem(own: httpx.Client, api: Live) -> None:
    """Filter parameters, cursors, ids that are not keys; a reader of all changes nothing."""
    for filters, code in (
        ({"state": "BROKEN"}, "STATE_INVALID"),
        ({"kind": "JOB,FIRE"}, "KIND_INVALID"),
        ({"since": "yesterday"}, "SINCE_INVALID"),
        ({"until": "2026-01-27"}, "UNTIL_INVALID"),
        ({"limit": "0"}, "LIMIT_INVALID"),
        ({"cursor": "TElTVDox"}, "CURSOR_INVALID"),
    ):
        answer = own.get("/v1/incidents", params=filters)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
    for incident_id in ("inc_", "none", "inc_job_0", f"inc_{0:013d}_{'0' * 16}", "inc_" + "x" * 200, "a%2Fb", "*"):
        for client in (own, api.operator()):
            assert client.get(f"/v1/incidents/{incident_id}").json()["code"] == "INCIDENT_NOT_FOUND"
            assert act(client, incident_id, "retry").json()["code"] == "INCIDENT_NOT_FOUND"
