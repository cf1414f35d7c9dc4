"""The conventions of docs/reference/api.md, tested on the live API."""

from __future__ import annotations

import base64
import json
import re
import time
from typing import Any

import httpx
import pytest
from azure.servicebus import ServiceBusClient
from jsonschema import Draft7Validator

from scripts.generate import api_documents
from shared.api.health import Live as LiveAnswer
from shared.api.health import Ready
from shared.api.job import Job, JobPage, StepPage
from shared.api.job_requests import Accepted
from shared.api.protocol import ProtocolPage, SchemaPage
from shared.api.rejected import Reconciled
from shared.api.response import Problem
from tests.api.live import Live, envelope
from tests.api.strict import misfits
from tests.stack.scripted_service import LANE
from tests.waiting import wait_until

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
#: httpx does not know the length of an iterable, as JsonContent of .NET does not know its own
CHUNKED: dict[str, Any] = {"content": (b"{}",), "headers": JSON}


@pytest.fixture(scope="module")
def me(api: Live) -> httpx.Client:
    return api.client()


@pytest.fixture(scope="module")
def job_id(me: httpx.Client) -> str:
    """Returns a job whose directive is sent; its state does not change."""
    made = str(me.post("/v1/orchestrate", json=envelope(doc_id="conventions")).json()["jobId"])
    wait_until(lambda: me.get(f"/v1/jobs/{made}").json()["steps"][0]["status"] == "INITIATED", f"{made} did not begin")
    return made


def deep(levels: int) -> bytes:
    return b'{"payload": ' + b"[" * levels + b"]" * levels + b"}"


REFUSED: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/v1/jobs/job_0", {}, 404, "JOB_NOT_FOUND"),
    ("GET", "/v1/jobs/a'b", {}, 404, "JOB_NOT_FOUND"),
    ("GET", "/v1/jobs/job_0?asOf=1&wait=2&wait=1", {}, 400, "WAIT_INVALID"),
    ("GET", "/v1/jobs?limit=0", {}, 400, "LIMIT_INVALID"),
    ("GET", "/v1/jobs?cursor=!", {}, 400, "CURSOR_INVALID"),
    ("GET", "/v1/jobs?tenant_id=tenant_b", {}, 403, "TENANT_FORBIDDEN"),
    ("GET", "/v1/jobs?since=yesterday", {}, 400, "SINCE_INVALID"),
    ("GET", "/v1/jobs?until=x", {}, 400, "UNTIL_INVALID"),
    ("GET", "/v1/jobs?status=GONE", {}, 400, "STATUS_INVALID"),
    ("GET", "/v1/jobs?label=x", {}, 400, "LABEL_INVALID"),
    ("GET", "/v1/receipts?by=colour", {}, 400, "BY_INVALID"),
    ("GET", "/v1/deadletters?status=GONE", {}, 400, "STATUS_INVALID"),
    ("GET", f"/v1/deadletters?cursor={base64.urlsafe_b64encode(b'LIST:1').decode()}", {}, 400, "CURSOR_INVALID"),
    ("GET", "/v1/receipts?label=x", {}, 400, "LABEL_INVALID"),
    ("GET", "/v1/rejected?date=soon", {}, 400, "DATE_INVALID"),
    ("GET", "/v1/rejected/rej_1", {}, 404, "REJECTED_NOT_FOUND"),
    ("GET", "/v1/protocols/fax", {}, 404, "PROTOCOL_NOT_FOUND"),
    ("GET", "/v1/schemas/fax", {}, 404, "SCHEMA_NOT_FOUND"),
    ("POST", "/v1/jobs/job_0:cancel", {}, 404, "JOB_NOT_FOUND"),
    ("POST", "/v1/jobs/job_0:redrive", {"json": {"reason": 1}}, 400, "REASON_INVALID"),
    ("POST", "/v1/jobs/job_0:pause", {"json": ["why"]}, 400, "REASON_INVALID"),
    ("POST", "/v1/admin/reconcile?dryRun=maybe", {}, 400, "DRY_RUN_INVALID"),
    ("POST", "/v1/admin/reconcile", {"json": {"dryRun": "true"}}, 400, "DRY_RUN_INVALID"),
    ("POST", "/v1/orchestrate?dryRun=maybe", {"json": envelope()}, 400, "DRY_RUN_INVALID"),
    ("POST", "/v1/orchestrate", {"json": envelope(request_type="FAX")}, 400, "PROTOCOL_UNKNOWN"),
    ("POST", "/v1/orchestrate", {"json": envelope(mode="BURST")}, 400, "REQUEST_INVALID"),
    ("POST", "/v1/orchestrate", {"json": envelope(tenant_id="tenant_b")}, 403, "TENANT_FORBIDDEN"),
    ("POST", "/v1/orchestrate", {"json": []}, 400, "ENVELOPE_INVALID"),
    ("POST", "/v1/orchestrate", {"content": b"{", "headers": JSON}, 400, "NOT_JSON"),
    ("POST", "/v1/orchestrate", {"content": b'{"a": NaN}', "headers": JSON}, 400, "NOT_JSON"),
    ("POST", "/v1/orchestrate", {"content": b'{"a": 1, "a": 2}', "headers": JSON}, 400, "NOT_JSON"),
    ("POST", "/v1/orchestrate", {"content": b'{"a": "\\ud800"}', "headers": JSON}, 400, "NOT_JSON"),
    ("POST", "/v1/orchestrate", {"content": deep(64), "headers": JSON}, 400, "NOT_JSON"),
    ("POST", "/v1/orchestrate", {"content": b" " * (1024 * 1024 + 1), "headers": JSON}, 413, "BODY_TOO_LARGE"),
    ("POST", "/v1/orchestrate", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}, 415, "NOT_JSON"),
    ("POST", "/v1/callbacks/ack", {}, 401, "TOKEN_INVALID"),
    ("POST", "/v1/orchestrate", CHUNKED, 411, "LENGTH_REQUIRED"),
    ("POST", "/v1/orchestrate", {**CHUNKED, "headers": NDJSON}, 411, "LENGTH_REQUIRED"),
    ("POST", "/v1/jobs/job_0:cancel", CHUNKED, 411, "LENGTH_REQUIRED"),
    ("POST", "/v1/jobs/job_0:redrive", CHUNKED, 411, "LENGTH_REQUIRED"),
    ("POST", "/v1/admin/reconcile", CHUNKED, 411, "LENGTH_REQUIRED"),
    *(("POST", f"/v1/callbacks/{kind}", CHUNKED, 411, "LENGTH_REQUIRED") for kind in ("ack", "result", "heartbeat")),
]


@pytest.mark.parametrize(
    ("method", "path", "request_", "status", "code"), REFUSED, ids=[f"{each[1]} {each[4]}" for each in REFUSED]
)
def test_every_refusal_is_a_problem(
    me: httpx.Client, method: str, path: str, request_: dict[str, Any], status: int, code: str
) -> None:
    """RFC 9457, with a stable code, and the correlation id of the answer's header."""
    answer = me.request(method, path, **request_)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert (problem["status"], problem["code"]) == (status, code)
    assert problem["correlation_id"] == answer.headers["X-Correlation-Id"]
    assert misfits(Problem, problem) == []


def test_a_refusal_names_what_is_missing(api: Live, me: httpx.Client, job_id: str) -> None:
    """401 without a token and with a wrong one, 403 without the scope, 404 for another tenant's job."""
    for headers, code in (({}, "TOKEN_MISSING"), ({"Authorization": "Bearer a.b.c"}, "TOKEN_INVALID")):
        answer = api.stack.http.get("/v1/jobs", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, code)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    reader = api.client(tenant="tenant_a", scope="orch:read")
    assert reader.get(f"/v1/jobs/{job_id}").status_code == 200
    refused = reader.post(f"/v1/jobs/{job_id}:cancel")
    assert (refused.status_code, refused.json()["code"]) == (403, "SCOPE_MISSING")
    assert 'scope="orch:operate"' in refused.headers["WWW-Authenticate"]
    assert api.client(tenant="tenant_b").get(f"/v1/jobs/{job_id}").json()["code"] == "JOB_NOT_FOUND"


def test_a_submission_names_its_job_and_can_be_sent_again(me: httpx.Client) -> None:
    """202 and Location; again: the same, and Idempotency-Replayed; its key with another body: 409 with the job."""
    body = envelope(idempotency_key="once")
    first = me.post("/v1/orchestrate", json=body)
    assert (first.status_code, misfits(Accepted, first.json())) == (202, [])
    assert "Idempotency-Replayed" not in first.headers
    assert me.get(first.headers["Location"]).json()["jobId"] == first.json()["jobId"]
    again = me.post("/v1/orchestrate", json=body)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert (again.json(), again.headers["Location"]) == (first.json(), first.headers["Location"])
    other = me.post("/v1/orchestrate", json=body | {"doc_id": "other"})
    assert (other.status_code, other.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert other.json()["jobId"] == first.json()["jobId"]


def test_what_did_not_change_is_not_sent_again(me: httpx.Client, job_id: str) -> None:
    """304 for the ETag of a read, weak or in a list or `*`; a POST has none and never is 304; HEAD has no body."""
    path = f"/v1/jobs/{job_id}/steps"
    first = me.get(path)
    tag = first.headers["ETag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        answer = me.get(path, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)
    assert me.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    head = me.head(path)
    assert (head.status_code, head.content, head.headers["ETag"]) == (200, b"", tag)
    posted = me.post("/v1/admin/reconcile?dryRun=true", headers={"If-None-Match": "*"})
    assert (posted.status_code, "ETag" in posted.headers, misfits(Reconciled, posted.json())) == (200, False, [])


def test_the_callers_name_for_a_request_goes_all_the_way(me: httpx.Client) -> None:
    """X-Correlation-Id is returned and stored in the job; an unfit or missing one is replaced by a new one."""
    answer = me.post("/v1/orchestrate", json=envelope(doc_id="named"), headers={"X-Correlation-Id": "my-1"})
    assert answer.headers["X-Correlation-Id"] == "my-1"
    assert me.get(answer.headers["Location"]).json()["correlation_id"] == "my-1"
    for unfit in ("x" * 129, "\xe4"):
        ours = me.get("/v1/jobs/job_0", headers={"X-Correlation-Id": unfit.encode()})
        assert re.fullmatch(r"[0-9a-f-]{36}", ours.headers["X-Correlation-Id"])
    assert re.fullmatch(r"[0-9a-f-]{36}", me.get("/v1/jobs").headers["X-Correlation-Id"])


def test_older_names_say_so(me: httpx.Client) -> None:
    """RFC 9745: Deprecation and the newer name, on every answer; the newer names have neither."""
    for older, newer in (("/v1/commands", "/v1/orchestrate"), ("/v1/admin/outbox/retry", "/v1/admin/reconcile")):
        answer = me.post(older, content=b"{", headers=JSON)
        assert re.fullmatch(r"@\d+", answer.headers["Deprecation"])
        assert answer.headers["Link"] == f'<{newer}>; rel="successor-version"'
        assert "Deprecation" not in me.post(newer, content=b"{", headers=JSON).headers


def test_pages_lead_from_the_first_line_to_the_last(me: httpx.Client, job_id: str) -> None:
    """Pages of one item are the same list as one page; a cursor that the API did not make is refused."""
    me.post(f"/v1/jobs/{job_id}:pause").raise_for_status()
    path = f"/v1/jobs/{job_id}/events"
    whole = me.get(path).json()["events"]
    assert len(whole) > 1
    seen, cursor = [], ""
    while cursor is not None:
        page = me.get(path, params={"limit": 1, "cursor": cursor}).raise_for_status().json()
        seen += page["events"]
        cursor = page["next"]
    assert seen == whole
    assert me.get(path, params={"cursor": "bm9uZQ=="}).json()["code"] == "CURSOR_INVALID"


def test_answers_say_whether_they_may_be_kept(api: Live, me: httpx.Client, job_id: str) -> None:
    """The caller's own reads are revalidated (304 too), documents are public, secrets and errors are not cached."""
    read = me.get(f"/v1/jobs/{job_id}")
    known = me.get(f"/v1/jobs/{job_id}", headers={"If-None-Match": read.headers["ETag"]})
    token = api.callback_token()
    ack = me.post("/v1/callbacks/ack", headers={"Authorization": f"Bearer {token}"})
    rejected = api.operator().get(f"/v1/rejected/{api.rejected()[0]}")
    for answer, status, expected in (
        (read, 200, "private, no-cache"),
        (known, 304, "private, no-cache"),
        (me.get("/v1/jobs"), 200, "private, no-cache"),
        (me.get("/v1/jobs/job_0"), 404, "no-store"),
        (api.stack.http.get("/v1/openapi.json"), 200, "public, max-age=60"),
        (ack, 200, "no-store"),
        (rejected, 200, "no-store"),
    ):
        assert (answer.status_code, answer.headers["Cache-Control"]) == (status, expected), answer.url


def test_every_answer_binds_the_browser(api: Live, me: httpx.Client, job_id: str) -> None:
    """No type is guessed, and once over https always over https: on answers of the app, and of the host to no route."""
    for answer in (
        me.get(f"/v1/jobs/{job_id}"),
        me.get("/v1/jobs/job_0"),
        api.stack.http.get("/v1/docs"),
        api.stack.http.options("/v1/jobs"),
        api.stack.http.get("/v1/fax"),
    ):
        assert answer.headers["X-Content-Type-Options"] == "nosniff", answer.url
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000", answer.url


def test_options_say_what_a_path_takes(api: Live) -> None:
    """Without a token; a path that nothing has is a problem."""
    for path, allowed in (
        ("/v1/jobs", "GET, HEAD, OPTIONS"),
        ("/v1/jobs/job_0:cancel", "OPTIONS, POST"),
        ("/v1/orchestrate", "OPTIONS, POST"),
    ):
        answer = api.stack.http.options(path)
        assert (answer.status_code, answer.headers["Allow"], answer.content) == (204, allowed, b"")
    nothing = api.stack.http.options("/v1/fax")
    assert (nothing.status_code, nothing.json()["code"]) == (404, "ROUTE_NOT_FOUND")


def test_what_the_models_cannot_be_tested_with_elsewhere(me: httpx.Client, job_id: str) -> None:
    """Responses of the whole app have exactly the members of their models."""
    for path, model in (
        ("/v1/health/live", LiveAnswer),
        ("/v1/health/ready", Ready),
        ("/v1/protocols", ProtocolPage),
        ("/v1/schemas", SchemaPage),
        ("/v1/jobs", JobPage),
        (f"/v1/jobs/{job_id}", Job),
        (f"/v1/jobs/{job_id}/steps", StepPage),
    ):
        assert misfits(model, me.get(path).raise_for_status().json()) == [], path


def test_a_directive_on_the_bus_fits_asyncapi(api: Live, me: httpx.Client) -> None:
    """Topic, message id, correlation id, application properties and body of a real one."""
    document = json.loads(api_documents.files()["asyncapi.json"])
    components = document["components"]
    job_id = me.post("/v1/orchestrate", json=envelope(doc_id="bus", correlation_id="corr-7")).json()["jobId"]
    with ServiceBusClient.from_connection_string(api.stack.bus_connection) as client:
        topic = document["channels"]["directives"]["address"].replace("{lane}", str(LANE))
        receiver = client.get_subscription_receiver(topic, "ocr", receive_mode="receiveanddelete")
        deadline = time.monotonic() + 60
        while (message := next(iter(receiver.receive_messages(1, max_wait_time=2)), None)) is None or (
            message.application_properties or {}
        ).get(b"job_id") != job_id.encode():
            assert time.monotonic() < deadline
    assert (message.message_id, message.correlation_id) == (f"{job_id}:ocr:1", "corr-7")
    properties = {_text(name): _text(value) for name, value in (message.application_properties or {}).items()}
    headers = components["messages"]["directive"]["headers"] | {"additionalProperties": False}
    assert [error.message for error in Draft7Validator(headers).iter_errors(properties)] == []
    body = components["messages"]["directive"]["payload"] | {"components": components}
    assert [error.message for error in Draft7Validator(body).iter_errors(json.loads(str(message)))] == []


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def test_the_documents_are_served_to_everybody(api: Live) -> None:
    """OpenAPI as committed but for address and build, AsyncAPI but for its build, every schema, without a token."""
    served = api.stack.http.get("/v1/openapi.json").raise_for_status().json()
    assert served.pop("servers") == [{"url": "https://lucius.example/base"}]
    committed = api_documents.openapi()
    del committed["servers"]
    bus = api.stack.http.get("/v1/asyncapi.json").raise_for_status().json()
    committed_bus = json.loads(api_documents.files()["asyncapi.json"])
    for one, copy in ((served, committed), (bus, committed_bus)):
        assert one["info"].pop("version").startswith("API v1 (build ")
        del copy["info"]["version"]
    assert served == json.loads(json.dumps(committed))
    assert bus == committed_bus
    lines = api.stack.http.get("/v1/schemas").json()["schemas"]
    assert {"envelope", "directive", "ack", "heartbeat", "result", "steps-sis"} <= {line["name"] for line in lines}
    for line in lines:
        schema = api.stack.http.get(line["path"])
        assert schema.headers["Content-Type"] == "application/schema+json"
        assert schema.json()["$schema"] == "https://json-schema.org/draft/2020-12/schema"
