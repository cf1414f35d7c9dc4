"""`lucius protocol lint`, held against what the app says when it loads the same file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lucius_client.cli.lint import Linter, services_of
from shared.core.registry import build_protocol
from shared.errors import ProtocolError
from tests.lucius_client.cli.command import run_main
from tests.running_stack import ROOT

SERVICES = services_of(ROOT / "infra" / "bicep" / "topology.json") or {}
Change = Callable[[dict[str, Any]], Any]


def definition() -> dict[str, Any]:
    steps = [
        {"step_id": name, "step_type": "OCR", "service": "ocr", "payload_schema": "steps/ocr.schema.json"}
        for name in ("one", "two", "three")
    ]
    return {"protocol_id": "three", "version": 1, "request_type": "THREE", "steps": steps, "parallel": [["one", "two"]]}


def step(**changes: Any) -> Change:
    return lambda given: given["steps"][1].update(changes)


WRONG: dict[str, Change] = {
    "a field too many": lambda given: given.update(colour="red"),
    "a field too few": lambda given: given.pop("version"),
    "no step": lambda given: given.update(steps=[]),
    "too many steps": lambda given: given.update(
        parallel=[], steps=[{**given["steps"][0], "step_id": f"s{number}"} for number in range(51)]
    ),
    "a version of none": lambda given: given.update(version=0),
    "a version in words": lambda given: given.update(version="first"),
    "a name that is no key": lambda given: given.update(request_type="A/B"),
    "a step's name with a colon": step(step_id="a:b"),
    "a step twice": step(step_id="ONE"),
    "a time of nothing": step(ack_timeout_s=0),
    "a time that is too long": step(lease_s=31 * 86400),
    "no attempt": step(max_attempts=0),
    "a backoff of another cause": step(backoffs={"weather": [1]}),
    "an empty backoff": step(backoffs={"ack": []}),
    "a service that nobody is": step(service="fax"),
    "a service of another type": step(step_type="SIS"),
    "a schema that is not there": step(payload_schema="steps/none.json"),
    "a schema that is none": step(payload_schema="steps/wrong.json"),
    "a group of one": lambda given: given.update(parallel=[["one"]]),
    "a group of strangers": lambda given: given.update(parallel=[["one", "four"]]),
    "a group apart": lambda given: given.update(parallel=[["one", "three"]]),
    "a step in two groups": lambda given: given.update(parallel=[["one", "two"], ["two", "three"]]),
    "a step twice in a group": lambda given: given.update(parallel=[["one", "one"]]),
}


def app_says(folder: Path, given: Any) -> str | None:
    schemas = {f"steps/{path.name}": json.loads(path.read_text()) for path in (folder / "steps").glob("*.json")}
    try:
        build_protocol("p.json", given, schemas, SERVICES)
    except ProtocolError as wrong:
        return str(wrong)
    return None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "ocr.schema.json").write_text((ROOT / "protocols/steps/ocr.schema.json").read_text())
    (tmp_path / "steps" / "wrong.json").write_text('{"type": "thing"}')
    return tmp_path


def linted(folder: Path, given: Any) -> list[str]:
    (folder / "p.json").write_text(json.dumps(given))
    return [str(finding) for finding in Linter(SERVICES).check(folder / "p.json")]


def test_what_the_app_takes_is_in_order(folder: Path) -> None:
    """The example as it stands, and every protocol of this repository."""
    assert app_says(folder, definition()) is None
    assert linted(folder, definition()) == []
    shipped = run_main("protocol", "lint", "protocols")
    assert (shipped.returncode, shipped.stdout) == (0, "no fault found\n")


@pytest.mark.parametrize("change", WRONG)
def test_what_the_app_refuses_is_found(folder: Path, change: str) -> None:
    """Each with its place in the file."""
    given = definition()
    WRONG[change](given)
    assert app_says(folder, given) is not None
    assert linted(folder, given)


def test_the_command_names_file_and_place(folder: Path) -> None:
    """A finding a line, exit code 1; a request type that two files have; what is no JSON; JSON for programs."""
    (folder / "a.json").write_text(json.dumps(definition()))
    (folder / "b.json").write_text(json.dumps({**definition(), "version": 0}))
    (folder / "c.json").write_text(json.dumps(definition()))
    (folder / "d.json").write_text("{")
    found = run_main("protocol", "lint", str(folder))
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    assert [line.removeprefix(f"{folder}/").split(": ")[:2] for line in lines] == [
        ["b.json", "version"],
        ["c.json", "request_type"],
        ["d.json", "cannot be read"],
    ]
    told = json.loads(run_main("protocol", "lint", str(folder), "--json").stdout)
    assert [(Path(each["file"]).name, each["path"]) for each in told] == [
        ("b.json", "version"),
        ("c.json", "request_type"),
        ("d.json", ""),
    ]
    assert run_main("protocol", "lint", str(folder), "--topology", str(folder / "d.json")).returncode == 2
