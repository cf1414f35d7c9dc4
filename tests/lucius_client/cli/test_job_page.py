"""`lucius job show`, `explain` and `redrive`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lucius_client.cli.job_page import in_one_sentence, next_command, waiting
from shared.api.explain import explain
from shared.core.gates.admission_state import BlockReason, GateVerdict
from shared.core.gates.queue_position import QueuePosition
from shared.core.gates.rules import Gate, GateKind, Hold
from shared.core.jobs.states import JobStatus
from tests.jobs import START, body, planned
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving

NOW = START + timedelta(minutes=3)
HOLD = Hold(reason="repair; until noon", actor="user:1", at=START)
HELD = "the quota of tenant acme, which is held by user:1 since 2026-01-27T10:00:00Z (repair; until noon)"
FAILED = {"error_code": "INPUT_BROKEN", "error_message": "not a PDF", "attempts_total": 1}
ENDED = {"completed_at": "2026-01-27T10:02:05Z"}


def explained(blocked_by: BlockReason | None = None, **standing: Any) -> dict[str, Any]:
    """Returns the app's explanation of a waiting job: for the quota of a tenant; None: for its first step."""
    record = planned("job_1")
    if blocked_by is None:
        return body(explain(record, NOW))
    record = replace(record, job=replace(record.job, status=JobStatus.THROTTLED, staged_at=START))
    stopped_by = GateVerdict(gate=Gate(GateKind.TENANT, "acme"), blocked_by=blocked_by, hold=HOLD)
    found = {"waiting": None, "position": 2, "expected_at": None, **standing}
    position = QueuePosition(**found, stopped_by=stopped_by)
    return body(explain(record, NOW, standing=position))


@pytest.mark.parametrize(
    ("explanation", "text"),
    [
        (explained(BlockReason.HELD), f"{HELD}; position 2, for 3m; starts after the quota is resumed"),
        (
            explained(BlockReason.RATE, position=None, expected_at=NOW + timedelta(minutes=5)),
            "the quota of tenant acme, which has reached its rate; position unknown, for 3m; starts in 5m",
        ),
        (
            explained(BlockReason.RATE, expected_at=NOW + timedelta(seconds=2)),
            "the quota of tenant acme, which has reached its rate; position 2, for 3m; starts now",
        ),
        (explained(), "the dispatch of step ocr, for 3m, until 2026-02-03T10:00:00Z (in 6d) at the latest"),
        (
            {"waits_for": "the ACK", "since": "2026-01-27T10:02:59Z", "until": "2026-01-27T10:04:00Z"},
            "the ACK, for 1s, until 2026-01-27T10:04:00Z (in 1m) at the latest",
        ),
        (
            {"waits_for": "service:ocr", "gate": "GATED", "since": None, "until": "2026-01-27T10:04:00Z"},
            "service:ocr, checked again at 2026-01-27T10:04:00Z (in 1m)",
        ),
        ({"waits_for": None}, None),
        (None, None),
    ],
)
def test_the_reason_of_a_wait_is_one_line(explanation: dict[str, Any] | None, text: str | None) -> None:
    """Of a quota its name, its state, the position and the estimated start."""
    assert waiting(explanation, NOW) == text


def test_the_page_of_a_job_has_sections() -> None:
    """Status and why it waits, times, steps, results and the next command; a second request is for the reason."""
    job = samples.job("THROTTLED") | {"labels": {"team": "red"}}
    job["steps"][0]["result"] = {"artifacts": [{"name": "pages.json", "uri": "https://x.example/pages"}]}
    with serving(CannedResponse(body=job), CannedResponse(body=explained(BlockReason.HELD))) as api:
        done = run_main("job", "show", "job_1", api=api.url)
    head, steps, results, last = done.stdout.split("\n\n")
    facts = {label: value.strip() for label, value in (line.split("  ", 1) for line in head.splitlines())}
    assert (facts["Job"], facts["Status"], facts["Labels"]) == ("job_1", "THROTTLED", "team:red")
    assert facts["Waits for"].startswith(f"{HELD}; position 2, for ")
    assert facts["Created"].startswith("2026-01-27T10:00:00Z (")
    assert [line.split()[0] for line in steps.splitlines()][:3] == ["Steps", "step", "ocr"]
    assert results.splitlines()[2].split() == ["ocr", "pages.json", "-", "-", "https://x.example/pages"]
    assert last == "Next: lucius job watch job_1\n"
    assert [request.path for request in api.requests] == ["/v1/jobs/job_1", "/v1/jobs/job_1/explain"]


def test_an_api_that_explains_nothing_is_no_error() -> None:
    """The page comes without the reason."""
    missing = CannedResponse(404, samples.problem(404, "ROUTE_NOT_FOUND"))
    with serving(CannedResponse(body=samples.job()), missing) as api:
        done = run_main("job", "show", "job_1", api=api.url)
    assert (done.returncode, done.stderr, "Waits for" in done.stdout) == (0, "", False)


@pytest.mark.parametrize(
    ("status", "last"), [("FAILED_FINAL", "Next, after a repair of the cause"), ("CANCELLED", "Next")]
)
def test_a_redrive_of_a_failed_job_comes_after_a_repair(status: str, last: str) -> None:
    """A redrive of a damaged document fails again."""
    with serving(CannedResponse(body=samples.job(status) | ENDED)) as api:
        done = run_main("job", "show", "job_1", api=api.url)
    assert done.stdout.splitlines()[-1] == f"{last}: lucius job redrive job_1"


@pytest.mark.parametrize(
    ("status", "changes", "command"),
    [
        ("SUCCEEDED", {}, "lucius job result job_1"),
        ("FAILED_FINAL", {}, "lucius job redrive job_1"),
        ("FAILED_FINAL", {"redriven_by": "job_2"}, "lucius job show job_2"),
        ("FAILED_FINAL", {"archived_at": "2026-01-27T10:02:00Z"}, "lucius job replay job_1 --reason TEXT"),
        ("CANCELLED", {"error_code": "WITHDRAWN"}, "lucius submit DOCUMENT --protocol OCR_EMBEDDING_SIS"),
        ("PAUSED", {}, "lucius job resume job_1"),
        ("IN_PROGRESS", {}, "lucius job watch job_1"),
    ],
)
def test_the_next_command_follows_from_the_status(status: str, changes: dict[str, Any], command: str) -> None:
    assert next_command(samples.job(status) | changes) == command


def test_an_explanation_is_one_sentence() -> None:
    """`--verbose` adds the last transition, and the possible next ones."""
    text = in_one_sentence(explained(), None)
    assert text.startswith("Job job_1 is QUEUED: it waits for the dispatch of step ocr, for ")
    failed = samples.job("FAILED_FINAL") | FAILED | ENDED
    text = in_one_sentence(explained(), failed)
    assert text.startswith("Job job_1 FAILED_FINAL at 2026-01-27T10:02:05Z (")
    assert text.endswith(" after 2m 5s and 1 attempt with INPUT_BROKEN: not a PDF.")
    with serving(CannedResponse(body=explained())) as api:
        short = run_main("job", "explain", "job_1", api=api.url).stdout
        long = run_main("job", "explain", "job_1", "--verbose", api=api.url).stdout
    assert len(short.splitlines()) == 1
    assert "Possible next events" in long
    assert any(line.split() == ["cancel", "step", "CANCELLED,", "job", "CANCELLED"] for line in long.splitlines())


@pytest.mark.parametrize(("status", "code"), [("CANCELLED", 1), ("QUEUED", 0)])
def test_a_job_that_was_redriven_before_is_named(status: str, code: int) -> None:
    """The last job of the chain is named; exit code 1 if it failed too, since then nothing is under way."""
    first = samples.job("FAILED_FINAL") | {"redriven_by": "job_2"}
    second = samples.job("FAILED_FINAL", "job_2") | {"redrive_of": "job_1", "redriven_by": "job_3"}
    third = samples.job(status, "job_3")
    with serving(*(CannedResponse(body=each) for each in (first, second, third))) as api:
        done = run_main("job", "redrive", "job_1", "-o", "ids", api=api.url)
    assert (done.returncode, done.stdout) == (code, "job_2\n")
    hint = "; after a repair of the cause, run `lucius job redrive job_3`" if code else ""
    assert done.stderr == f"already redriven as job_3 ({status}){hint}\n"
    assert [request.method for request in api.requests] == ["GET", "POST", "GET"]
