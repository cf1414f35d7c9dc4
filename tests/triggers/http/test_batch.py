import asyncio
import json
from typing import Any

import pytest

from shared.errors import LedgerUnavailable, Refusal
from triggers.http.batch import LINES_AT_ONCE, MAX_LINES, lines_of, outcomes
from triggers.http.problems import MAX_BODY_BYTES


async def submit(line: bytes) -> dict[str, Any]:
    word = line.decode()
    if word == "refuse":
        raise Refusal(409, "IDEMPOTENCY_CONFLICT", "another body", errors=[("a.b", "is wrong")], jobId="job_1")
    if word == "away":
        raise LedgerUnavailable
    if word == "bug":
        raise ZeroDivisionError
    if word == "dry":
        return {"status": 200, "dryRun": {}}
    return {"status": 202, "jobId": f"job_{word}", "replayed": word == "again"}


async def test_each_line_has_its_own_outcome() -> None:
    """In the order of the lines, with their numbers, problems whole, and counts that add up."""
    lines = lines_of(b"a\n\n refuse\r\naway\nagain\nbug\ndry\n")
    told = await outcomes([(number, line.strip()) for number, line in lines], submit, "corr-1")
    assert [(result["line"], result["status"]) for result in told["results"]] == [
        (1, 202),
        (3, 409),
        (4, 503),
        (5, 202),
        (6, 500),
        (7, 200),
    ]
    problem = told["results"][1]["problem"]
    assert (problem["code"], problem["jobId"], problem["correlation_id"]) == (
        "IDEMPOTENCY_CONFLICT",
        "job_1",
        "corr-1",
    )
    assert "division" not in json.dumps(told)
    assert told["counts"] == {"lines": 6, "created": 1, "replayed": 1, "checked": 1, "refused": 1, "failed": 2}


async def test_lines_run_side_by_side_but_not_all_at_once() -> None:
    """The bound is reached and never passed."""
    running = most = 0

    async def slow(line: bytes) -> dict[str, Any]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return {"status": 202, "replayed": False}

    await outcomes([(number, b"x") for number in range(100)], slow, "corr-1")
    assert most == LINES_AT_ONCE


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "BATCH_EMPTY"),
        (b"\n \r\n", "BATCH_EMPTY"),
        (b"{}\n" * (MAX_LINES + 1), "TOO_MANY_LINES"),
        (b"x" * (MAX_BODY_BYTES + 1), "BODY_TOO_LARGE"),
    ],
)
def test_a_batch_has_bounds(body: bytes, code: str) -> None:
    """Too many lines, too many bytes, or none are refused as a whole."""
    with pytest.raises(Refusal) as refused:
        lines_of(body)
    assert refused.value.code == code


def test_the_largest_batch_is_taken() -> None:
    """The bound itself is within it."""
    assert len(lines_of(b"{}\n" * MAX_LINES)) == MAX_LINES
