"""`lucius protocol lint`, compared with the app's load of the same file."""

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


def three_steps() -> dict[str, Any]:
    steps = [
        {"step_id": name, "step_type": "OCR", "service": "ocr", "payload_schema": "steps/ocr.schema.json"}
        for name in ("one", "two", "three")
    ]
    return {"protocol_id": "three", "version": 1, "request_type": "THREE", "steps": steps, "parallel": [["one", "two"]]}


def step(**changes: Any) -> Change:
    return lambda definition: definition["steps"][1].update(changes)


CHANGES: dict[str, Change] = {
    "a field too many": lambda definition: definition.update(colour="red"),
    "a field too few": lambda definition: definition.pop("version"),
    "no step": lambda definition: definition.update(steps=[]),
    "too many steps": lambda definition: definition.update(
        parallel=[], steps=[{**definition["steps"][0], "step_id": f"s{number}"} for number in range(51)]
    ),
    "a version of zero": lambda definition: definition.update(version=0),
    "a version in words": lambda definition: definition.update(version="first"),
    "a name that cannot be a key": lambda definition: definition.update(request_type="A/B"),
    "a step's name with a colon": step(step_id="a:b"),
    "a step twice": step(step_id="ONE"),
    "two steps with a log": lambda definition: [
        each.update(step_type="PACK", service="packs") for each in definition["steps"][:2]
    ],
    "a time of nothing": step(ack_timeout_s=0),
    "a time that is too long": step(lease_s=31 * 86400),
    "a lease that is too short": step(lease_s=14.9),
    "a cadence that is too short": step(heartbeat_cadence_s=14.9),
    "an attempt of no time": step(attempt_max_s=0),
    "no attempt": step(max_attempts=0),
    "a backoff of another cause": step(backoffs={"weather": [1]}),
    "an empty backoff": step(backoffs={"ack": []}),
    "a service that does not exist": step(service="fax"),
    "a service of another type": step(step_type="SIS"),
    "a schema without a file": step(payload_schema="steps/none.json"),
    "a schema that is not one": step(payload_schema="steps/wrong.json"),
    "a group of one": lambda definition: definition.update(parallel=[["one"]]),
    "a group with an unknown step": lambda definition: definition.update(parallel=[["one", "four"]]),
    "a group that is not adjacent": lambda definition: definition.update(parallel=[["one", "three"]]),
    "a step in two groups": lambda definition: definition.update(parallel=[["one", "two"], ["two", "three"]]),
    "a step twice in a group": lambda definition: definition.update(parallel=[["one", "one"]]),
}


def error_of_app(folder: Path, definition: Any) -> str | None:
    schemas = {f"steps/{path.name}": json.loads(path.read_text()) for path in (folder / "steps").glob("*.json")}
    try:
        build_protocol("p.json", definition, schemas, SERVICES)
    except ProtocolError as error:
        return str(error)
    return None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "ocr.schema.json").write_text((ROOT / "protocols/steps/ocr.schema.json").read_text())
    (tmp_path / "steps" / "wrong.json").write_text('{"type": "thing"}')
    return tmp_path


def linted(folder: Path, definition: Any) -> list[str]:
    (folder / "p.json").write_text(json.dumps(definition))
    return [str(finding) for finding in Linter(SERVICES).check(folder / "p.json")]


def test_what_the_app_accepts_has_no_fault(folder: Path) -> None:
    """The unchanged example and every protocol of this repository are accepted by both."""
    assert error_of_app(folder, three_steps()) is None
    assert linted(folder, three_steps()) == []
    shipped = run_main("protocol", "lint", "protocols")
    assert (shipped.returncode, shipped.stdout) == (0, "no fault found\n")


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_app_refuses_has_a_fault(folder: Path, change: str) -> None:
    """Each change that makes the app refuse the example is a fault."""
    definition = three_steps()
    CHANGES[change](definition)
    assert error_of_app(folder, definition) is not None
    assert linted(folder, definition)


def test_the_command_names_file_and_place(folder: Path) -> None:
    """A line for each fault with file and place, exit code 1; --json prints the same."""
    (folder / "a.json").write_text(json.dumps(three_steps()))
    (folder / "b.json").write_text(json.dumps({**three_steps(), "version": 0}))
    (folder / "c.json").write_text(json.dumps(three_steps()))
    (folder / "d.json").write_text("{")
    completed = run_main("protocol", "lint", str(folder))
    assert completed.returncode == 1
    lines = completed.stdout.splitlines()
    assert [line.removeprefix(f"{folder}/").split(": ")[:2] for line in lines] == [
        ["b.json", "version"],
        ["c.json", "version"],
        ["d.json", "unreadable"],
    ]
    findings = json.loads(run_main("protocol", "lint", str(folder), "--json").stdout)
    assert [(Path(each["file"]).name, each["path"]) for each in findings] == [
        ("b.json", "version"),
        ("c.json", "version"),
        ("d.json", ""),
    ]
    assert run_main("protocol", "lint", str(folder), "--topology", str(folder / "d.json")).returncode == 2
