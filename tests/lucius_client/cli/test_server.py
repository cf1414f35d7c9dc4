"""`lucius version`, and the form of an error."""

from __future__ import annotations

import json

import pytest

from emulator.up.ports import find_free
from lucius_client.cli.exits import problem_text
from shared.apidocs.examples import by_model
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving

BUILD = {"version": "9.9.0", "commit": None, "envelope": "1.x", "region": "a field of a later version"}


def test_both_versions_are_shown() -> None:
    """Also those of an API of another version, and of a client without an API."""
    with serving(CannedResponse(body={"status": "live", "build": BUILD})) as api:
        shown, found = run_main("version", api=api.url), run_main("version", "--json", api=api.url)
    client = run_main("--version").stdout.split()[1]
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["client", client],
        ["server", "9.9.0", "commit", "-", api.url],
    ]
    assert json.loads(found.stdout) == {"client": {"version": client}, "server": BUILD}
    alone = run_main("version", api=f"http://127.0.0.1:{find_free()}")
    assert (alone.returncode, alone.stdout.split()) == (4, ["client", client])


def test_health_warns_of_values_without_effect() -> None:
    """An app with invalid protocols or old settings is ready, and its operator must know of them."""
    ready = {
        **by_model()["Ready"],
        "settings_not_read": [{"name": "LUCIUS_JOBS_TABLE", "instead": "LUCIUS_LEDGER_TABLE"}],
    }
    ready["protocols"] = {**ready["protocols"], "problems": ["lucius:protocols:ocr: steps are missing"]}
    with serving(CannedResponse(body={"status": "live", "build": BUILD}), CannedResponse(body=ready)) as api:
        done = run_main("health", api=api.url)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "warning: protocols: lucius:protocols:ocr: steps are missing",
        "warning: LUCIUS_JOBS_TABLE has no effect; replacement: LUCIUS_LEDGER_TABLE",
    ]


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ({"code": "JOB_NOT_FOUND", "detail": "job not found: nope"}, "job not found: nope (JOB_NOT_FOUND)"),
        (
            {"code": "HOOK_NOT_FOUND", "detail": "there is no webhook of yours: a b"},
            "there is no webhook of yours: a b (HOOK_NOT_FOUND)",
        ),
        (
            {
                "code": "STATUS_INVALID",
                "detail": "DONE is wrong",
                "errors": [{"path": "status", "message": "DONE is wrong"}],
            },
            "DONE is wrong (STATUS_INVALID)",
        ),
        (
            {"code": "X", "detail": "wrong", "errors": [{"path": "payload.dpi", "message": "must be a number"}]},
            "wrong (X)\n  payload.dpi: must be a number",
        ),
    ],
)
def test_an_error_has_its_code_at_the_end(problem: dict[str, object], text: str) -> None:
    """Each invalid field of the request has a line, unless the first line has the same text."""
    assert problem_text(problem) == text


def test_an_unknown_protocol_is_named_with_the_nearest() -> None:
    """In any case of letters; a name that is near to none is followed by all."""
    protocol = {"protocol_id": "ocr", "version": 1, "request_type": "OCR", "steps": [], "digest": "0"}
    missing = CannedResponse(404, samples.problem(404, "PROTOCOL_NOT_FOUND"))
    known = CannedResponse(body={"protocols": [protocol], "next": None})
    for name, code, text in (("OCRR", 3, "did you mean OCR?"), ("x", 3, "known: OCR"), ("ocr", 0, "")):
        with serving(missing, known) as api:
            done = run_main("protocol", "show", name, api=api.url)
        line = f"lucius: unknown protocol {name}; {text} (PROTOCOL_NOT_FOUND)\n" if text else ""
        assert (done.returncode, done.stderr) == (code, line)
