"""`lucius protocol diff`: breaks for callers, changed steps, and the worst case of a job."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from lucius_client.cli.protocol_diff import DEFAULTS, compare, read_definition, worst_case
from lucius_client.cli.schema_breaks import schema_breaks
from shared.core.registry import build_protocol
from tests.jobs import DEFAULTS as DEFAULTS_OF_APP
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.cli.test_lint import SERVICES
from tests.running_stack import ROOT

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["pages"],
    "properties": {
        "pages": {"type": "integer", "minimum": 1, "maximum": 100},
        "language": {"enum": ["de", "en"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}},
        "model": {"type": ["string", "null"], "pattern": "^m"},
    },
}


def changed(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    schema = json.loads(json.dumps(SCHEMA))
    change(schema)
    return schema


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda s: s["properties"]["pages"].update(minimum=0, maximum=200, description="of the document"), None),
        (lambda s: s["properties"].update(colour={"type": "string"}), None),
        (lambda s: s["properties"]["pages"].update(type="number"), None),
        (lambda s: s["properties"]["model"].pop("pattern"), None),
        (lambda s: s.update(required=[], additionalProperties=True), None),
        (lambda s: s["properties"]["language"]["enum"].append("fr"), None),
        (lambda s: s["properties"]["pages"].update(minimum=2), "p.pages: minimum 1 -> 2"),
        (lambda s: s["properties"]["pages"].update(maximum=50), "p.pages: maximum 100 -> 50"),
        (lambda s: s["properties"]["language"]["enum"].remove("de"), "p.language: 'de' is no longer accepted"),
        (lambda s: s["properties"]["model"].update(type="string"), "p.model: type null is no longer accepted"),
        (
            lambda s: s["properties"]["model"].update(pattern="^n"),
            "p.model: pattern changed; compare the old and the new value",
        ),
        (lambda s: s["properties"]["tags"]["items"].update(maxLength=4), "p.tags[]: maxLength 8 -> 4"),
        (lambda s: s["properties"].pop("tags"), "p.tags: is no longer accepted"),
        (lambda s: s["required"].append("language"), "p.language: is required"),
        (lambda s: s["properties"]["model"].update(const="m1"), "p.model: other values are no longer accepted"),
    ],
)
def test_schema_breaks(change: Callable[[dict[str, Any]], Any], broken: str | None) -> None:
    """A narrower schema is a break, a wider one is not; a pattern cannot be compared."""
    after = changed(change)
    assert list(schema_breaks(SCHEMA, after, "p")) == ([broken] if broken else [])
    if broken and "compare the old" not in broken:
        assert list(schema_breaks(after, SCHEMA, "p")) == []


def test_the_defaults_are_those_of_the_app() -> None:
    """The worst case is computed with the timings that a plan gets from the settings."""
    assert json.loads(json.dumps(asdict(DEFAULTS_OF_APP))) == DEFAULTS


def test_the_worst_case() -> None:
    """Attempts with their waits; the steps of a group count once; a cap ends both a step and the job."""
    step = {"ack_timeout_s": 10, "attempt_max_s": 100, "max_attempts": 2, "backoffs": {"dispatch": [10], "ack": [20]}}
    step["backoffs"]["execution"] = [30, 40]
    steps = [{**step, "step_id": name} for name in ("a", "b", "c")]
    one = 2 * (11 + 10 + 100) + 1.1 * 30
    plain = {"protocol_id": "p", "version": 1, "request_type": "P", "steps": steps}
    assert worst_case(plain) == worst_case({**plain, "parallel": []})
    assert (worst_case(plain).attempts, worst_case(plain).duration_s) == (6, pytest.approx(3 * one))
    assert worst_case({**plain, "parallel": [["b", "c"]]}).duration_s == pytest.approx(2 * one)
    capped = {**plain, "steps": [{**each, "total_timeout_s": 50} for each in steps]}
    assert worst_case(capped).duration_s == 150
    assert worst_case({**capped, "total_timeout_s": 70}).duration_s == 70


def test_other_steps_under_the_same_version_are_a_break() -> None:
    """The app refuses them, as this does; under a higher version the same change is none. Timings may change."""
    old = dict(read_definition(ROOT / "protocols" / "ocr_embedding_sis.json"))
    first, *others = old["steps"]
    same = [{"description": "words"}, {"steps": [{**first, "max_attempts": 5}, *others]}, {"total_timeout_s": 60}]
    other = [{"steps": [*others, first]}, {"parallel": [["ocr", "embedding"]]}]
    other += [{"steps": [{**first, "payload_schema": {"type": "object", "maxProperties": 9}}, *others]}]
    for change in (*same, *other):
        new = {**old, **change}
        broken = [each for each in compare(old, new).breaks if "raise `version`" in each]
        assert bool(broken) == (change in other) == (_in_app(new) != _in_app(old))
        assert not [each for each in compare(old, {**new, "version": 2}).breaks if "raise `version`" in each]
    changed = compare(old, {**old, **same[1]}).steps_changed
    assert {name: list(map(str, each)) for name, each in changed.items()} == {"ocr": ["max_attempts default -> 5"]}


def _in_app(definition: Any) -> str:
    """The digest by which the app compares the steps of two definitions."""
    schemas = {f"{step['step_id']}.json": step["payload_schema"] for step in definition["steps"]}
    steps = [{**step, "payload_schema": f"{step['step_id']}.json"} for step in definition["steps"]]
    return build_protocol("p.json", {**definition, "steps": steps}, schemas, SERVICES).work_digest


def test_the_command(tmp_path: Path) -> None:
    """Steps and breaks as text and as JSON, exit code 1; the same file twice has no break and exit code 0."""
    shipped = "protocols/ocr_embedding.json"
    same = run_main("protocol", "diff", shipped, shipped)
    assert (same.returncode, same.stdout.splitlines()[0]) == (0, "ocr_embedding version 1 -> 1")
    definition = json.loads((ROOT / shipped).read_text())
    definition.update(version=2, steps=definition["steps"][:1])
    definition["steps"][0].pop("payload_schema", None)
    (tmp_path / "new.json").write_text(json.dumps(definition))
    broken = run_main("protocol", "diff", shipped, str(tmp_path / "new.json"))
    assert broken.returncode == 1
    assert "BREAKS  step embedding is removed: remove the key embedding from payloads" in broken.stdout
    assert "worst   attempts 6 -> 3" in broken.stdout
    plain = json.loads(run_main("protocol", "diff", shipped, str(tmp_path / "new.json"), "-o", "json").stdout)
    assert (plain["steps_removed"], plain["new_worst"]["attempts"]) == (["embedding"], 3)
    (tmp_path / "bad.json").write_text("{}")
    bad = run_main("protocol", "diff", shipped, str(tmp_path / "bad.json"))
    assert (bad.returncode, len(bad.stderr.splitlines())) == (2, 1)
