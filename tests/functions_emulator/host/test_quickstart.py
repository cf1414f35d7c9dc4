"""An app in the style of templates and quickstarts, served by `--app DIR` alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functions_emulator.host.process import Host, eventually, start_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    running = start_host("quickstart", tmp_path_factory.mktemp("host"))
    yield running
    assert running.stop() == 0


def test_the_templates_function_responds(host: Host) -> None:
    """It responds to query and body, with the headers of host.json; its output is in the log."""
    response = host.get("/api/hello?name=Bob")
    assert response.text.startswith("Hello, Bob.")
    assert response.headers["x-content-type-options"] == "nosniff"
    assert host.post("/api/hello", json={"name": "Eve"}).text.startswith("Hello, Eve.")
    assert "printed while loading" in host.log
    assert "printed while running" in host.log


def test_other_ways_to_declare_a_function(host: Host) -> None:
    """Without a route, by a generic trigger, and with a form as body."""
    response = host.get("/api/without_a_route")
    assert (response.text, response.headers["set-cookie"]) == ("cookie", "a=b")
    assert host.get("/api/generic").text == "generic"
    sent = host.post("/api/form", data={"a": "1"}, files={"f": ("name.txt", b"content")}).json()
    assert sent == {"form": {"a": "1"}, "files": {"f": "name.txt"}}


def test_a_function_is_switched_off_by_its_setting(host: Host) -> None:
    """The setting is AzureWebJobs.NAME.Disabled."""
    assert host.get("/api/off").status_code == 404
    assert "SwitchedOff is switched off" in host.log
    assert host.get("/admin/emulator/problems").json() == []


def test_the_quickstart_of_durable_functions(host: Host) -> None:
    """A blueprint without annotations; the route names the orchestrator to start."""
    started = host.post("/api/orchestrators/hello_orchestrator")
    assert started.status_code == 202
    assert host.wait_for(started.json()["id"])["output"] == ["Hello Seattle", "Hello Tokyo"]


def test_a_timer_from_a_setting(host: Host) -> None:
    """It runs at startup and then by the schedule in the setting."""
    eventually(lambda: host.log.count("Python timer trigger function ran, late: False") >= 2, lambda: host.log)


def test_a_value_that_has_nowhere_to_go_fails_the_function(host: Host) -> None:
    """As in the worker: without a $return binding a function must not return a value."""
    assert host.post("/admin/functions/returns_into_nothing", json={}).status_code == 202
    eventually(lambda: "returned a value and has no $return binding" in host.log, lambda: host.log)


def test_the_log_has_what_is_served(host: Host) -> None:
    """The URL of each function, as Core Tools shows it, the keys of host.json without effect, and the access rules."""
    assert f"HttpTrigger1: {host.url}/api/hello [" in host.log
    assert "hello_orchestrator: orchestrationTrigger" in host.log
    assert "extensions.http.hsts.isEnabled has no effect in the emulator" in host.log
    assert "customHeaders" not in host.log
    assert "--no-keys: every function, /admin and the durable API are open" in host.log


def test_custom_headers_are_on_what_does_not_have_them(host: Host) -> None:
    """CustomHttpHeadersMiddleware.cs of azure-functions-host: `TryAdd`, also on the 404 of a path without function."""
    for path, status, cookie in (("hello", 200, "b=c"), ("without_a_route", 200, "a=b"), ("nowhere", 404, "b=c")):
        response = host.get(f"/api/{path}")
        headers = response.headers
        assert (response.status_code, headers["X-Content-Type-Options"]) == (status, "nosniff")
        assert headers.get_list("Set-Cookie") == [cookie]
