"""Hostile values from callers, on the app served with authentication on (docs/explanation/security.md)."""

from __future__ import annotations

import json
import socket

import pytest

from tests.security.api_client import A, B, Door, code, envelope


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
    """Quotes and operators of a table query in any filter match nothing, for a tenant and for an operator."""
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
    """Any text in place of a job's id: 404, as one line of JSON or from the host."""
    for suffix in ("", "/steps", "/events", "/audit", "/explain"):
        if (job_id, suffix) == ("%2e%2e", "/events"):
            # the host reads it as /v1/events, another route, which has the caller's own rights
            continue
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
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


@pytest.mark.parametrize(
    "value",
    [b"a\x0bb", b"a\tb", b"\xc3\xbc", b"\xff", b"x" * 129, b" ", b"a\rSet-Cookie: x=1", b"a\r\n Set-Cookie: x=1"],
)
def test_a_correlation_id_cannot_write_headers(door: Door, value: bytes) -> None:
    """An id that cannot be repeated is replaced by a new one, or the host refuses the request."""
    received = raw(door, "GET", "/v1/jobs", b"X-Correlation-Id: " + value)
    head = received.split(b"\r\n\r\n")[0]
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
    separated = '\u2028{"event": "FORGED", "level": "INFO"}\u202e'
    job_id = door.job(labels={"team": separated}, doc_id="log")
    for labels in ({"team": forged}, {forged: "red"}):
        assert code(door.ask("POST", "/v1/orchestrate", json=envelope(labels=labels))) == (400, "ENVELOPE_INVALID")
    assert code(door.ask("POST", f"/v1/jobs/{job_id}:cancel", json={"reason": forged})) == (400, "REASON_INVALID")
    assert door.ask("POST", f"/v1/jobs/{job_id}:cancel", json={"reason": separated}).status_code == 200
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
    """An operator names it: refused, or a separate tenant with its own workspace and lists."""
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
    """Anything but an https URL without credentials is 400."""
    answer = door.submit(callback_urls={"done": url})
    assert code(answer) == (400, "ENVELOPE_INVALID")


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1/",
        "https://169.254.169.254/metadata/instance",
        "https://127.1/",
        "https://2130706433/",
        "https://localhost/",
        "https://hooks.example:8443/",
    ],
)
def test_callback_urls_lead_to_no_inner_address(door: Door, url: str) -> None:
    """The policy of webhooks, with the name of the callback; nothing of the address is repeated (R86)."""
    answer = door.submit(callback_urls={"good": "https://hooks.example/", "done": url})
    assert code(answer) == (400, "HOOK_URL_REFUSED")
    assert [each["path"] for each in answer.json()["errors"]] == ["callback_urls.done"]
    assert url not in answer.text


def test_callback_urls_are_shown_without_what_may_be_a_credential(door: Door) -> None:
    """In no route of a job, and in no log: the fixture searches it for `eyJ`."""
    host = "https://hooks.example"
    request = {"idempotency_key": "shown", "callback_urls": {"done": f"{host}/eyJpath?sig=eyJquery"}}
    answer = door.submit(**request)
    job_id = answer.json()["jobId"]
    graphql = {"query": f'{{ job(id: "{job_id}") {{ callback_urls }} }}'}
    asked = door.ask("POST", "/v1/graphql", json=graphql)
    path = f"/v1/jobs/{job_id}"
    reads = [door.get(path + each) for each in ("", "?asOf=1", "/steps", "/events", "/audit", "/explain", "/receipt")]
    reads += [door.ask("GET", path, tenant="*"), door.get("/v1/jobs"), door.get("/v1/events")]
    for each in (answer, asked, *reads):
        assert each.status_code in (200, 202), each.text
        assert "eyJ" not in each.text
    assert {"done": host} == reads[0].json()["callback_urls"] == reads[4].json()["job"]["callback_urls"]
    assert asked.json()["data"]["job"]["callback_urls"] == {"done": host}
    assert "eyJ" not in door.submit(**request).text


def test_a_reference_holds_no_credential_in_another_member(door: Door) -> None:
    """It would be shown with the job, to services and readers."""
    ref = {"uri": "https://docs.example/in.pdf", "sas": "sv=1&sig=eyJ"}
    answer = door.submit(input_ref=ref)
    assert code(answer) == (400, "REQUEST_INVALID")
    assert [each["path"] for each in answer.json()["errors"]] == ["input_ref.sas"]
    assert "eyJ" not in answer.text


def test_callback_urls_are_few_and_have_names(door: Door) -> None:
    """Ten at most, each under a name of 1 to 64 characters, and two of one host, in any spelling."""
    same = {"a": "https://hooks.example/a", "b": "https://HOOKS.example:443/b", "c": "https://hooks.Example/c"}
    answer = door.submit(callback_urls={**same, "d": "https://b.example/"})
    assert code(answer) == (400, "HOOK_URL_REFUSED")
    assert [each["path"] for each in answer.json()["errors"]] == ["callback_urls.c"]
    del same["b"]
    assert door.submit(idempotency_key="hosts", callback_urls={**same, "d": "https://b.example/"}).status_code == 202
    url = "https://hooks.example/"
    for urls in (dict.fromkeys(map(str, range(11)), url), {"": url}, {"x" * 65: url}, {"a\nb": url}):
        assert code(door.submit(callback_urls=urls)) == (400, "ENVELOPE_INVALID")


def test_only_the_declared_methods_are_served(door: Door) -> None:
    """HEAD is GET without its body; OPTIONS lists the methods; any other method is 404, as in Azure."""
    job_id = door.job(doc_id="methods")
    for path in ("/v1/jobs", f"/v1/jobs/{job_id}", "/v1/health/live"):
        got, head = door.get(path), door.ask("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert door.ask("HEAD", "/v1/jobs", tenant=None).status_code == 401
    assert door.ask("HEAD", f"/v1/jobs/{job_id}", tenant=B).status_code == 404
    for method in ("PUT", "DELETE", "TRACE", "PROPFIND"):
        assert door.ask(method, f"/v1/jobs/{job_id}").status_code in (404, 405)
    assert door.ask("PATCH", f"/v1/jobs/{job_id}/steps").status_code in (404, 405)
    overridden = door.ask("POST", f"/v1/jobs/{job_id}", headers={"X-HTTP-Method-Override": "GET"})
    assert overridden.status_code == 404


#: the first and the last hours of the calendar overflow in UTC, and after 2286 milliseconds have a digit more
EDGES = ("0001-01-01T00:00:00+14:00", "1500-01-01T00:00:00Z", "2300-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00")


@pytest.mark.parametrize("edge", EDGES)
def test_a_timestamp_is_within_bounds(door: Door, edge: str) -> None:
    """Wherever a request may name one: a change is refused with 400, a list is empty or whole."""
    name = {"job_type": "OCR", "reason": "x"}
    assert code(door.submit(doc_id=f"e{edge}", expires_at=edge)) == (400, "ENVELOPE_INVALID")
    batch = json.dumps(envelope(doc_id=f"b{edge}", expires_at=edge))
    lines = door.ask("POST", "/v1/orchestrate", content=batch, headers={"Content-Type": "application/x-ndjson"}).json()
    assert [each["problem"]["code"] for each in lines["results"]] == ["ENVELOPE_INVALID"]
    assert code(door.ask("POST", "/v1/limits/pause", json={**name, "until": edge})) == (400, "QUOTA_INVALID")
    throttled = door.ask("POST", "/v1/limits/throttle", json={**name, "max_per_hour": 1, "until": edge})
    assert code(throttled) == (400, "QUOTA_INVALID")
    assert door.get("/v1/quotas", type="OCR").json()["quotas"][0]["hold"] is None
    for word in ("since", "until"):
        for path in ("/v1/jobs", "/v1/deadletters", "/v1/incidents", "/v1/receipts"):
            assert door.get(path, **{word: edge}).status_code == 200
        bulk = {"action": "cancel", "filter": {word: edge}, "reason": "x", "dryRun": True}
        assert door.ask("POST", "/v1/bulk", json=bulk).status_code == 200
    assert door.get("/v1/usage", since=edge).status_code in (200, 400)
    assert door.get("/v1/rejected", date=edge[:10]).json()["rejected"] == []
    document = f'{{ jobs(since: "{edge}", until: "{edge}") {{ jobs {{ jobId }} }} }}'
    assert door.ask("POST", "/v1/graphql", json={"query": document}).json() == {"data": {"jobs": {"jobs": []}}}
