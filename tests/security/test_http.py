"""Rights over HTTP and over the bus, on the app served with authentication on (docs/reference/access.md)."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from typing import Any

import httpx
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from shared.access.caller import Scope
from tests.document_commands import block
from tests.running_stack import ROOT
from tests.security.api_client import EVERY_SCOPE, A, B, Door, code, envelope
from tests.security.issuing import claims, signed, unsigned
from tests.stack.scripted_service import ScriptedService
from tests.waiting import wait_until
from triggers.http.routes import Route
from triggers.registered import ROUTES

GUARDED = [route for route in ROUTES if route.scope is not None]
OF_A_JOB = [route for route in GUARDED if "{jobId}" in route.path]


def path_of(route: Route, job_id: str = "job_1") -> str:
    names = {"jobId": job_id, "rejectedId": "rej_1795247970000_0123456789abcdef01234567", "protocolId": "ocr"}
    names |= {"gate": "0123456789abcdef", "bulkId": f"bulk_{'0' * 29}", "incidentId": f"inc_{job_id}"}
    names |= {"hookId": f"hook_{'0' * 32}", "number": "1", "name": "report.json"}
    return "/" + route.path.format(**names)


def body_of(route: Route) -> dict[str, Any]:
    """What a route that moves a job may ask for."""
    bodies = {"POST": {"reason": "test"}, "PATCH": {"reason": "test", "priority": "high"}}
    return {"json": bodies[route.method]} if route.method in bodies else {}


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.function)
def test_every_route_asks_who_calls_and_what_for(door: Door, route: Route) -> None:
    """Without a token 401, with every scope but its own 403, each with the challenge and before the body is read."""
    none = door.ask(route.method, path_of(route), tenant=None, content=b"\xff" * 100)
    assert code(none) == (401, "TOKEN_MISSING")
    assert none.headers["WWW-Authenticate"] == 'Bearer realm="lucius"'
    others = " ".join(scope for scope in Scope if scope is not route.scope)
    wrong = door.ask(route.method, path_of(route), scope=others, content=b"\xff" * 100)
    assert code(wrong) == (403, "SCOPE_MISSING")
    assert f'scope="{route.scope}"' in wrong.headers["WWW-Authenticate"]


def test_forged_tokens_are_refused(door: Door) -> None:
    """Unsigned, signed by another key, changed: 401 with the error in the header."""
    issuer = door.stack.issuer
    [kid] = [key["kid"] for key in httpx.get(f"{issuer}/keys").json()["keys"]]
    stranger = generate_private_key(public_exponent=65537, key_size=2048)
    for token in (
        unsigned(claims(issuer), kid=kid),
        signed(claims(issuer), stranger, kid=kid),
        signed(claims(issuer), stranger, kid="mine"),
        door.token()[:-4] + "AAAA",
    ):
        refused = door.ask("GET", "/v1/jobs", tenant=None, headers={"Authorization": f"Bearer {token}"})
        assert code(refused) == (401, "TOKEN_INVALID")
        assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]


@pytest.mark.needs("curl")
def test_the_docs_commands(door: Door) -> None:
    """What docs/reference/access.md shows to type: a token, a list, and the three refusals."""
    commands = (
        block(ROOT / "docs" / "reference" / "access.md", "tokens")
        .replace("http://127.0.0.1:7080", door.stack.issuer)
        .replace("http://127.0.0.1:7071", door.stack.api)
    )
    output = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], capture_output=True, text=True, check=True
    ).stdout
    assert '"jobs": [' in output
    assert re.findall(r'"code": "(\w+)"', output) == ["TOKEN_MISSING", "SCOPE_MISSING", "TENANT_FORBIDDEN"]


def test_headers_of_the_platform_say_nothing(door: Door) -> None:
    """`X-MS-CLIENT-PRINCIPAL` can be forged: alone it gives no access, with a token it changes nothing."""
    principal = {"claims": [{"typ": "tenant_id", "val": A}, {"typ": "roles", "val": "orch:all-tenants"}]}
    forged = {
        "X-MS-CLIENT-PRINCIPAL": base64.b64encode(json.dumps(principal).encode()).decode(),
        "X-MS-CLIENT-PRINCIPAL-ID": "root",
        "X-MS-CLIENT-PRINCIPAL-NAME": "root",
        "X-MS-TOKEN-AAD-ACCESS-TOKEN": door.token(),
        "X-Forwarded-Authorization": f"Bearer {door.token()}",
    }
    assert door.ask("GET", "/v1/jobs", tenant=None, headers=forged).status_code == 401
    job_id = door.job()
    assert door.ask("GET", f"/v1/jobs/{job_id}", tenant=B, headers=forged).status_code == 404
    assert door.ask("GET", "/v1/jobs", tenant=B, headers=forged).json()["jobs"] == []


@pytest.mark.parametrize("route", OF_A_JOB, ids=lambda route: route.function)
def test_another_tenants_job_is_not_there(door: Door, route: Route) -> None:
    """404 in the words of a job that never was, on every route with a job's id; it has not moved."""
    job_id = door.job()
    before = door.get(f"/v1/jobs/{job_id}").json()["status"]
    foreign = door.ask(route.method, path_of(route, job_id), tenant=B, **body_of(route))
    never = door.ask(route.method, path_of(route, "job_of_nobody"), tenant=B, **body_of(route))
    assert code(foreign) == code(never)
    # `:admit` is for operators, and asks nothing of the job before
    assert code(never) == ((403, "QUOTA_FORBIDDEN") if route.function == "job_admit" else (404, "JOB_NOT_FOUND"))
    assert foreign.json()["detail"].replace(job_id, "") == never.json()["detail"].replace("job_of_nobody", "")
    events = door.get(f"/v1/jobs/{job_id}/events").json()["events"]
    assert not any(event["actor"] == f"caller:local:{B}" for event in events)
    assert before == "QUEUED"


def test_another_tenant_cannot_be_named(door: Door) -> None:
    """403 for a body, a batch line, a dry run or a query that names another tenant; the other lines go on."""
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
        # the app's own go on meanwhile
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
    """A caller without a tenant of its own that may change all tenants' jobs: each read ends with less than 500."""
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


def test_who_read_what_is_in_the_log(door: Door) -> None:
    """One line a request, also of one that is refused; what is read across tenants is marked."""
    job_id = door.job(doc_id="in the log")
    for tenant, request_id in (("*", "access-1"), (None, "access-2")):
        door.ask(
            "GET", f"/v1/jobs/{job_id}?subscription-key=s3cret", tenant=tenant, headers={"X-Correlation-Id": request_id}
        )
    wait_until(lambda: '"access-2"' in door.stack.log("host"), "the line is not in the log")
    found = re.findall(r'\{"event": "ACCESS".*?"access-\d".*?\}', door.stack.log("host"))
    reads, refused = (json.loads(line) for line in found)
    of_both = {"method": "GET", "route": "/v1/jobs/{jobId}", "jobId": job_id, "scope": "orch:read"}
    assert reads.items() >= {**of_both, "status": 200, "all_tenants": True}.items()
    assert reads["actor"] == "caller:local:operator (orch:all-tenants)"
    assert refused.items() >= {**of_both, "status": 401, "reason": "TOKEN_MISSING"}.items()
    assert "s3cret" not in door.stack.log("host")


def test_the_token_names_who_asked_not_the_body(door: Door) -> None:
    """`requested_by` and the actor of the first event are the token's subject."""
    job_id = door.job(requested_by="the.boss@example.com")
    assert door.get(f"/v1/jobs/{job_id}").json()["requested_by"] == f"caller:local:{A}"
    assert door.get(f"/v1/jobs/{job_id}/events").json()["events"][0]["actor"] == f"caller:local:{A}"


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
    """An admin sees messages that name its own tenant; those of others, and of nobody, only an operator of all."""
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
    """A job that failed for good is listed for its tenant, and can be redriven by nobody else."""
    job_id = door.job(doc_id="dead")
    service.reply(service.directive(job_id), "RESULT", status="FAILED_FINAL", result_ref=None)
    door.until(f"/v1/jobs/{job_id}", lambda job: job["status"] == "FAILED_FINAL")
    door.until("/v1/deadletters", lambda page: job_id in [each["jobId"] for each in page["deadletters"]])
    assert door.get("/v1/deadletters", tenant=B).json()["deadletters"] == []
    assert door.ask("POST", f"/v1/jobs/{job_id}:redrive", tenant=B).status_code == 404
    redriven = door.ask("POST", f"/v1/jobs/{job_id}:redrive").json()
    assert door.get(f"/v1/jobs/{redriven['jobId']}/events").json()["events"][0]["actor"] == f"caller:local:{A}"


def test_a_callback_token_opens_its_attempt_only(door: Door, service: ScriptedService) -> None:
    """Bound to job, step, attempt and lease: no other job's, no route of the API; nor is a caller's token one."""
    mine, other = door.job(doc_id="callback 1"), door.job(doc_id="callback 2")
    first, second = service.directive(mine), service.directive(other)
    bearer = {"Authorization": f"Bearer {first['callback_urls']['token']}"}

    def call(path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, str]:
        answer = door.ask("POST", path, tenant=None, headers=headers, json=body)
        return answer.status_code, answer.json().get("code", "")

    for name in ("jobId", "lease_id"):
        assert call("/v1/callbacks/ack", bearer, {name: second[name]}) == (403, "NOT_YOUR_ATTEMPT")
    assert call(f"/v1/runs/{other}/heartbeat", bearer, {}) == (403, "NOT_YOUR_ATTEMPT")
    for change in ({"tenant_id": B}, {"attempt_no": 2}, {"stepId": "sis"}):
        assert call("/v1/callbacks/ack", bearer, change) == (403, "NOT_YOUR_ATTEMPT")
    assert door.ask("GET", f"/v1/jobs/{mine}", tenant=None, headers=bearer).status_code == 401
    own = {"Authorization": f"Bearer {door.token()}"}
    assert call("/v1/callbacks/ack", own, {}) == (401, "TOKEN_INVALID")
    assert door.get(f"/v1/jobs/{mine}").json()["steps"][0]["status"] == "INITIATED"
    assert call(f"/v1/runs/{mine}/heartbeat", bearer, {})[0] == 200
    assert door.get(f"/v1/jobs/{mine}").json()["steps"][0]["status"] == "PROCESSING"
    assert door.get(f"/v1/jobs/{other}").json()["steps"][0]["status"] == "INITIATED"


def test_without_the_issuer_known_keys_go_on(door: Door) -> None:
    """The issuer stands still: tokens of known keys pass; a token under an unknown key is not called wrong."""
    issuer = door.stack.issuer
    token = door.token(scope=EVERY_SCOPE)
    door.stack.pause("issuer")
    try:
        assert door.ask("GET", "/v1/jobs", tenant=None, headers={"Authorization": f"Bearer {token}"}).is_success
        stranger = generate_private_key(public_exponent=65537, key_size=2048)
        headers = {"Authorization": f"Bearer {signed(claims(issuer), stranger, kid='new')}"}
        answer = door.ask("GET", "/v1/jobs", tenant=None, headers=headers)
        if answer.status_code == 503:
            assert answer.headers["Retry-After"]
        else:
            # fetched less than a cooldown ago: the key is known not to be there
            assert code(answer) == (401, "TOKEN_INVALID")
    finally:
        door.stack.resume("issuer")


def test_readiness_shows_no_counts_without_a_token_of_all_tenants(door: Door) -> None:
    """Probes have none; jobs by state are those of all tenants."""
    door.job(doc_id="ready")
    assert door.ask("POST", "/v1/admin/reconcile", tenant="*").status_code == 200

    def work(**more: Any) -> Any:
        answer = door.ask("GET", "/v1/health/ready", **more)
        assert (answer.status_code, answer.json()["status"]) == (200, "ready")
        return answer.json()["sweeper"]["work"]

    # each process reads the mark of a sweep at most every two seconds
    wait_until(lambda: work(tenant="*") is not None, "an operator sees no counts")
    assert [work(tenant=tenant) for tenant in (None, A)] == [None, None]
    assert work(tenant=None, headers={"Authorization": "Bearer x.y.z"}) is None
    assert work(tenant="*", scope="orch:quota") is None
