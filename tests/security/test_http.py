"""Attacks over HTTP and over the bus, on the app as it is served with authentication on (docs/security.md)."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from shared.core.access import Scope
from tests import running_stack
from tests.security.door import EVERY_SCOPE, Door, envelope
from tests.security.issuing import claims, signed, unsigned
from tests.security.test_threat_model import SECURITY
from tests.stack.scripted_service import ScriptedService
from triggers.registered import ROUTES
from triggers.routes import Route

GUARDED = [route for route in ROUTES if route.scope is not None]
OF_A_JOB = [route for route in GUARDED if "{jobId}" in route.path]
#: of two tenants; nobody else's
A, B = "tenant_a", "tenant_b"

CALLBACK_KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One stack for all attacks, with callbacks on and an allow list of hosts; afterwards it must be whole."""
    environment = {
        "LUCIUS_CALLBACK_KEYS": f"k1:{CALLBACK_KEY}",
        "LUCIUS_PUBLIC_URL": "https://lucius.example",
        "LUCIUS_ALLOWED_REF_HOSTS": "docs.example",
        # nothing may be due by itself while a test looks
        "LUCIUS_ACK_TIMEOUT_SECONDS": "600",
    }
    data = tmp_path_factory.mktemp("security")
    running = running_stack.start(data, "--auth", "--without-services", environment=environment)
    try:
        reached = Door(running)
        with reached.client:
            yield reached
    finally:
        running.stop()
    # whatever was sent: no error of ours, and no secret in a log
    log = running.log("host")
    assert "unexpected error" not in log
    assert CALLBACK_KEY not in log
    assert "eyJ" not in log


@pytest.fixture
def service(door: Door) -> Iterator[ScriptedService]:
    with ScriptedService(door.stack.bus_connection) as scripted:
        yield scripted


def path_of(route: Route, job_id: str = "job_1") -> str:
    names = {"jobId": job_id, "rejectedId": "rej_1795247970000_0123456789abcdef01234567", "protocolId": "ocr"}
    return "/" + route.path.format(**names)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


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
    """Unsigned, signed by a stranger, expired: 401, and the header says why."""
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


def test_the_docs_commands(door: Door) -> None:
    """What docs/security.md shows to type: a token, a list, and the three refusals."""
    found = re.search(r"<!-- tested: tokens -->\n```sh\n(.*?)```", SECURITY, re.DOTALL)
    assert found
    block = (
        found[1].replace("http://127.0.0.1:7080", door.stack.issuer).replace("http://127.0.0.1:7071", door.stack.api)
    )
    told = subprocess.run(["bash", "-euo", "pipefail", "-c", block], capture_output=True, text=True, check=True).stdout
    assert '"jobs": [' in told
    assert re.findall(r'"code": "(\w+)"', told) == ["TOKEN_MISSING", "SCOPE_MISSING", "TENANT_FORBIDDEN"]


def test_headers_of_the_platform_say_nothing(door: Door) -> None:
    """`X-MS-CLIENT-PRINCIPAL` can be forged: alone it opens nothing, beside a token it changes nothing."""
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
    foreign = door.ask(route.method, path_of(route, job_id), tenant=B)
    never = door.ask(route.method, path_of(route, "job_of_nobody"), tenant=B)
    assert code(foreign) == code(never) == (404, "JOB_NOT_FOUND")
    assert foreign.json()["detail"].replace(job_id, "") == never.json()["detail"].replace("job_of_nobody", "")
    events = door.get(f"/v1/jobs/{job_id}/events").json()["events"]
    assert not any(event["actor"] == f"local:{B}" for event in events)
    assert before == "QUEUED"


def test_another_tenant_cannot_be_named(door: Door) -> None:
    """403 for a body, a batch line, a dry run or a query that names another tenant; the other lines go on."""
    foreign = envelope(tenant_id=B)
    for path in ("/v1/orchestrate", "/v1/commands", "/v1/orchestrate?dryRun=true"):
        assert code(door.ask("POST", path, json=foreign)) == (403, "TENANT_FORBIDDEN")
    for path in ("/v1/jobs", "/v1/deadletters", "/v1/receipts"):
        assert code(door.get(path, tenant_id=B)) == (403, "TENANT_FORBIDDEN")
    lines = [foreign, envelope(tenant_id=" Tenant_A ", doc_id="mine"), foreign]
    told = door.ask(
        "POST",
        "/v1/orchestrate",
        content="\n".join(map(json.dumps, lines)),
        headers={"Content-Type": "application/x-ndjson"},
    ).json()
    assert [result["status"] for result in told["results"]] == [403, 202, 403]
    assert told["counts"]["refused"] == 2
    assert door.get("/v1/jobs", tenant=B).json()["jobs"] == []


def test_two_tenants_with_one_key_have_two_jobs(door: Door) -> None:
    """An idempotency key is a tenant's own: it finds no other's job, and a dry run tells nothing of it."""
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
    """The role sees and controls every tenant's jobs, and the job's history says who it was, in which role."""
    job_id = door.job()
    assert job_id in [job["jobId"] for job in door.get("/v1/jobs", tenant="*").json()["jobs"]]
    assert door.ask("POST", f"/v1/jobs/{job_id}:cancel", tenant="*", json={"reason": "test"}).status_code == 200
    events = door.get(f"/v1/jobs/{job_id}/events").json()["events"]
    [cancel] = [event for event in events if event["type"] == "CANCEL_REQUESTED"]
    assert cancel["actor"] == "local:operator (orch:all-tenants)"


def test_who_asked_is_not_what_the_body_says(door: Door) -> None:
    """`requested_by` and the actor of the first event are the token's subject."""
    job_id = door.job(requested_by="the.boss@example.com")
    assert door.get(f"/v1/jobs/{job_id}").json()["requested_by"] == f"local:{A}"
    assert door.get(f"/v1/jobs/{job_id}/events").json()["events"][0]["actor"] == f"local:{A}"


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


@pytest.mark.parametrize(
    "value",
    [
        "x' or PartitionKey ne 'x",
        "' or '1' eq '1",
        "x'; drop",
        "%27",
        "a/b\\c#d?e",
        "*",
        "\u2019 or 1 eq 1",
        "x" * 4000,
    ],
)
def test_filters_are_values_and_never_queries(door: Door, value: str) -> None:
    """Quotes and operators of a table query in any filter match nothing, for a tenant and for an operator alike."""
    door.job()
    for name, path in (
        ("tenant_id", "/v1/jobs"),
        ("tenant_id", "/v1/deadletters"),
        ("tenant_id", "/v1/receipts"),
        ("request_type", "/v1/jobs"),
        ("label", "/v1/jobs"),
    ):
        answer = door.get(path, tenant="*", **{name: f"key:{value}" if name == "label" else value})
        assert answer.status_code in (200, 400), answer.text
        assert answer.status_code == 400 or not answer.json().get("jobs")
    for name in ("status", "since", "until"):
        assert door.get("/v1/jobs", **{name: value}).status_code == 400
    assert door.get("/v1/rejected", date=value).status_code == 400
    for name in ("limit", "asOf"):
        path = "/v1/jobs" if name == "limit" else f"/v1/jobs/{door.job()}"
        assert door.get(path, **{name: value}).status_code == 400
        assert door.get(path, **{name: "9" * 4400}).status_code == 400


@pytest.mark.parametrize(
    "job_id",
    [
        "..%2f..%2fadmin%2fhost%2fstatus",
        "%2e%2e",
        "job_1%00",
        "job_1%0d%0aX-Injected:%201",
        "job_1%23",
        "job_1%3f",
        "job_1%5c",
        "job_1;a=b",
        "'%20or%20'1'%20eq%20'1",
        "%e2%80%ae",
        "%ff",
        "a" * 200,
        "a" * 5000,
        "job_1:cancel",
    ],
)
def test_an_id_is_no_path_and_no_key(door: Door, job_id: str) -> None:
    """Whatever stands where a job's id does: 404, as one line of JSON or from the host."""
    for suffix in ("", "/steps", "/events", "/audit", "/explain"):
        answer = raw(door, "GET", f"/v1/jobs/{job_id}{suffix}")
        assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), answer[:300]
        assert b"X-Injected" not in answer.split(b"\r\n\r\n")[0]
    for path in ("/v1/rejected/", "/v1/protocols/", "/v1/schemas/"):
        assert raw(door, "GET", path + job_id).startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))


def raw(door: Door, method: str, path: str, *headers: bytes, body: bytes = b"") -> bytes:
    """The answer to a request that no client library would send."""
    port = door.stack.ports.api
    head = [f"{method} {path} HTTP/1.1".encode(), f"Host: 127.0.0.1:{port}".encode(), b"Connection: close"]
    head += [f"Authorization: Bearer {door.token()}".encode(), f"Content-Length: {len(body)}".encode(), *headers]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        told = b""
        while part := connection.recv(65536):
            told += part
    return told


@pytest.mark.parametrize(
    "value",
    [b"a\x0bb", b"a\tb", b"\xc3\xbc", b"\xff", b"x" * 129, b" ", b"a\rSet-Cookie: x=1", b"a\r\n Set-Cookie: x=1"],
)
def test_a_correlation_id_cannot_write_headers(door: Door, value: bytes) -> None:
    """What is not fit to be repeated is replaced by one of ours, or the request is refused by the host."""
    told = raw(door, "GET", "/v1/jobs", b"X-Correlation-Id: " + value)
    head = told.split(b"\r\n\r\n")[0]
    assert b"\nSet-Cookie" not in head
    assert value.strip() not in head or not value.strip()
    if head.startswith(b"HTTP/1.1 200"):
        [line] = [each for each in head.split(b"\r\n") if each.lower().startswith(b"x-correlation-id:")]
        assert len(line.split(b": ")[1]) == 36


def test_every_answer_has_the_correlation_id(door: Door) -> None:
    """The caller's own, in the header of every answer, in the body of every problem, and in the job."""
    own = {"X-Correlation-Id": "mine-1"}
    job_id = door.ask("POST", "/v1/orchestrate", json=envelope(doc_id="corr"), headers=own).json()["jobId"]
    assert door.get(f"/v1/jobs/{job_id}").json()["correlation_id"] == "mine-1"
    ours = door.submit(doc_id="ours")
    job = door.get(f"/v1/jobs/{ours.json()['jobId']}").json()
    assert job["correlation_id"] == ours.headers["X-Correlation-Id"]
    for method, path, tenant, status in (
        ("GET", "/v1/jobs", A, 200),
        ("GET", "/v1/jobs", None, 401),
        ("GET", "/v1/jobs/nobody", A, 404),
        ("POST", "/v1/orchestrate", A, 415),
        ("GET", "/v1/health/live", None, 200),
        ("POST", "/v1/callbacks/ack", None, 401),
    ):
        answer = door.ask(method, path, tenant=tenant, headers=own)
        assert (answer.status_code, answer.headers["X-Correlation-Id"]) == (status, "mine-1")
        if status >= 400:
            assert answer.json()["correlation_id"] == "mine-1"
    tag = door.get("/v1/protocols").headers["ETag"]
    unchanged = door.ask("GET", "/v1/protocols", headers=own | {"If-None-Match": tag})
    assert (unchanged.status_code, unchanged.headers["X-Correlation-Id"]) == (304, "mine-1")


def test_words_cannot_write_log_lines(door: Door) -> None:
    """Line breaks in a reason, a label or a key are refused or escaped: no forged line in the host's log."""
    forged = 'x\n{"event": "FORGED", "level": "INFO"}\r\n\x1b[2K\x9b2K\u2028\u202e'
    job_id = door.job(labels={"team": forged}, doc_id="log")
    assert door.ask("POST", f"/v1/jobs/{job_id}:cancel", json={"reason": forged}).status_code == 200
    for name in ("tenant_id", "doc_id", "idempotency_key", "correlation_id", "requested_by", "source"):
        assert code(door.ask("POST", "/v1/orchestrate", json=envelope(**{name: forged}))) == (400, "ENVELOPE_INVALID")
    door.ask("GET", "/v1/jobs", headers={"Authorization": "Bearer " + forged.replace("\n", "%0a")[:5]})
    for line in door.stack.log("host").split("\n"):
        assert not line.split(" | ", 1)[-1].startswith('{"event": "FORGED"')
        assert not {"\x1b", "\x9b", "\u202e"} & set(line)


@pytest.mark.parametrize(
    "tenant_id", ["..", ".", " .. ", "../tenant_b", "a/../b", "%2e%2e", "tenant_b/", "tenant_b\u200b"]
)
def test_a_tenant_is_no_path_and_no_spelling_of_another(door: Door, tenant_id: str) -> None:
    """Named by an operator: refused, or a tenant of its own whose workspace and lists are nobody else's."""
    answer = door.ask("POST", "/v1/orchestrate", tenant="*", json=envelope(tenant_id=tenant_id))
    if tenant_id.strip() in ("..", "."):
        assert code(answer) == (400, "ENVELOPE_INVALID")
        return
    job_id = answer.json()["jobId"]
    job = door.get(f"/v1/jobs/{job_id}", tenant="*").json()
    assert job["tenant_id"] == tenant_id
    assert [each["jobId"] for each in door.get("/v1/jobs", tenant="*", tenant_id=tenant_id).json()["jobs"]] == [job_id]
    for tenant in (A, B):
        assert door.get(f"/v1/jobs/{job_id}", tenant=tenant).status_code == 404
        assert job_id not in door.get("/v1/jobs", tenant=tenant).text
    dry = door.ask("POST", "/v1/orchestrate?dryRun=true", tenant="*", json=envelope(tenant_id=tenant_id, doc_id="2"))
    assert dry.status_code == 200


def test_bodies_have_bounds(door: Door) -> None:
    """Too many bytes 413, too deep or ambiguous 400, of another kind 415: each a problem, and soon."""
    good = json.dumps(envelope())
    cases: list[tuple[bytes, int, str]] = [
        (good.encode() + b" " * 1024 * 1024, 413, "BODY_TOO_LARGE"),
        (b"[" * 200_000, 400, "NOT_JSON"),
        (b'{"a":' * 100_000, 400, "NOT_JSON"),
        (good.replace('{"ocr": {}}', '{"ocr": ' + "[" * 70 + "]" * 70 + "}").encode(), 400, "NOT_JSON"),
        (good[:-1].encode() + b', "tenant_id": "tenant_b"}', 400, "NOT_JSON"),
        (good.replace('"1.0"', "NaN").encode(), 400, "NOT_JSON"),
        (good.replace('"1.0"', "1e999").encode(), 400, "NOT_JSON"),
        (good.replace('"1.0"', "9" * 5000).encode(), 400, ""),
        (good.replace("in.pdf", "\\ud800").encode(), 400, "NOT_JSON"),
        (b"\xef\xbb\xbf" + good.encode(), 400, "NOT_JSON"),
        (b"\xff\xfe" + good.encode("utf-16-le"), 400, "NOT_JSON"),
        (b"", 400, "NOT_JSON"),
        (b"null", 400, "ENVELOPE_INVALID"),
    ]
    for body, status, problem in cases:
        answer = door.ask("POST", "/v1/orchestrate", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, problem or answer.json()["code"]) == (status, answer.json()["code"]), body[:80]
    for content_type in ("text/plain", "application/xml", "multipart/form-data; boundary=x", ""):
        answer = door.ask("POST", "/v1/orchestrate", content=good, headers={"Content-Type": content_type})
        assert code(answer) == (415, "NOT_JSON")
    job_id = door.job(doc_id="bounds")
    for path in (f"/v1/jobs/{job_id}:cancel", "/v1/admin/reconcile"):
        answer = door.ask("POST", path, content=b"[" * 200_000, headers={"Content-Type": "application/json"})
        assert code(answer) == (400, "NOT_JSON")
        answer = door.ask("POST", path, content=b" " * (1 << 20) + b"{}", headers={"Content-Type": "application/json"})
        assert answer.status_code == 413


@pytest.mark.parametrize(
    "uri",
    [
        "http://169.254.169.254/metadata/identity/oauth2/token",
        "http://localhost:10000/x",
        "http://127.0.0.1:7071/admin/host/keys",
        "https://docs.example@169.254.169.254/",
        "https://user:secret@docs.example/",
        "https://docs.example\\@169.254.169.254/",
        "https://169.254.169.254\\.docs.example/",
        "https://docs.example.evil.example/",
        "https://evil.example/docs.example",
        "https://evil.example#docs.example",
        "https://docs。example/",
        "https://ⓓocs.example/",
        "https:docs.example/",
        "https:///docs.example/",
        "//docs.example/x",
        "/etc/passwd",
        "file:///etc/passwd",
        "gopher://docs.example/",
        "jar:https://docs.example!/x",
        "javascript:alert(1)",
        "data:text/plain,x",
        "https://docs.example/\n",
        "https://docs.example/a b",
        "https://docs.example:99999/",
        "https://[::1]/",
        "https://0x7f000001/",
        "",
        "x" * 3000,
    ],
)
def test_references_lead_nowhere_else(door: Door, uri: str) -> None:
    """Other schemes, other hosts, credentials, and spellings in which two parsers differ: 400 with the path.

    Nothing is opened in any case: the control plane passes references on.
    """
    for name in ("input_ref", "output_ref"):
        answer = door.submit(**{name: {"uri": uri}})
        assert answer.status_code == 400, answer.text
        assert any(error["path"].startswith(name) for error in answer.json()["errors"])


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/x",
        "https://user:secret@hooks.example/",
        "https://hooks.example\\@169.254.169.254/",
        "file:///etc/passwd",
        "https://",
        "//hooks.example",
        "https://hooks.example/\r\nX: y",
        7,
        None,
        ["https://hooks.example"],
    ],
)
def test_callback_urls_are_https_and_nothing_else(door: Door, url: object) -> None:
    """Anything but an https URL without credentials is 400; a good one is stored, and nothing calls it."""
    answer = door.submit(callback_urls={"done": url})
    assert code(answer) == (400, "ENVELOPE_INVALID")


def test_only_the_declared_methods_are_served(door: Door) -> None:
    """HEAD is GET without its body; OPTIONS tells what there is; any other method is 404, as the real host has it."""
    job_id = door.job(doc_id="methods")
    for path in ("/v1/jobs", f"/v1/jobs/{job_id}", "/v1/health/live"):
        got, head = door.get(path), door.ask("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert door.ask("HEAD", "/v1/jobs", tenant=None).status_code == 401
    assert door.ask("HEAD", f"/v1/jobs/{job_id}", tenant=B).status_code == 404
    for method in ("PUT", "PATCH", "DELETE", "TRACE", "PROPFIND"):
        assert door.ask(method, f"/v1/jobs/{job_id}").status_code in (404, 405)
    overridden = door.ask("POST", f"/v1/jobs/{job_id}", headers={"X-HTTP-Method-Override": "GET"})
    assert overridden.status_code == 404


def test_a_reply_moves_no_other_tenants_job(door: Door, service: ScriptedService) -> None:
    """A reply on the bus with another tenant, another lease or another attempt is an event and no move."""
    job_id = door.job(doc_id="reply")
    directive = service.directive(job_id)
    said: list[dict[str, Any]] = [
        {"tenant_id": B},
        {"lease_id": "0" * 32},
        {"attempt_no": 2},
        {"stepId": "embedding"},
    ]
    for change in said:
        service.reply(directive | change, "RESULT")
    events = door.until(
        f"/v1/jobs/{job_id}/events",
        lambda page: sum(event["type"] == "REPLY_IGNORED" for event in page["events"]) == len(said),
    )["events"]
    assert {event["reason"] for event in events if event["type"] == "REPLY_IGNORED"}
    job = door.get(f"/v1/jobs/{job_id}").json()
    assert (job["status"], job["steps"][0]["status"]) == ("QUEUED", "INITIATED")
    service.reply(directive, "RESULT")
    door.until(f"/v1/jobs/{job_id}", lambda job: job["status"] == "SUCCEEDED")


def test_rejected_messages_are_shown_to_their_tenant(door: Door) -> None:
    """An admin sees messages that name its own tenant; those of others, and of nobody, only an operator of all."""
    said = {
        "a": {"type": "ACK", "jobId": "job_lost", "stepId": "ocr", "tenant_id": A, "attempt_no": 1, "lease_id": "x"},
        "b": {"type": "ACK", "jobId": "job_lost", "stepId": "ocr", "tenant_id": B, "attempt_no": 1, "lease_id": "x"},
        "nobody": "rubbish",
    }
    with ServiceBusClient.from_connection_string(door.stack.bus_connection) as client:
        sender = client.get_topic_sender("global-bus-replies-p3")
        sender.send_messages([ServiceBusMessage(json.dumps(body), message_id=name) for name, body in said.items()])
        sender.close()
    everything = door.until("/v1/rejected", lambda page: len(page["rejected"]) == len(said), tenant="*")["rejected"]
    ids = {message["message_id"]: message["id"] for message in everything}
    for tenant, own in ((A, "a"), (B, "b")):
        assert [message["id"] for message in door.get("/v1/rejected", tenant=tenant).json()["rejected"]] == [ids[own]]
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
    assert door.get(f"/v1/jobs/{redriven['jobId']}/events").json()["events"][0]["actor"] == f"local:{A}"


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
    for change in ({"tenant_id": B}, {"attempt_no": 2}, {"stepId": "sis"}):
        assert call("/v1/callbacks/ack", bearer, change) == (403, "NOT_YOUR_ATTEMPT")
    assert door.ask("GET", f"/v1/jobs/{mine}", tenant=None, headers=bearer).status_code == 401
    own = {"Authorization": f"Bearer {door.token()}"}
    assert call("/v1/callbacks/ack", own, {}) == (401, "TOKEN_INVALID")
    assert door.get(f"/v1/jobs/{mine}").json()["steps"][0]["status"] == "INITIATED"
    assert call("/v1/callbacks/ack", bearer, {})[0] == 200
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
