"""Lines of live progress."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from lucius_client.cli.board import Board, Line
from lucius_client.models import Event


def job(status: str, step_status: str, index: int = 1, completed_at: str | None = None) -> dict[str, Any]:
    step = {"stepId": "embedding", "step_index": 1, "status": step_status, "attempt_no": 2, "max_attempts": 3}
    return {
        "status": status,
        "current_step_index": index,
        "event_seq": 1,
        "created_at": "2026-01-01T00:00:00Z",
        "completed_at": completed_at,
        "steps": [{**step, "stepId": "ocr", "step_index": 0, "status": "SUCCEEDED"}, step],
    }


def event(seq: int, *, changes: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """An event as the API sends it; `changes` are those of its step."""
    step_id = members.get("stepId")
    of_rows = {"job": {}, "steps": {step_id: changes} if step_id else {}} if changes is not None else {}
    return {
        "eventId": f"job_1:{seq}",
        "jobId": "job_1",
        "stepId": None,
        "seq": seq,
        "type": "HEARTBEAT",
        "attempt_no": None,
        "lease_digest": None,
        "from_status": None,
        "to_status": None,
        "job_from": "IN_PROGRESS",
        "job_to": "IN_PROGRESS",
        "actor": "service:ocr",
        "source": "bus",
        "reason": None,
        "at": "2026-01-01T00:00:05Z",
        "data": {"changes": of_rows} if changes is not None else None,
        "salt": "",
        "cause_id": f"m:{seq}",
        "rules": 1,
        "prev_hash": "",
        "hash": "",
        **members,
    }


def test_an_active_job_shows_its_step() -> None:
    """The line of an active job has the state of its current step."""
    line = Line.of(job("IN_PROGRESS", "FAILED_RETRY"))
    assert (line.step, line.state, line.attempt) == ("2/2 embedding", "FAILED_RETRY", "2/3")


def test_an_ended_job_shows_its_own_state_and_time() -> None:
    """The line of an ended job has the job's state and total time."""
    line = Line.of(job("CANCELLED", "CANCELLED", index=2, completed_at="2026-01-01T00:00:07Z"))
    assert (line.state, line.elapsed_s) == ("CANCELLED", 7.0)


def test_a_job_that_waits_or_stands_shows_it() -> None:
    """Its step shows only that nothing of it has begun."""
    assert [Line.of(job(status, "PENDING")).state for status in ("QUEUED", "THROTTLED", "PAUSED")] == [
        "PENDING",
        "THROTTLED",
        "PAUSED",
    ]


@pytest.mark.parametrize(
    ("reported", "shown"),
    [
        (None, ""),
        (0.4, "40%"),
        (1, "100%"),
        (True, "true"),
        (7, "7"),
        ({"page": 3}, '{"page": 3}'),
        ("x" * 99, '"' + "x" * 59 + "..."),
    ],
)
def test_a_progress_is_whatever_a_service_reports(reported: Any, shown: str) -> None:
    """A number from 0 to 1 is a share; and it is of a step that runs."""
    running = job("IN_PROGRESS", "PROCESSING")
    running["steps"][1]["progress"] = reported
    assert Line.of(running).progress == shown
    running["steps"][1]["status"] = "FAILED_RETRY"
    assert Line.of(running).progress == ""


def test_without_a_terminal_a_line_is_printed_for_every_change_only() -> None:
    """A state that has not changed prints nothing."""
    out = io.StringIO()
    with Board(Console(file=out, width=20)) as board:
        for status in ("INITIATED", "INITIATED", "PROCESSING"):
            board.show("a [odd] name.pdf", job("IN_PROGRESS", status))
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[-2] for line in lines] == ["INITIATED", "PROCESSING"]
    assert all("a [odd] name.pdf" in line for line in lines)


def test_events_move_the_line_on() -> None:
    """An event's line has its own time and step; an event that the job already includes prints nothing."""
    out = io.StringIO()
    with Board(Console(file=out, width=200)) as board:
        board.show("a", job("IN_PROGRESS", "INITIATED"))
        of_step = {"stepId": "embedding", "attempt_no": 2}
        for each in (
            event(1, changes={"status": "FAILED_FINAL"}, **of_step),
            event(2, changes={"status": "PROCESSING", "unknown": 1}, **of_step),
            event(3),
            event(4, job_to="CANCELLING", at="2026-01-01T00:00:09Z"),
        ):
            board.add("a", Event.model_validate(each))
    assert [line.strip() for line in out.getvalue().splitlines()[1:]] == [
        "5.0 s  a  step 2/2 embedding  PROCESSING  attempt 2/3",
        "9.0 s  a  step 2/2 embedding  CANCELLING  attempt 2/3",
    ]


def test_a_terminal_of_80_columns_has_a_line_for_each_job() -> None:
    """With its id as a whole; a longer name of a document is shortened."""
    board = Board(Console(file=io.StringIO(), width=80))
    labels = (f"job_{'a' * 32}", "a document with a very long name.pdf" * 2)
    for label in labels:
        board.show(label, job("IN_PROGRESS", "PROCESSING"))
    header, first, second = board._table().plain.splitlines()
    assert all(len(line) <= 80 for line in (header, first, second))
    assert first.split()[:4] == [labels[0], "2/2", "embedding", "PROCESSING"]
    assert re.match(r"a document with a very long name\.pdf.*…  2/2 embedding  PROCESSING", second)
