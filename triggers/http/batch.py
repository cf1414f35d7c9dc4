"""`POST /v1/orchestrate` with `application/x-ndjson`: many jobs, each line its own outcome (FEATURES A12)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import azure.functions as func

from shared.errors import Refusal
from triggers.http.problems import MAX_BODY_BYTES, problem_of

MEDIA_TYPE = "application/x-ndjson"
MAX_LINES = 1000
#: each line costs a handful of writes; more at once would only wait for the tables
LINES_AT_ONCE = 16

#: one line's answer; raises what a request of its own would raise
Submit = Callable[[bytes], Awaitable[dict[str, Any]]]


def is_batch(req: func.HttpRequest) -> bool:
    return req.headers.get("Content-Type", "").split(";")[0].strip().lower() == MEDIA_TYPE


def lines_of(body: bytes) -> list[tuple[int, bytes]]:
    """The lines that are not blank, with their numbers from 1. Raises Refusal (400, 413)."""
    if len(body) > MAX_BODY_BYTES:
        raise Refusal(413, "BODY_TOO_LARGE", f"the body has {len(body)} bytes; at most {MAX_BODY_BYTES} are taken")
    found = [(number, line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
    if len(found) > MAX_LINES:
        raise Refusal(413, "TOO_MANY_LINES", f"the body has {len(found)} lines; at most {MAX_LINES} are taken")
    if not found:
        raise Refusal(400, "BATCH_EMPTY", "the body has no line; send one envelope a line")
    return found


async def outcomes(lines: list[tuple[int, bytes]], submit: Submit, correlation_id: str) -> dict[str, Any]:
    """`{"results", "counts"}`, in the order of the lines; no line's failure touches another's."""
    semaphore = asyncio.Semaphore(LINES_AT_ONCE)

    async def one(number: int, line: bytes) -> dict[str, Any]:
        async with semaphore:
            try:
                return {"line": number, **await submit(line)}
            except Exception as error:
                answer = problem_of(error, correlation_id)
                return {"line": number, "status": answer.status_code, "problem": json.loads(answer.get_body())}

    results = await asyncio.gather(*(one(number, line) for number, line in lines))
    counts = Counter(_kind(result) for result in results)
    kinds = ("created", "replayed", "checked", "refused", "failed")
    return {"results": results, "counts": {"lines": len(results), **{kind: counts[kind] for kind in kinds}}}


def _kind(result: dict[str, Any]) -> str:
    if "problem" in result:
        # a 5xx may go through when it is sent again, a 4xx will not
        return "failed" if result["status"] >= 500 else "refused"
    if "dryRun" in result:
        return "checked"
    return "replayed" if result["replayed"] else "created"
