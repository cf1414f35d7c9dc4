"""Lines of live progress."""

from __future__ import annotations

import io

from rich.console import Console

from lucius_client.cli.board import Board, Line


def job(status: str, step_status: str, index: int = 1, completed_at: str | None = None) -> dict:
    step = {"stepId": "embedding", "step_index": 1, "status": step_status, "attempt_no": 2, "max_attempts": 3}
    return {
        "status": status,
        "current_step_index": index,
        "created_at": "2026-01-01T00:00:00Z",
        "completed_at": completed_at,
        "steps": [{**step, "stepId": "ocr", "step_index": 0, "status": "SUCCEEDED"}, step],
    }


def test_an_active_job_shows_its_step() -> None:
    """The line of an active job has the state of its current step."""
    line = Line.of(job("IN_PROGRESS", "FAILED_RETRY"))
    assert (line.step, line.state, line.attempt) == ("2/2 embedding", "FAILED_RETRY", "2/3")


def test_an_ended_job_shows_its_own_state_and_time() -> None:
    """The line of an ended job has the job's state and total time."""
    line = Line.of(job("CANCELLED", "CANCELLED", index=2, completed_at="2026-01-01T00:00:07Z"))
    assert (line.state, line.elapsed_s) == ("CANCELLED", 7.0)


def test_without_a_terminal_a_line_is_printed_for_every_change_only() -> None:
    """A state that has not changed prints nothing."""
    out = io.StringIO()
    with Board(Console(file=out, width=20)) as board:
        for status in ("INITIATED", "INITIATED", "PROCESSING"):
            board.show("a [odd] name.pdf", job("IN_PROGRESS", status))
    lines = out.getvalue().splitlines()
    assert [line.split("  ")[-2] for line in lines] == ["INITIATED", "PROCESSING"]
    assert all("a [odd] name.pdf" in line for line in lines)
