"""Webhooks over HTTP, with tokens: rights to create and see them, every refusal, and deliveries to an endpoint
(R84-R87).
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from emulator.up.ports import find_free
from shared.api.webhook import (
    DefaultSecret,
    Delivery,
    DeliveryPage,
    HookDetail,
    HookLog,
    HookPage,
    HookSecret,
    HookTest,
)
from shared.core.jobs.routing import lane_of
from tests.api.live import Live, envelope
from tests.api.strict import misfits
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.stack.scripted_service import LANE, ScriptedService
from tests.waiting import wait_until
from tests.webhook_receivers import KINDS, PageReceiver

URL = "https://hooks.example.com/secret-path?key=1"
NOBODY = f"hook_{'0' * 32}"


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone, on the lane that the test listens to."""
    return next(name for name in (f"hooked-{uuid.uuid4()}" for _ in range(1000)) if lane_of(name, 16) == LANE)


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    return api.client(tenant=tenant)


@pytest.fixture
def hook_id(own: httpx.Client) -> Iterator[str]:
    """One that gets no event of these tests' jobs."""
    made = create(own, filter={"types": ["job.canceled"]}, description="for a test")
    yield made["hookId"]
    own.delete(f"/v1/webhooks/{made['hookId']}")


def create(client: httpx.Client, **members: Any) -> dict[str, Any]:
    response = client.post("/v1/webhooks", json={"url": URL, **members})
    assert response.status_code == 201, response.text
    body: dict[str, Any] = response.json()
    assert misfits(HookSecret, body) == []
    assert response.headers["Location"] == body["links"]["self"]
    assert response.headers["Cache-Control"] == "no-store"
    return body


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["code"]


def test_a_webhook_from_its_making_to_its_end(own: httpx.Client, tenant: str) -> None:
    """Responses show the host of its URL, and its secret once; each change is in its log, which remains after it."""
    lets_in = {"types": ["job.failed"], "job_types": ["OCR"], "labels": {"team": "a"}}
    made = create(own, filter=lets_in, description="billing")
    path = f"/v1/webhooks/{made['hookId']}"
    assert (made["url"], made["tenant"], made["state"]) == ("https://hooks.example.com", tenant, "ENABLED")
    assert made["filter"] == lets_in
    read = own.get(path).json()
    assert misfits(HookDetail, read) == []
    assert read == {name: made[name] for name in made if name != "secret"} | {"oldest_pending_at": None}
    listed = own.get("/v1/webhooks").json()
    assert misfits(HookPage, listed) == []
    assert made["hookId"] in [each["hookId"] for each in listed["webhooks"]]
    changed = own.patch(path, json={"filter": None, "format": "slack", "enabled": False}).json()
    assert (changed["format"], changed["state"], changed["description"]) == ("slack", "DISABLED", "billing")
    assert changed["filter"] == {"types": [], "job_types": [], "labels": {}}
    assert own.post(changed["links"]["resume"]).json()["state"] == "ENABLED"
    rotated = own.post(made["links"]["rotate"])
    assert misfits(HookSecret, rotated.json()) == []
    assert rotated.headers["Cache-Control"] == "no-store"
    assert rotated.json()["secret"] != made["secret"]
    assert (rotated.json()["secret_version"], rotated.json()["previous_until"] is not None) == (2, True)
    assert own.delete(path).status_code == 204
    for method, place in (("GET", path), ("DELETE", path), ("GET", made["links"]["deliveries"])):
        assert refusal(own.request(method, place)) == (404, "HOOK_NOT_FOUND")
    log = own.get(made["links"]["log"])
    assert misfits(HookLog, log.json()) == []
    assert [each["type"] for each in log.json()["entries"]] == ["CREATED", "DISABLED", "RESUMED", "ROTATED", "REMOVED"]
    for answer in (read, listed, changed, log.json()):
        assert "secret-path" not in str(answer)
        assert "whsec_" not in str(answer)


def test_a_lost_answer_is_asked_for_again(own: httpx.Client) -> None:
    """Under its key: the same webhook and the same secret, until that is rotated."""
    body, key = {"url": URL, "description": "once"}, {"Idempotency-Key": str(uuid.uuid4())}
    first, again = (own.post("/v1/webhooks", json=body, headers=key) for _ in range(2))
    assert first.json() == again.json()
    assert misfits(HookSecret, again.json()) == []
    assert [each.headers.get("Idempotency-Replayed") for each in (first, again)] == [None, "true"]
    listed = own.get("/v1/webhooks").json()["webhooks"]
    assert [each["hookId"] for each in listed if each["description"] == "once"] == [first.json()["hookId"]]
    assert own.post(first.json()["links"]["rotate"]).status_code == 200
    assert refusal(own.post("/v1/webhooks", json=body, headers=key)) == (409, "IDEMPOTENCY_CONFLICT")
    long = {"Idempotency-Key": "k" * 513}
    assert refusal(own.post("/v1/webhooks", json=body, headers=long)) == (400, "HOOK_INVALID")
    own.delete(f"/v1/webhooks/{first.json()['hookId']}")


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({}, ["url"]),
        ({"url": ""}, ["url"]),
        ({"url": URL, "format": "xml"}, ["format"]),
        ({"url": URL, "filter": {}}, ["filter"]),
        ({"url": URL, "filter": {"types": []}}, ["filter.types"]),
        ({"url": URL, "filter": {"types": None}}, ["filter.types"]),
        ({"url": URL, "filter": {"job_types": None, "labels": None}}, ["filter.job_types", "filter.labels"]),
        ({"url": URL, "filter": {"labels": {}}}, ["filter.labels"]),
        # more than the column takes, and than any event has
        ({"url": URL, "filter": {"labels": {f"{n:0128}": '"' * 512 for n in range(32)}}}, ["filter.labels"]),
        ({"url": URL, "filter": {"types": ["job.completed", "job.exploded"]}}, ["filter.types.1"]),
        ({"url": URL, "filter": {"types": ["webhook.dead"]}}, ["filter.types.0"]),
        ({"url": URL, "filter": {"job_types": ["NONE", "OCR"]}}, ["filter.job_types.0"]),
        ({"url": URL, "after": -1}, ["after"]),
        ({"url": URL, "secret": "mine"}, ["secret"]),
    ],
)
def test_what_is_no_webhook_is_refused(own: httpx.Client, body: dict[str, Any], paths: list[str]) -> None:
    """With every path; also a filter without names, or with names that no event has."""
    answer = own.post("/v1/webhooks", json=body)
    assert refusal(answer) == (400, "HOOK_INVALID")
    assert [each["path"] for each in answer.json()["errors"]] == paths


@pytest.mark.parametrize("url", ["https://169.254.169.254/k3y", "http://hooks.example.com/k3y", "https://a@b.c/k3y"])
def test_an_address_that_must_not_be_called_is_refused(own: httpx.Client, hook_id: str, url: str) -> None:
    """At its creation and its change; the response repeats nothing of it."""
    for answer in (
        own.post("/v1/webhooks", json={"url": url}),
        own.patch(f"/v1/webhooks/{hook_id}", json={"url": url}),
    ):
        assert refusal(answer) == (400, "HOOK_URL_REFUSED")
        assert [each["path"] for each in answer.json()["errors"]] == ["url"]
        assert "k3y" not in answer.text


def test_another_tenants_webhook_is_not_there(api: Live, own: httpx.Client, hook_id: str, tenant: str) -> None:
    """404 in the words of one that never was, on every route; an operator names the tenant."""
    foreign, operator = api.client(tenant="somebody-else"), api.operator()
    routes = [
        *(("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", ":test"), ("POST", ":rotate"), ("POST", ":resume")),
        *(("GET", "/deliveries"), ("POST", "/deliveries/1:redeliver"), ("GET", "/log")),
    ]
    for method, rest in routes:
        body = {"json": {"enabled": False}} if method == "PATCH" else {}
        got, never = (foreign.request(method, f"/v1/webhooks/{each}{rest}", **body) for each in (hook_id, NOBODY))
        assert refusal(got) == refusal(never) == (404, "HOOK_NOT_FOUND"), rest
        assert got.json()["detail"].replace(hook_id, "") == never.json()["detail"].replace(NOBODY, "")
        named = {"params": {"tenant_id": tenant}, **body}
        assert refusal(foreign.request(method, f"/v1/webhooks/{hook_id}{rest}", **named)) == (403, "TENANT_FORBIDDEN")
        assert refusal(operator.request(method, f"/v1/webhooks/{hook_id}{rest}", **body)) == (400, "TENANT_REQUIRED")
    assert foreign.get("/v1/webhooks").json() == {"webhooks": []}
    assert own.get(f"/v1/webhooks/{hook_id}").json()["state"] == "ENABLED"
    ours = operator.get("/v1/webhooks", params={"tenant_id": tenant}).json()["webhooks"]
    assert hook_id in [each["hookId"] for each in ours]
    secrets = [client.get("/v1/webhooks/default/secret").json()["secret"] for client in (own, foreign)]
    assert len(set(secrets)) == 2


@pytest.mark.parametrize(
    ("named", "code"), [("*", "TENANT_REQUIRED"), (" ", "TENANT_REQUIRED"), ("x" * 600, "NOT_STORABLE")]
)
def test_a_webhook_is_one_tenants(api: Live, named: str, code: str) -> None:
    """An operator names one: `*`, which elsewhere is every tenant, would get no event."""
    answer = api.operator().post("/v1/webhooks", params={"tenant_id": named}, json={"url": URL})
    assert refusal(answer) == (400, code)


def test_who_may_only_see_a_tenant_gets_no_secret(api: Live) -> None:
    """It can read the rest. A holder of the secret can sign. A caller that can only move jobs gets no secret either."""
    watcher, named = api.client(roles="orch:all-tenants:read"), {"tenant_id": f"seen-{uuid.uuid4()}"}
    for _ in range(2):
        secret = watcher.get("/v1/webhooks/default/secret", params=named)
        assert refusal(secret) == (403, "TENANT_FORBIDDEN")
        assert watcher.get("/v1/webhooks/default", params=named).status_code == 200
    mover = api.client(roles="orch:all-tenants:operate")
    assert refusal(mover.get("/v1/webhooks/default/secret", params=named)) == (403, "TENANT_FORBIDDEN")


def test_the_default_webhook_has_a_secret_and_no_address(own: httpx.Client) -> None:
    """It is there without being made; its secret can be read again and rotated, and nothing else."""
    first = own.get("/v1/webhooks/default/secret")
    assert misfits(DefaultSecret, first.json()) == []
    assert first.headers["Cache-Control"] == "no-store"
    assert own.get("/v1/webhooks/default").json()["url"] is None
    rotated = own.post("/v1/webhooks/default:rotate").json()
    second = own.get("/v1/webhooks/default/secret").json()
    assert (second["secret"], second["previous_secret"]) == (rotated["secret"], first.json()["secret"])
    assert own.get("/v1/webhooks/default/deliveries").status_code == 200
    for method, rest in (("PATCH", ""), ("DELETE", ""), ("POST", ":test"), ("POST", ":resume")):
        body = {"json": {"enabled": False}} if method == "PATCH" else {}
        assert refusal(own.request(method, f"/v1/webhooks/default{rest}", **body)) == (409, "DEFAULT_HOOK")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/webhooks/hook_1", 404, "HOOK_NOT_FOUND"),
        ("/v1/webhooks/HEAD", 404, "HOOK_NOT_FOUND"),
        ("/v1/webhooks/default:secret", 404, "HOOK_NOT_FOUND"),
        ("/v1/webhooks/default/deliveries?state=pending", 400, "STATE_INVALID"),
        ("/v1/webhooks/default/deliveries?cursor=AAAA", 400, "CURSOR_INVALID"),
        ("/v1/webhooks/default/deliveries?limit=0", 400, "LIMIT_INVALID"),
    ],
)
def test_wrong_reads_have_codes(own: httpx.Client, path: str, status: int, code: str) -> None:
    assert refusal(own.get(path)) == (status, code)


@pytest.mark.parametrize("delivery", ["0", "9999999999", "1" * 30, "x", "1?name=" + "n" * 65, "1?name=%0A"])
def test_a_delivery_that_is_none_is_not_found(own: httpx.Client, hook_id: str, delivery: str) -> None:
    number, _, query = delivery.partition("?")
    answer = own.post(f"/v1/webhooks/{hook_id}/deliveries/{number}:redeliver?{query}")
    assert refusal(answer) == (404, "DELIVERY_NOT_FOUND")


def test_a_test_event_comes_now_and_is_signed(own: httpx.Client) -> None:
    """Any response of the endpoint is the result; a chat format makes it a message."""
    with serving(CannedResponse(status=204, body=b""), CannedResponse(status=503), CannedResponse()) as receiver:
        made = create(own, url=f"{receiver.url}/hook")
        results = [own.post(made["links"]["test"]).json() for _ in range(2)]
        own.patch(made["links"]["self"], json={"format": "teams"})
        own.post(made["links"]["test"])
        own.delete(made["links"]["self"])
    assert [misfits(HookTest, each) for each in results] == [[], []]
    assert [(each["delivered"], each["status"], each["error"]) for each in results] == [
        (True, 204, None),
        (False, 503, None),
    ]
    event = Webhook(made["secret"]).verify(receiver.requests[0].body, receiver.requests[0].headers)
    assert (event["type"], event["subject"]) == ("webhook.test", made["hookId"])
    # which no other user could read
    assert "dataschema" not in event
    message = Webhook(made["secret"]).verify(receiver.requests[2].body, receiver.requests[2].headers)
    assert message["attachments"][0]["contentType"] == "application/vnd.microsoft.card.adaptive"


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("kind", "away_s"),
    [*((kind, 0) for kind in KINDS), *(pytest.param(kind, 60, marks=pytest.mark.long) for kind in KINDS)],
)
def test_a_finished_job_reaches_the_receiver_of_the_page(
    kind: str, away_s: float, api: Live, own: httpx.Client, tenant: str, tmp_path: Path
) -> None:
    """From docs/reference/webhooks.md alone: made, tested, stopped for a while and started again, nothing is missed."""
    port = find_free()
    made = create(own, url=f"http://127.0.0.1:{port}/", filter={"types": ["job.failed"]})
    path = f"/v1/webhooks/{made['hookId']}"
    with PageReceiver(kind, tmp_path, port, made["secret"]) as receiver:
        assert own.post(made["links"]["test"]).json()["delivered"]
        jobs = [end_of_a_job(api, own, tenant)]
        wait_until(lambda: jobs[0] in subjects(receiver), "the first event did not come")
        receiver.stop()
        jobs.append(end_of_a_job(api, own, tenant))

        def was_tried() -> bool:
            waiting = own.get(f"{path}/deliveries", params={"state": "PENDING"}).json()["deliveries"]
            return any(each["jobId"] == jobs[1] and each["error"] == "CONNECT" for each in waiting)

        wait_until(was_tried, "nothing was tried while the receiver was away")
        assert own.get(path).json()["oldest_pending_at"] is not None
        time.sleep(away_s)
        receiver.start()
        # the third try is two minutes after the second, where this machine is that slow
        wait_until(lambda: set(jobs) <= set(subjects(receiver)), "an event was missed", deadline_s=240)
        wait_until(lambda: own.get(path).json()["oldest_pending_at"] is None, "a delivery still waits")
    done = own.get(f"{path}/deliveries", params={"state": "DELIVERED"}).json()
    assert misfits(DeliveryPage, done) == []
    assert [each["jobId"] for each in done["deliveries"]] == jobs[::-1]
    assert done["deliveries"][0]["tries"] > 1
    with PageReceiver(kind, tmp_path, port, made["secret"]) as receiver:
        before = len(receiver.taken)
        again = own.post(f"{path}/deliveries/{done['deliveries'][1]['number']}:redeliver").json()
        assert misfits(Delivery, again) == []
        wait_until(lambda: len(receiver.taken) > before, "the event did not come again")
        assert len({each for each in receiver.taken if each[2] == jobs[0]}) == 1
    own.delete(path)


def test_the_end_of_a_job_goes_to_its_callback_url(api: Live, own: httpx.Client, tenant: str) -> None:
    """By https, to the name that the certificate has, signed with the tenant's default secret; once more on demand."""
    # a character that a request can contain: a no-break space
    name = "zu\u00a0ende"
    taken: list[tuple[bytes, dict[str, str]]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.append((body, {name.lower(): value for name, value in self.headers.items()}))
            self.send_response(204)
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*api.certificate)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    with server, ThreadPoolExecutor(1) as pool:
        pool.submit(server.serve_forever, 0.05)
        try:
            done = f"https://localhost:{server.server_port}/done?key=%2F"
            job_id = end_of_a_job(api, own, tenant, callback_urls={name: done})
            wait_until(lambda: taken, "nothing came")
            # one that still waits would not come twice
            ended = {"state": "DELIVERED"}
            [delivery] = wait_until(
                lambda: own.get("/v1/webhooks/default/deliveries", params=ended).json()["deliveries"], "it did not end"
            )
            again = f"/v1/webhooks/default/deliveries/{delivery['number']}:redeliver"
            assert refusal(own.post(again)) == (404, "DELIVERY_NOT_FOUND")
            assert own.post(again, params={"name": name}).json()["name"] == name
            wait_until(lambda: len(taken) == 2, "it did not come again")
        finally:
            server.shutdown()
    assert (delivery["name"], delivery["jobId"], delivery["event_type"]) == (name, job_id, "job.failed")
    secret = own.get("/v1/webhooks/default/secret").json()["secret"]
    events = [Webhook(secret).verify(body, headers) for body, headers in taken]
    assert [(each["type"], each["subject"]) for each in events] == [("job.failed", job_id)] * 2
    assert len({headers["webhook-id"] for _, headers in taken}) == 1


def end_of_a_job(api: Live, own: httpx.Client, tenant: str, **members: Any) -> str:
    """The id of a job that has failed."""
    body = envelope(tenant_id=tenant, idempotency_key=str(uuid.uuid4()), **members)
    job_id = str(own.post("/v1/orchestrate", json=body).json()["jobId"])
    with ScriptedService(api.stack.bus_connection) as service:
        error = {"code": "PDF_ENCRYPTED", "message": "locked"}
        service.reply(service.directive(job_id), "RESULT", status="FAILED_FINAL", error=error, result_ref=None)
    return job_id


def subjects(receiver: PageReceiver) -> list[str]:
    return [subject for _, _, subject in receiver.taken]
