"""Access of a tenant over HTTP and over the bus: its own jobs alone, and for an operator those of all."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.security.api_client import A, B, Door, code, envelope
from tests.security.routes import GUARDED, OF_A_JOB, body_of, path_of
from tests.stack.scripted_service import ScriptedService
from triggers.http.routes import Route


@pytest.mark.parametrize("route", OF_A_JOB, ids=lambda route: route.function)
def test_another_tenants_job_is_not_there(door: Door, route: Route) -> None:
    """404 in the words of a job that never was, on every route with a job's id; it has not moved."""
    job_id = door.job()
    before = door.get(f"/v1/jobs/{job_id}").json()["status"]
    foreign = door.ask(route.method, path_of(route, job_id), tenant=B, **body_of(route))
    never = door.ask(route.method, path_of(route, "job_of_nobody"), tenant=B, **body_of(route))
    assert code(foreign) == code(never)
    # `:admit` is for operators, and reads nothing of the job before
    assert code(never) == ((403, "QUOTA_FORBIDDEN") if route.function == "job_admit" else (404, "JOB_NOT_FOUND"))
    assert foreign.json()["detail"].replace(job_id, "") == never.json()["detail"].replace("job_of_nobody", "")
    events = door.get(f"/v1/jobs/{job_id}/events").json()["events"]
    assert not any(event["actor"] == f"caller:local:{B}" for event in events)
    assert before == "QUEUED"


def test_another_tenant_cannot_be_named(door: Door) -> None:
    """403 for a body, a batch line, a dry run or a query that names another tenant; the other lines are processed."""
    foreign = envelope(tenant_id=B)
    for path in ("/v1/orchestrate", "/v1/commands", "/v1/orchestrate?dryRun=true"):
        assert code(door.ask("POST", path, json=foreign)) == (403, "TENANT_FORBIDDEN")
    for path in ("/v1/jobs", "/v1/deadletters", "/v1/receipts"):
        assert code(door.get(path, tenant_id=B)) == (403, "TENANT_FORBIDDEN")
    lines = [foreign, envelope(tenant_id=" Tenant_A ", doc_id="mine"), foreign]
    output = door.ask(
        "POST",
        "/v1/orchestrate",
        content="\n".join(map(json.dumps, lines)),
        headers={"Content-Type": "application/x-ndjson"},
    ).json()
    assert [result["status"] for result in output["results"]] == [403, 202, 403]
    assert output["counts"]["refused"] == 2
    assert door.get("/v1/jobs", tenant=B).json()["jobs"] == []


def test_two_tenants_with_one_key_have_two_jobs(door: Door) -> None:
    """An idempotency key belongs to a tenant: it finds no other tenant's job, and neither does a dry run."""
    first = door.submit(idempotency_key="same").json()["jobId"]
    dry = door.ask(
        "POST",
        "/v1/orchestrate?dryRun=true",
        tenant="tenant_c",
        json=envelope(tenant_id="tenant_c", idempotency_key="same"),
    )
    assert dry.json()["idempotency"]["verdict"] == "NEW"
    assert door.submit(tenant="tenant_c", idempotency_key="same").json()["jobId"] != first


def test_an_operator_of_all_tenants_is_known_by_name(door: Door) -> None:
    """The role sees and controls every tenant's jobs, and the job's history names the caller and the role."""
    job_id = door.job()
    assert job_id in [job["jobId"] for job in door.get("/v1/jobs", tenant="*").json()["jobs"]]
    assert door.ask("POST", f"/v1/jobs/{job_id}:cancel", tenant="*", json={"reason": "test"}).status_code == 200
    events = door.get(f"/v1/jobs/{job_id}/events").json()["events"]
    [cancel] = [event for event in events if event["type"] == "CANCEL_REQUESTED"]
    assert cancel["actor"] == "caller:local:operator (orch:all-tenants)"


def test_one_who_only_sees_all_changes_nothing(door: Door) -> None:
    """Every read of every tenant's jobs, and 403 for each route that changes one; its own tenant's it may change."""
    job_id = door.job(doc_id="only seen")

    def changes_by_callers() -> list[Any]:
        # the app's own requests are served meanwhile
        events = door.get(f"/v1/jobs/{job_id}/events").json()["events"]
        return [event for event in events if event["source"] == "http"]

    before = changes_by_callers()
    bearer = {"Authorization": f"Bearer {door.token(B, roles='orch:all-tenants:read')}"}
    for route in OF_A_JOB:
        response = door.ask(route.method, path_of(route, job_id), tenant=None, headers=bearer, **body_of(route))
        if route.method == "GET":
            # it is read, and is neither a replay nor a run
            other = (404, "RUN_NOT_FOUND") if route.tag == "runs" else (409, "NOT_A_REPLAY")
            assert response.status_code == 200 or code(response) == other
        else:
            assert code(response)[0] == 403
            assert code(response)[1] in ("TENANT_FORBIDDEN", "QUOTA_FORBIDDEN")
    for path in ("/v1/orchestrate", "/v1/orchestrate?dryRun=true"):
        foreign = door.ask("POST", path, tenant=None, headers=bearer, json=envelope(doc_id="foreign"))
        assert code(foreign) == (403, "TENANT_FORBIDDEN")
    assert changes_by_callers() == before
    assert job_id in door.ask("GET", "/v1/jobs?tenant_id=tenant_a", tenant=None, headers=bearer).text
    own = door.ask("POST", "/v1/orchestrate", tenant=None, headers=bearer, json=envelope(tenant_id=B)).json()["jobId"]
    assert door.ask("POST", f"/v1/jobs/{own}:cancel", tenant=None, headers=bearer).status_code == 200


def test_an_operator_that_may_not_read_all_gets_no_error(door: Door) -> None:
    """A caller without its own tenant that may change all tenants' jobs: each read ends with less than 500."""
    bearer = {"Authorization": f"Bearer {door.token('', roles='orch:all-tenants:operate')}"}
    statuses = {
        route.function: door.ask("GET", path_of(route), tenant=None, headers=bearer).status_code
        for route in GUARDED
        if route.method == "GET"
    }
    assert {name: status for name, status in statuses.items() if status >= 500} == {}
    assert statuses["rejected_list"] == 403


def test_a_tenant_comes_by_a_group(door: Door) -> None:
    """As LUCIUS_AUTH_TENANTS maps it; two that differ, none, or groups that are left out are 403, with why."""
    job_id = door.job(doc_id="by a group")

    def ask(**claims: Any) -> httpx.Response:
        user = {"azp": "04b07795-8ddb-461a-bbee-02f9e1bf7b46", "azpacr": "0", "oid": "o-1"}
        token = door.token("", claims=json.dumps(user | claims), roles="")
        return door.ask("GET", f"/v1/jobs/{job_id}", tenant=None, headers={"Authorization": f"Bearer {token}"})

    assert ask(groups=["g-a", "g-x"]).status_code == 200
    assert code(ask(groups=["g-b"])) == (404, "JOB_NOT_FOUND")
    for wrong in ({}, {"groups": ["g-a", "g-b"]}, {"groups": ["g-a"], "_claim_names": {"groups": "src1"}}):
        assert code(ask(**wrong)) == (403, "TENANT_MISSING")


def cursors() -> list[str]:
    positions = [
        "",
        "LIST:",
        "LIST:0",
        "ACTIVE:",
        "CLAIM:",
        "GATE",
        "' or PartitionKey ne '",
        "x' or '1' eq '1",
        "9" * 4999,
        "-1",
        "\u0663",
        "\x00",
        "\ud7ff" * 500,
    ]
    return [base64.urlsafe_b64encode(position.encode()).decode() for position in positions] + ["%", "AA", "===", "é"]


def test_a_cursor_opens_nothing(door: Door) -> None:
    """Another tenant's, or made up: a page of one's own jobs, or 400; the same for events, dead letters, rejected."""
    own = door.job(tenant="tenant_d", doc_id="d")
    foreign_jobs = {door.job(doc_id=f"cursor {number}") for number in range(2)}
    foreign = door.get("/v1/jobs", limit="1").json()["next"]
    assert foreign
    for cursor in [foreign, *cursors()]:
        for path in ("/v1/jobs", "/v1/deadletters", f"/v1/jobs/{own}/events", "/v1/rejected", "/v1/receipts"):
            answer = door.get(path, tenant="tenant_d", cursor=cursor)
            assert answer.status_code in (200, 400), answer.text
            if answer.status_code == 400:
                assert answer.json()["code"] == "CURSOR_INVALID"
            else:
                assert not foreign_jobs.intersection(answer.text.split('"'))


def test_a_reply_moves_no_other_tenants_job(door: Door, service: ScriptedService) -> None:
    """A reply with another lease or attempt is an event, with another tenant or step a rejected message; no more."""
    job_id = door.job(doc_id="reply")
    directive = service.directive(job_id)
    changes: list[dict[str, Any]] = [
        {"tenant_id": B},
        {"lease_id": "0" * 32},
        {"attempt_no": 2},
        {"stepId": "embedding"},
    ]
    for change in changes:
        service.reply(directive | change, "RESULT")
    events = door.until(
        f"/v1/jobs/{job_id}/events",
        lambda page: sum(event["type"] == "REPLY_IGNORED" for event in page["events"]) == 2,
    )["events"]
    assert {event["reason"] for event in events if event["type"] == "REPLY_IGNORED"} == {"STALE_ATTEMPT"}
    door.until(
        "/v1/rejected",
        lambda page: {"TENANT_MISMATCH", "UNKNOWN_STEP"} <= {each["reason"] for each in page["rejected"]},
        tenant="*",
    )
    job = door.get(f"/v1/jobs/{job_id}").json()
    assert (job["status"], job["steps"][0]["status"]) == ("QUEUED", "INITIATED")
    service.reply(directive, "RESULT")
    door.until(f"/v1/jobs/{job_id}", lambda job: job["status"] == "SUCCEEDED")


def test_rejected_messages_are_shown_to_their_tenant(door: Door) -> None:
    """An admin sees messages that name its own tenant; an operator of all also sees those without a tenant."""
    changes = {
        "a": {"type": "ACK", "jobId": "job_lost", "stepId": "ocr", "tenant_id": A, "attempt_no": 1, "lease_id": "x"},
        "b": {"type": "ACK", "jobId": "job_lost", "stepId": "ocr", "tenant_id": B, "attempt_no": 1, "lease_id": "x"},
        "nobody": "rubbish",
    }
    with ServiceBusClient.from_connection_string(door.stack.bus_connection) as client:
        sender = client.get_topic_sender("global-bus-replies-p3")
        sender.send_messages([ServiceBusMessage(json.dumps(body), message_id=name) for name, body in changes.items()])
        sender.close()
    everything = door.until(
        "/v1/rejected",
        lambda page: changes.keys() <= {each["message_id"] for each in page["rejected"]},
        tenant="*",
    )["rejected"]
    ids = {message["message_id"]: message["id"] for message in everything if message["message_id"] in changes}
    for tenant, own in ((A, "a"), (B, "b")):
        # the tenant's list follows that of all
        page = door.until(
            "/v1/rejected", lambda page, id_=ids[own]: id_ in [each["id"] for each in page["rejected"]], tenant=tenant
        )
        path = f"/v1/rejected?tenant={tenant.upper()}"
        for each in (page, door.get(path, tenant="*").json()):
            assert {message["id"] for message in each["rejected"]} & set(ids.values()) == {ids[own]}
        assert door.get(path, tenant="tenant_d").status_code == 403
        for name, id_ in ids.items():
            status = 200 if name == own else 404
            assert door.get(f"/v1/rejected/{id_}", tenant=tenant).status_code == status
            redriven = door.ask("POST", f"/v1/rejected/{id_}:redrive", tenant=tenant)
            assert redriven.status_code == (409 if name == own else 404)


def test_dead_letters_are_a_tenants_own(door: Door, service: ScriptedService) -> None:
    """A job that failed permanently is in its tenant's list, and only that tenant can redrive it."""
    job_id = door.job(doc_id="dead")
    service.reply(service.directive(job_id), "RESULT", status="FAILED_FINAL", result_ref=None)
    door.until(f"/v1/jobs/{job_id}", lambda job: job["status"] == "FAILED_FINAL")
    door.until("/v1/deadletters", lambda page: job_id in [each["jobId"] for each in page["deadletters"]])
    assert door.get("/v1/deadletters", tenant=B).json()["deadletters"] == []
    assert door.ask("POST", f"/v1/jobs/{job_id}:redrive", tenant=B).status_code == 404
    redriven = door.ask("POST", f"/v1/jobs/{job_id}:redrive").json()
    assert door.get(f"/v1/jobs/{redriven['jobId']}/events").json()["events"][0]["actor"] == f"caller:local:{A}"
