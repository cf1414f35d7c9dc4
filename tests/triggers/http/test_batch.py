import asyncio
from datetime import UTC, datetime

import pytest

from shared.api.job import job_links
from shared.api.job_requests import Accepted, DryIdempotency, DryQuota, DryRoute, DryRun
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerUnavailable
from shared.refusals import IdempotencyConflict, RequestInvalid
from tests.jobs import body
from triggers.http.batch import LINES_AT_ONCE, MAX_LINES, lines_of, submit_lines
from triggers.http.problems import RequestError

DRY_RUN = DryRun(
    dryRun=True,
    tenant="tenant_a",
    protocol_id="ocr",
    protocol_version=1,
    route=DryRoute(
        lane=1, topic="global-bus-p1", routing_key_used="k", resolved_mode="DEFAULT", decision_source="REQUEST"
    ),
    idempotency=DryIdempotency(claim="c", verdict="NEW"),
    quota=DryQuota(verdict="ADMITTED", limit=None, tenant_limit=None, tenant_active=None),
    directives=[],
)


def accepted(job_id: str) -> Accepted:
    return Accepted(
        jobId=job_id, status=JobStatus.QUEUED, links=job_links(job_id), created_at=datetime(2026, 1, 27, tzinfo=UTC)
    )


async def submit(line: bytes) -> tuple[Accepted, bool] | DryRun:
    word = line.decode()
    if word == "refuse":
        raise IdempotencyConflict("job_1")
    if word == "invalid":
        raise RequestInvalid([("a.b", "is wrong")])
    if word == "away":
        raise LedgerUnavailable
    if word == "bug":
        raise ZeroDivisionError
    if word == "dry":
        return DRY_RUN
    return accepted(f"job_{word}"), word == "again"


async def test_each_line_has_its_own_outcome() -> None:
    """In the order of the lines, with their numbers, complete problems, and correct counts."""
    lines = lines_of(b"a\n\n refuse\r\naway\nagain\nbug\ndry\ninvalid\n")
    outcome = await submit_lines([(number, line.strip()) for number, line in lines], submit, "corr-1")
    assert [(result.line, result.status) for result in outcome.results] == [
        (1, 202),
        (3, 409),
        (4, 503),
        (5, 202),
        (6, 500),
        (7, 200),
        (8, 400),
    ]
    sent = body(outcome)
    problem = sent["results"][1]["problem"]
    assert (problem["code"], problem["jobId"], problem["correlation_id"]) == (
        "IDEMPOTENCY_CONFLICT",
        "job_1",
        "corr-1",
    )
    assert sent["results"][6]["problem"]["errors"] == [{"path": "a.b", "message": "is wrong"}]
    assert "division" not in str(sent)
    assert sent["counts"] == {"lines": 7, "created": 1, "replayed": 1, "checked": 1, "refused": 2, "failed": 2}


async def test_a_line_has_the_members_of_its_outcome_only() -> None:
    """A job, a dry run or a problem: no member of another kind of outcome is sent, not even as null."""
    outcome = await submit_lines(lines_of(b"a\ndry\naway"), submit, "corr-1")
    created, checked, failed = body(outcome)["results"]
    assert created.keys() == {"line", "status", "jobId", "links", "replayed"}
    assert checked.keys() == {"line", "status", "dryRun"}
    assert checked["dryRun"]["idempotency"] == {"claim": "c", "verdict": "NEW"}
    assert failed.keys() == {"line", "status", "problem"}
    assert failed["problem"].keys() == {"type", "title", "status", "code", "detail", "errors", "correlation_id"}


async def test_lines_run_side_by_side_but_not_all_at_once() -> None:
    """The bound is reached and never passed."""
    running = most = 0

    async def slow(line: bytes) -> tuple[Accepted, bool]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return accepted("job_1"), False

    await submit_lines([(number, b"x") for number in range(1, 101)], slow, "corr-1")
    assert most == LINES_AT_ONCE


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 400, "BATCH_EMPTY"),
        (b"\n \r\n", 400, "BATCH_EMPTY"),
        (b"{}\n" * (MAX_LINES + 1), 413, "TOO_MANY_LINES"),
    ],
)
def test_a_batch_has_bounds(content: bytes, status: int, code: str) -> None:
    """Too many lines or none are refused as a whole."""
    with pytest.raises(RequestError) as refused:
        lines_of(content)
    assert (refused.value.status, refused.value.code) == (status, code)


def test_the_largest_batch_is_taken() -> None:
    """The bound itself is within it."""
    assert len(lines_of(b"{}\n" * MAX_LINES)) == MAX_LINES
