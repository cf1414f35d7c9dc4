"""Liveness and readiness of a live stack, through an outage."""

from __future__ import annotations

import json
import re

import httpx

from shared.build import VERSION, commit
from tests.observability.test_trace_of_a_job import wait_for
from tests.running_stack import ROOT, RunningStack


def test_live_names_the_build(stack: RunningStack) -> None:
    """The version, and no commit where nobody wrote one down."""
    live = httpx.get(f"{stack.api}/v1/health/live").raise_for_status().json()
    assert live == {"status": "live", "build": {"version": VERSION, "commit": None, "envelope": "1.x"}}


def test_ready_names_what_answers_the_protocols_and_the_sweeper(stack: RunningStack) -> None:
    """Every dependency is ok since some instant, protocols have versions, and the last pass shows."""

    def swept() -> dict | None:  # type: ignore[type-arg]
        ready = httpx.get(f"{stack.api}/v1/health/ready", timeout=30).raise_for_status().json()
        return ready if ready["sweeper"]["last_pass_at"] else None

    httpx.post(f"{stack.api}/v1/admin/reconcile", timeout=60).raise_for_status()
    ready = wait_for(swept, "the sweeper left no mark")
    assert {name: state["status"] for name, state in ready["dependencies"].items()} == {
        "tables": "ok",
        "blob": "ok",
        "servicebus": "ok",
        "durable": "ok",
    }
    assert ready["protocols"]["versions"]["OCR_EMBEDDING_SIS"] == 1
    assert ready["sweeper"]["late"] is False


def test_an_outage_is_named_with_its_beginning_and_its_end(stack: RunningStack) -> None:
    """While the bus stands still readiness is 503, names it and since when; afterwards it is well again."""
    stack.pause("bus")
    try:

        def down() -> dict | None:  # type: ignore[type-arg]
            answer = httpx.get(f"{stack.api}/v1/health/ready", timeout=30)
            return answer.json() if answer.status_code == 503 else None

        problem = wait_for(down, "nobody noticed the outage")
        again = httpx.get(f"{stack.api}/v1/health/ready", timeout=30).json()
    finally:
        stack.resume("bus")
    assert problem["code"] == "NOT_READY"
    assert problem["dependencies"]["servicebus"]["status"] == "down"
    assert problem["dependencies"]["tables"]["status"] == "ok"
    assert again["dependencies"]["servicebus"]["since"] == problem["dependencies"]["servicebus"]["since"]
    assert problem["dependencies"]["servicebus"]["since"] in problem["detail"]
    assert httpx.get(f"{stack.api}/v1/health/live").status_code == 200
    wait_for(lambda: httpx.get(f"{stack.api}/v1/health/ready", timeout=30).status_code == 200, "it did not come back")
    told = [json.loads(found) for found in re.findall(r'\{"event": "DEPENDENCY_.*\}', stack.log("host"))]
    assert [line["event"] for line in told if line["dependency"] == "servicebus"] == [
        "DEPENDENCY_DOWN",
        "DEPENDENCY_BACK",
    ]


def test_the_version_is_that_of_the_package() -> None:
    """The literal in the code is pyproject.toml's."""
    assert f'\nversion = "{VERSION}"\n' in (ROOT / "pyproject.toml").read_text()


def test_the_commit_comes_from_the_setting_or_the_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """The setting rules over the file; with neither there is none."""
    assert commit({}, tmp_path) is None
    (tmp_path / "BUILD_COMMIT").write_text("fromfile\n")
    assert commit({}, tmp_path) == "fromfile"
    assert commit({"LUCIUS_BUILD_COMMIT": "set"}, tmp_path) == "set"
