"""Envelopes of `lucius submit`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lucius_client.cli.envelope import envelope, payload_for
from lucius_client.cli.exits import UsageError

OCR = {"request_type": "OCR", "steps": [{"step_id": "ocr", "step_type": "OCR"}]}
ALL = {
    "request_type": "OCR_SIS",
    "steps": [{"step_id": "ocr", "step_type": "OCR"}, {"step_id": "ask", "step_type": "SIS"}],
}


def test_questions_go_to_the_sis_step() -> None:
    """--ask is the prompt set of the step of type SIS, with any id; other steps get an empty payload."""
    assert payload_for(ALL, None, ["Who?"]) == {"ocr": {}, "ask": {"prompt_set": ["Who?"]}}


def test_questions_join_a_payload() -> None:
    """--ask is added to the --payload of the same step."""
    text = '{"ask": {"top_k": 2}, "ocr": {"dpi": 200}}'
    assert payload_for(ALL, text, ["Who?"]) == {"ocr": {"dpi": 200}, "ask": {"top_k": 2, "prompt_set": ["Who?"]}}


def test_a_one_step_payload_may_be_flat() -> None:
    """In a protocol of one step the key of the step may be left out."""
    assert payload_for(OCR, '{"dpi": 200}', []) == payload_for(OCR, '{"ocr": {"dpi": 200}}', [])


def test_a_payload_is_read_from_a_file(tmp_path: Path) -> None:
    """@FILE names a file with the JSON."""
    (tmp_path / "p.json").write_text(json.dumps({"ocr": {"dpi": 100}}))
    assert payload_for(OCR, f"@{tmp_path / 'p.json'}", []) == {"ocr": {"dpi": 100}}


@pytest.mark.parametrize(
    ("protocol", "text", "questions", "message"),
    [
        (OCR, None, ["Who?"], "OCR has no SIS step"),
        (OCR, "{", [], "--payload is not JSON"),
        (OCR, "[]", [], "must be a JSON object"),
        (OCR, "@/nowhere/p.json", [], "/nowhere/p.json"),
        (ALL, '{"ask": []}', ["Who?"], "ask must be a JSON object"),
    ],
)
def test_wrong_options_are_refused(protocol: dict, text: str | None, questions: list[str], message: str) -> None:
    """A wrong option is an error of one line that names the option."""
    with pytest.raises(UsageError, match=message) as caught:
        payload_for(protocol, text, questions)
    assert "\n" not in str(caught.value)


def test_without_a_key_the_body_is_the_key() -> None:
    """Without --again the idempotency key is null, so that equal requests are one job."""
    assert envelope("t", OCR, "http://i", "http://o", {}, None)["idempotency_key"] is None
    assert envelope("t", OCR, "http://i", "http://o", {}, "k")["idempotency_key"] == "k"
