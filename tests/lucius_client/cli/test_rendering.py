"""The output of `lucius` for texts of the API that are hostile to terminals."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lucius_client.cli.rendering import json_text, visible
from shared.apidocs.examples import by_model
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.cli.test_board import event
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.lucius_client.test_job_stream import stream

EXAMPLES = by_model()
#: title, clipboard (OSC 52), cleared screen; the same by C1; bell, backspace, return, a right-to-left override
HOSTILE = "\x1b]0;pwned\x07\x1b]52;c;cHduZWQ=\x1b\\\x1b[2J\x9b2J\x9d0;x\x9c\x08\r\x7f\u202egnp\u2066.[bold]x[/bold]"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: sequences that the client itself sends to a terminal: colours, cursor movement, line ends
OWN = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|[0-9]*A|2K)|\r")
#: fields with text of others; the client checks the form of the rest
FREE = re.compile(
    "jobId|tenant_id|request_type|current_step_id|labels|error_code|error_message|uri|actor|reason|text|detail|title|"
    "message|path|code|name|media_type|stepId|step_id|step_type|service|failed_step_id|last_error_code|redriven_by|"
    "redriven_outcome|incidentId|subject|tenant|settled_by"
)


def hostile(value: Any, name: str = "") -> Any:
    """Returns `value` with terminal commands after every free text."""
    if isinstance(value, Mapping):
        return {
            f"{key}{HOSTILE}" if name == "labels" else key: hostile(each, "labels" if name == "labels" else key)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [hostile(each, name) for each in value]
    return f"{value}{HOSTILE}" if isinstance(value, str) and FREE.fullmatch(name) else value


def failed_job() -> dict[str, Any]:
    job = samples.job("FAILED_FINAL") | {"error_code": "E", "error_message": "m", "labels": {"team": "red"}}
    artifact = {"name": "pages.json", "uri": "https://example.org/pages", "media_type": "text/plain", "size": 7}
    job["steps"][0]["result"] = {"output_ref": {"uri": "https://example.org/out"}, "artifacts": [artifact]}
    return job | {"final_output": {"uri": "https://example.org/out"}, "completed_at": job["created_at"]}


def followed_job() -> list[CannedResponse]:
    """A position, a job that runs, a progress of it, and its end."""
    job = failed_job() | {"status": "IN_PROGRESS", "completed_at": None, "event_seq": 1}
    job["steps"][0] |= {"status": "PROCESSING"}
    at_step = {"stepId": job["steps"][0]["stepId"], "attempt_no": 1}
    beat = event(2, changes={"progress": {"note": HOSTILE}}, **at_step)
    end = event(3, changes={"status": "FAILED_FINAL"}, job_to="FAILED_FINAL", **at_step)
    answers = [stream(following="p1"), CannedResponse(body=hostile(job)), stream(hostile(beat)), stream(hostile(end))]
    return [*answers, CannedResponse(body=hostile(failed_job()))]


REFUSAL = CannedResponse(400, samples.problem(400, "REQUEST_INVALID", errors=(("payload", "is wrong"),)))

COMMANDS: list[tuple[tuple[str, ...], Any, int]] = [
    (("jobs",), EXAMPLES["JobPage"], 0),
    (("job", "show", "j"), failed_job(), 0),
    (("job", "watch", "j"), followed_job(), 1),
    (("job", "events", "j"), EXAMPLES["EventPage"], 0),
    (("job", "explain", "j"), EXAMPLES["Explanation"], 0),
    (("job", "diff", "a", "b"), EXAMPLES["EventPage"], 0),
    (("job", "audit", "j"), EXAMPLES["AuditBundle"], 0),
    (("job", "receipt", "j"), EXAMPLES["Receipt"], 0),
    (("deadletters",), EXAMPLES["DeadLetterPage"], 0),
    (("incident", "show", "i"), EXAMPLES["IncidentDetail"], 0),
    (("rejected", "list"), EXAMPLES["RejectedPage"], 0),
    (("rejected", "show", "r"), EXAMPLES["RejectedMessage"], 0),
    (("job", "cancel", "j"), REFUSAL, 3),
]


def canned(body: Any) -> list[CannedResponse]:
    if isinstance(body, list):
        return body
    if isinstance(body, CannedResponse):
        return [CannedResponse(body.status, hostile(body.body))]
    return [CannedResponse(body=hostile(body))]


@pytest.mark.parametrize("output", ["table", "json", "ids"])
@pytest.mark.parametrize(("words", "body", "code"), COMMANDS, ids=[" ".join(each[0][:2]) for each in COMMANDS])
def test_no_text_of_the_api_commands_the_terminal(words: tuple[str, ...], body: Any, code: int, output: str) -> None:
    """Each command, format and error message writes no control characters but line feeds; JSON escapes them."""
    with serving(*canned(body)) as api:
        done = run_main(*words, "-o", output, api=api.url)
    assert done.returncode == code, done.stderr
    assert CONTROL.findall(done.stdout + done.stderr) == []
    if output == "json" and code != 3:
        texts = json.dumps(json.loads(done.stdout), ensure_ascii=False)
        assert words[1:2] in (("diff",), ("receipt",)) or json.dumps(HOSTILE, ensure_ascii=False)[1:-1] in texts


def test_a_job_is_shown_with_what_its_steps_made() -> None:
    """One row per artefact, and one for the result at the caller's `output_ref`."""
    with serving(CannedResponse(body=failed_job())) as api:
        done = run_main("job", "show", "j", api=api.url)
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("ocr ")]
    assert ["ocr", "pages.json", "text/plain", "7", "https://example.org/pages"] in rows
    assert ["ocr", "output", "-", "-", "https://example.org/out"] in rows


def test_a_refusal_that_is_no_problem_is_quoted_without_controls() -> None:
    """The body of a proxy's answer comes from a third party too."""
    with serving(CannedResponse(502, f"Bad gateway {HOSTILE}".encode())) as api:
        done = run_main("job", "cancel", "j", api=api.url)
    assert (done.returncode, CONTROL.findall(done.stderr)) == (3, [])
    assert "Bad gateway" in done.stderr


@pytest.mark.parametrize("words", [("job", "show", "j"), ("job", "watch", "j"), ("jobs",)])
def test_a_terminal_gets_the_programs_own_sequences_only(words: tuple[str, ...], tmp_path: Path) -> None:
    """In a terminal there are colours and a live board; nothing else than these reaches it."""
    [body] = [body for command, body, _ in COMMANDS if command == words]
    with serving(*canned(body)) as api:
        environment = {"TERM": "xterm-256color", "COLUMNS": "120", "LUCIUS_CONFIG_DIR": str(tmp_path)}
        seen = run_main(*words, api=api.url, terminal=True, **environment).stdout
    assert "FAILED_FINAL" in seen or words == ("jobs",)
    assert "\x1b[" in seen
    assert CONTROL.findall(OWN.sub("", seen)) == []


def test_words_of_all_languages_stay() -> None:
    """Tabs, line feeds, accents, joined emoji and right-to-left words are kept."""
    for text in ("a\tb\nc", "Änderung", "👩‍🔬", "שלום", "中文"):
        assert visible(text) == text
        assert json.loads(json_text([text])) == [text]
    assert json.loads(json_text([HOSTILE])) == [HOSTILE]
    assert CONTROL.findall(visible(HOSTILE) + json_text([HOSTILE])) == []
