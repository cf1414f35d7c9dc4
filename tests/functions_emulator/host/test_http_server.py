"""HTTP triggers, over real HTTP."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.functions_emulator.host.process import Host, eventually, exchange


def test_a_function_sees_the_whole_request(host: Host) -> None:
    """Method, URL, headers, query, route parameters, raw body and context arrive.

    `%2F` stays as it is, and a parameter without a value is left out (`ToRpcHttp` in azure-functions-host,
    GrpcMessageConversionExtensions.cs).
    """
    response = host.post("/echo/a%20b%2Fc/12?x=1&X=2&e=", content=b"\x00\xff", headers={"X-Test": "t"})
    request = response.json()
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-answer"] == "yes"
    assert (request["method"], request["header"], request["body"]) == ("POST", "t", "00ff")
    # under the last spelling: QueryFeature.cs of dotnet/aspnetcore
    assert request["params"] == {"X": "1,2"}
    assert request["route"] == {"word": "a b%2Fc", "number": "12"}
    assert request["function"] == "echo"
    assert request["url"] == f"{host.url}/echo/a%20b%2Fc/12?x=1&X=2&e="


def test_an_optional_parameter_may_be_missing(host: Host) -> None:
    """`{number:int?}` matches without the parameter, but not with a word in its place."""
    assert host.post("/echo/word").json()["route"] == {"word": "word"}
    assert host.post("/echo/word/twelve").status_code == 404


def test_sync_functions_and_text_responses(host: Host) -> None:
    """A plain `def` runs in the pool, and a str becomes a text response."""
    response = host.get("/sync?name=bob")
    assert (response.status_code, response.text) == (200, "hello bob")
    assert response.headers["content-type"].startswith("text/plain")


def test_binary_bodies_go_through_unchanged(host: Host) -> None:
    """Five megabytes are returned reversed, with the function's status."""
    body = bytes(range(256)) * 20_000
    response = host.post("/binary", content=body)
    assert (response.status_code, response.content) == (201, body[::-1])


def test_no_value_is_204(host: Host) -> None:
    """A function that returns None gives 204."""
    assert host.get("/nothing").status_code == 204


def test_an_exception_is_500_without_a_word(host: Host) -> None:
    """The response has no detail; the log has function, invocation and stack."""
    response = host.get("/boom")
    assert (response.status_code, response.content) == (500, b"")
    log = host.log
    assert "boom failed, invocation " in log
    assert "RuntimeError: secret detail" in log
    assert host.get("/sync").status_code == 200


def test_a_segment_may_be_parameter_and_literal(host: Host) -> None:
    """POST .../7:cancel reaches its function; a GET reaches the other one, with `7:cancel` as id."""
    assert host.post("/v1/things/7:cancel").text == "cancel 7"
    assert host.get("/v1/things/7:cancel").text == "get 7:cancel"


def test_a_wrong_method_is_404(host: Host) -> None:
    """As on Azure, where it is not 405."""
    assert host.post("/v1/things/7").status_code == 404
    assert host.get("/no/such/route").status_code == 404


def test_the_host_responds_while_the_apps_loop_is_blocked(host: Host, tmp_path: Path) -> None:
    """A blocking async function stops the app's loop only, and the log names it."""
    until = tmp_path / "until"
    blocked = threading.Thread(target=host.get, args=(f"/block-loop?until={until}",))
    blocked.start()
    try:
        assert host.get("/admin/host/status").json()["state"] == "Running"
        assert host.get("/sync?name=meanwhile").text == "hello meanwhile"
        # a busy machine may block it as well
        eventually(lambda: re.search("the app's event loop is blocked for .* by .*block_loop", host.log))
    finally:
        until.touch()
        blocked.join()
    assert host.get("/sleep-async?s=0").text == "slept"


def test_functions_are_listed(host: Host) -> None:
    """/admin/functions returns every function with its bindings."""
    listed = {one["name"]: one for one in host.get("/admin/functions").json()}
    assert listed["echo"]["config"]["bindings"][0]["route"] == "echo/{word}/{number:int?}"
    assert json.dumps(listed["chain"]).count("orchestrationTrigger") == 1


@pytest.mark.long
@pytest.mark.timeout(400)
def test_a_response_later_than_230_seconds_is_502(host: Host) -> None:
    """As Azure's load balancer; the function continues, and the host serves other requests meanwhile."""
    with httpx.Client(timeout=300, trust_env=False) as client:
        began = time.monotonic()
        response = client.get(f"{host.url}/sleep-async?s=260")
        took = time.monotonic() - began
    assert response.status_code == 502
    assert took > 229
    assert "sleep_async did not respond within 230 s" in host.log
    assert host.get("/admin/emulator/running").json() == ["sleep_async"]
    eventually(lambda: host.get("/admin/emulator/running").json() == [], within=90)


def test_a_chunked_body_arrives_empty(host: Host) -> None:
    """The host passes on a body with a Content-Length only (`request.ContentLength > 0` in
    GrpcMessageConversionExtensions.cs, azure-functions-host issue 7930)."""
    response = host.post("/binary", content=iter([b"abc", b"def"]))
    assert (response.status_code, response.content) == (201, b"")


def test_a_compressed_body_arrives_as_it_was_sent(host: Host) -> None:
    """The host inflates nothing."""
    body = gzip.compress(b"abc")
    response = host.post("/binary", content=body, headers={"Content-Encoding": "gzip"})
    assert (response.status_code, response.content) == (201, body[::-1])


def test_a_body_beyond_the_limit_is_413(host: Host) -> None:
    """The limit is a hundred megabytes, as on Azure."""
    head = f"POST /binary HTTP/1.1\r\nHost: localhost\r\nContent-Length: {100 * 2**20 + 1}\r\n\r\n"
    assert exchange(host, head.encode())[0] == 413


def test_a_browser_at_the_root_finds_a_page(host: Host) -> None:
    """HomepageMiddleware.cs of azure-functions-host: a page for any method, unless a function has that route."""
    response = host.get("/")
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert '<a href="/emulator">' in response.text
    assert host.post("/").status_code == 200
