"""Errors about a wrong protocol or payload, and their number."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.core.registry import Protocol, Registry, build_protocol
from shared.errors import ProtocolError
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS
from tests.jobs import registry


@pytest.fixture
def sis() -> Protocol:
    protocol = registry().find("SIS")
    assert protocol is not None
    return protocol


def test_too_many_items_are_one_error(sis: Protocol) -> None:
    """None of them is validated."""
    [(path, message)] = sis.payload_errors({"sis": {"prompt_set": [1] * 100_000}})
    assert (path, message) == ("payload.sis.prompt_set", "does not fit maxItems 100 of the step's schema")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, "null"), ([], "array"), ("a", "string"), (1, "number"), (1.5, "number"), (True, "boolean")],
)
def test_an_error_names_the_json_type(value: Any, expected: str) -> None:
    protocol = registry().find("OCR_EMBEDDING")
    assert protocol is not None
    assert ("payload.ocr", f"must be an object, not {expected}") in protocol.payload_errors({"ocr": value})


def test_errors_are_looked_for_up_to_the_bound(sis: Protocol) -> None:
    """One more than are shown, so that it is known that there are more."""
    assert len(sis.payload_errors({"sis": {"prompt_set": [1] * 30}})) == 30
    assert len(sis.payload_errors({"sis": {"prompt_set": [1] * 100}})) == MAX_REQUEST_ERRORS + 1
    protocol = registry().find("OCR_EMBEDDING")
    assert protocol is not None
    assert len(protocol.payload_errors({str(number): 1 for number in range(100_000)})) == MAX_REQUEST_ERRORS + 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt_set": ["q" * 100_000]},
        {"prompt_set": [{"prompt": "q", "id": "i" * 100_000}]},
        {"prompt_set": ["q"], "top_k": 10**4000},
        {"prompt_set": ["q"], "top_k": "v" * 100_000},
        {"prompt_set": ["q"], **{f"v{number}": 1 for number in range(1000)}},
    ],
)
def test_a_message_repeats_no_long_value(sis: Protocol, wrong: dict[str, Any]) -> None:
    """It names the keyword that refused it."""
    found = sis.payload_errors({"sis": wrong})
    assert found
    assert all(len(message) <= MAX_REQUEST_ERROR for _, message in found)
    assert "vvv" not in json.dumps(found)


@pytest.mark.parametrize("name", ["lease_s", "heartbeat_cadence_s"])
def test_a_lease_that_would_busy_everybody_is_refused(name: str) -> None:
    """Each that runs out is a timer, an activity and rows; the message names the place and the bound."""
    definition = {
        "protocol_id": "ocr",
        "version": 1,
        "request_type": "OCR",
    }
    step = {"step_id": "ocr", "step_type": "OCR", "service": "ocr"}
    build_protocol("ocr.json", definition | {"steps": [step | {name: 15}]}, {}, {"ocr": "OCR"})
    with pytest.raises(ProtocolError, match=rf"ocr.json: steps.0.{name}: .*greater than or equal to 15"):
        build_protocol("ocr.json", definition | {"steps": [step | {name: 14.999}]}, {}, {"ocr": "OCR"})


def version(number: int, **changes: Any) -> Protocol:
    definition = {
        "protocol_id": "ocr",
        "version": number,
        "request_type": "OCR",
        "steps": [{"step_id": "ocr", "step_type": "OCR", "service": "ocr"}],
    }
    return build_protocol("ocr.json", definition | changes, {}, {"ocr": "OCR"})


def test_a_ramp_takes_its_share_and_keeps_it() -> None:
    """About a tenth follow the new version, the same ones each time; a ramp that rises keeps those that it has."""
    requests = [f"{number:064x}" for number in range(2000)]
    taken: list[set[str]] = []
    for percent in (10, 30):
        known = Registry([version(1), version(2, ramp_percent=percent)])
        chosen = {each: known.select("OCR", each) for each in requests}
        assert chosen == {each: known.select("OCR", each) for each in requests}
        taken.append({each for each, protocol in chosen.items() if protocol is known.versions("OCR")[0]})
    assert 140 < len(taken[0]) < 260
    assert 500 < len(taken[1]) < 700
    assert taken[0] < taken[1]


@pytest.mark.parametrize(("percent", "expected"), [(0, 1), (100, 2), (None, 2)])
def test_the_ends_of_a_ramp(percent: float | None, expected: int) -> None:
    """No job at 0, every job at 100 and without a ramp; a lower version stays loaded."""
    known = Registry([version(2, ramp_percent=percent), version(1)])
    assert {found.key[1] for n in range(50) if (found := known.select("OCR", str(n)))} == {expected}
    assert [each.key[1] for each in known.versions("OCR")] == [2, 1]
    assert [each.key[1] for each in known] == [1 if percent is not None else 2]


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ([version(1), version(1)], "two protocols"),
        ([version(1), version(2, protocol_id="other")], "two protocols"),
        ([version(1, ramp_percent=10)], "ramp_percent"),
        ([version(1, ramp_percent=10), version(2)], "ramp_percent"),
        ([version(1), version(2, ramp_percent=1), version(3, ramp_percent=1)], "ramp_percent"),
    ],
)
def test_versions_that_no_registry_takes(versions: list[Protocol], message: str) -> None:
    """Each version is there once, of one protocol, and a ramp has a version for the other jobs."""
    with pytest.raises(ProtocolError, match=message):
        Registry(versions)


def test_the_work_of_a_version() -> None:
    """Steps, groups and rules of schemas are of it; timings, words and the ramp are not. The digest lacks the ramp."""
    step = {"step_id": "ocr", "step_type": "OCR", "service": "ocr"}
    one = version(1)
    assert (one.digest, one.work_digest) == (version(1, ramp_percent=5).digest, version(1, ramp_percent=5).work_digest)
    for same in ({"description": "words"}, {"total_timeout_s": 5}, {"steps": [step | {"max_attempts": 9}]}):
        assert version(1, **same).work_digest == one.work_digest
    two = [step, step | {"step_id": "again"}]
    others = [{"steps": [step | {"step_id": "text"}]}, {"steps": two}, {"steps": two, "parallel": [["ocr", "again"]]}]
    assert len({one.work_digest, *(version(1, **other).work_digest for other in others)}) == 4


def test_words_of_a_schema_are_no_rules() -> None:
    """A title may change within a version, a property of that name may not."""
    step = {"step_id": "ocr", "step_type": "OCR", "service": "ocr", "payload_schema": "s.json"}
    whole = {"protocol_id": "ocr", "version": 1, "request_type": "OCR", "steps": [step]}

    def digest_with(schema: dict[str, Any]) -> str:
        return build_protocol("ocr.json", whole, {"s.json": schema}, {"ocr": "OCR"}).work_digest

    titled = {"title": "a", "properties": {"x": {"description": "b", "type": "string"}}}
    assert digest_with(titled) == digest_with({"properties": {"x": {"type": "string"}}})
    assert digest_with({"properties": {"title": {"type": "string"}}}) != digest_with({"properties": {}})


def test_a_job_has_one_log() -> None:
    """So a protocol has at most one step of type PACK; the shipped one bounds the cadence of its heartbeats."""
    step = {"step_type": "PACK", "service": "packs"}
    definition = {"protocol_id": "two", "version": 1, "request_type": "TWO"}
    steps = [{"step_id": "a", **step}, {"step_id": "b", **step}]
    with pytest.raises(ProtocolError, match="at most one step can have the step_type PACK"):
        build_protocol("two.json", {**definition, "steps": steps}, {}, {"packs": "PACK"})
    protocol = registry().find("PACK_RUN")
    assert protocol is not None
    named = {"packId": "test", "packVersion": "1.0.0", "planHash": f"sha256:{'0' * 64}"}
    assert protocol.payload_errors(named) == []
    for wrong in ({"heartbeatCadence": 14}, {"heartbeatCadence": 301}, {"planHash": "sha256:0"}, {"packId": "../x"}):
        assert len(protocol.payload_errors(named | wrong)) == 1
