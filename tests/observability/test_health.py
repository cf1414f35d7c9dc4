"""Liveness and readiness of a live stack, through an outage."""

from __future__ import annotations

import json
import re

from shared.build import VERSION, commit
from shared.older_settings import NOT_READ
from tests.running_stack import ROOT, RunningStack
from tests.waiting import wait_until


def test_live_names_the_build(stack: RunningStack) -> None:
    """It has the version, and no commit if neither the setting nor the file has one."""
    live = stack.http.get("/v1/health/live").raise_for_status().json()
    assert live == {"status": "live", "build": {"version": VERSION, "commit": None, "envelope": "1.x"}}


def test_ready_names_what_answers_the_protocols_and_the_sweeper(stack: RunningStack) -> None:
    """Every dependency is ok since some instant, protocols have versions, and the last pass shows."""

    def swept() -> dict | None:  # type: ignore[type-arg]
        ready = stack.http.get("/v1/health/ready").raise_for_status().json()
        return ready if ready["sweeper"]["last_pass_at"] else None

    stack.http.post("/v1/admin/reconcile").raise_for_status()
    ready = wait_until(swept, "the sweeper left no mark")
    assert {name: state["status"] for name, state in ready["dependencies"].items()} == {
        "tables": "ok",
        "blob": "ok",
        "servicebus": "ok",
        "durable": "ok",
    }
    assert ready["protocols"]["versions"]["OCR_EMBEDDING_SIS"] == 1
    assert ready["sweeper"]["late"] is False


def test_a_setting_that_changes_nothing_is_named(stack: RunningStack) -> None:
    """One WARNING at the start, and readiness, name the setting to use instead; liveness does not."""
    found = stack.http.get("/v1/health/ready").raise_for_status().json()["settings_not_read"]
    assert found == [{"name": "LUCIUS_JOBS_TABLE", "instead": NOT_READ["LUCIUS_JOBS_TABLE"]}]
    # one at each start of the app; the log follows it through a pipe of the host
    lines = wait_until(
        lambda: set(re.findall(r'\{"event": "SETTINGS_NOT_READ".*\}', stack.log("host"))), "no line came"
    )
    assert [json.loads(line)["replaced_by"] for line in lines] == [{found[0]["name"]: found[0]["instead"]}]


def test_the_log_has_no_requests_of_the_sdks(stack: RunningStack) -> None:
    """At INFO they would be most of the app's log that Azure stores and bills."""
    stack.http.get("/v1/health/ready").raise_for_status()
    assert "Request URL" not in stack.log("host")


def test_an_outage_is_named_with_its_beginning_and_its_end(stack: RunningStack) -> None:
    """While the bus is unavailable readiness is 503, and names it and its start; afterwards readiness is 200."""

    def events() -> list[str]:
        lines = [json.loads(text) for text in re.findall(r'\{"event": "DEPENDENCY_.*\}', stack.log("host"))]
        return [line["event"] for line in lines if line.get("dependency") == "servicebus"]

    # the sweeper may have seen an outage of an earlier test
    wait_until(lambda: stack.http.get("/v1/health/ready").status_code == 200, "it is not well")
    wait_until(lambda: len(events()) % 2 == 0, "the log has no end of an earlier outage")
    before = len(events())
    stack.pause("bus")
    try:

        def down() -> dict | None:  # type: ignore[type-arg]
            answer = stack.http.get("/v1/health/ready")
            return answer.json() if answer.status_code == 503 else None

        problem = wait_until(down, "the outage was not noticed")
        again = stack.http.get("/v1/health/ready").json()
    finally:
        stack.resume("bus")
    assert problem["code"] == "NOT_READY"
    assert problem["dependencies"]["servicebus"]["status"] == "down"
    assert problem["dependencies"]["tables"]["status"] == "ok"
    assert again["dependencies"]["servicebus"]["since"] == problem["dependencies"]["servicebus"]["since"]
    assert problem["dependencies"]["servicebus"]["since"] in problem["detail"]
    assert stack.http.get("/v1/health/live").status_code == 200
    wait_until(lambda: stack.http.get("/v1/health/ready").status_code == 200, "it did not come back")
    # the log follows the response through a pipe of the host
    wait_until(
        lambda: events()[before:] == ["DEPENDENCY_DOWN", "DEPENDENCY_BACK"], "the log has not the outage and its end"
    )


def test_the_version_is_that_of_the_packages() -> None:
    """The app, the client, the kit and the emulators are released together."""
    projects = list(ROOT.glob("packages/*/pyproject.toml"))
    assert projects
    for project in projects:
        assert f'\nversion = "{VERSION}"\n' in project.read_text(), project


def test_the_commit_comes_from_the_setting_or_the_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """The setting overrides the file; without both there is none."""
    assert commit({}, tmp_path) is None
    (tmp_path / "BUILD_COMMIT").write_text("fromfile\n")
    assert commit({}, tmp_path) == "fromfile"
    assert commit({"LUCIUS_BUILD_COMMIT": "set"}, tmp_path) == "set"
