"""`POST /v1/orchestrate` with `application/x-ndjson`: many jobs, with a result for each line."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from shared.api.job_requests import Accepted, BatchCounts, BatchOutcome, DryRun, LineOutcome
from shared.api.response import Problem
from shared.apidocs.problem_codes import ProblemCode
from triggers.http.problems import RequestError, problem_body

MEDIA_TYPE = "application/x-ndjson"
MAX_LINES = 1000
#: maximum concurrent lines: each costs a few writes, and more would only wait for the tables
LINES_AT_ONCE = 16

#: type of the function that submits one line like a single request; returns the response and whether the job existed,
#: raises the same errors
Submit = Callable[[bytes], Awaitable[tuple[Accepted, bool] | DryRun]]


def lines_of(body: bytes) -> list[tuple[int, bytes]]:
    """Returns the lines that are not blank, with their numbers from 1. Raises RequestError (400, 413)."""
    found = [(number, line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    if len(found) > MAX_LINES:
        detail = f"the body has {len(found)} lines, maximum {MAX_LINES}; split the body"
        raise RequestError(ProblemCode.TOO_MANY_LINES, detail)
    if not found:
        raise RequestError(ProblemCode.BATCH_EMPTY, "the body has no job request; send one job request per line")
    return found


async def submit_lines(lines: list[tuple[int, bytes]], submit: Submit, correlation_id: str) -> BatchOutcome:
    """Submits the lines and returns their results in order. A failure of one line does not affect other lines."""
    semaphore = asyncio.Semaphore(LINES_AT_ONCE)

    async def one(number: int, line: bytes) -> LineOutcome:
        async with semaphore:
            try:
                outcome = await submit(line)
            except Exception as error:
                problem = Problem.model_validate(problem_body(error, correlation_id))
                return LineOutcome(line=number, status=problem.status, problem=problem)
        if isinstance(outcome, DryRun):
            return LineOutcome(line=number, status=200, dryRun=outcome)
        accepted, replayed = outcome
        return LineOutcome(line=number, status=202, jobId=accepted.jobId, links=accepted.links, replayed=replayed)

    results = await asyncio.gather(*(one(number, line) for number, line in lines))
    counts = Counter(_kind(result) for result in results)
    return BatchOutcome(
        results=results,
        counts=BatchCounts(
            lines=len(results),
            created=counts["created"],
            replayed=counts["replayed"],
            checked=counts["checked"],
            refused=counts["refused"],
            failed=counts["failed"],
        ),
    )


def _kind(result: LineOutcome) -> str:
    if result.problem is not None:
        # sending the line again may help after a 5xx, and not after a 4xx
        return "failed" if result.status >= 500 else "refused"
    if result.dryRun is not None:
        return "checked"
    return "replayed" if result.replayed else "created"
