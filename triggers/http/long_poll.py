"""Long polls for a job (R82). A response is delayed until the job changes, is admitted or has ended, at most 20
seconds.

`GET /v1/jobs/{jobId}` accepts `wait` and `until`. `POST /v1/orchestrate` accepts `Prefer: wait=N` (RFC 7240).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from urllib.request import parse_http_list

import azure.functions as func

from shared import telemetry
from shared.access.caller import Caller
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import in_header, in_query
from shared.core.jobs.job import Record
from shared.errors import excerpt
from shared.operations.process.context import Context
from shared.operations.process.waiters import LastEvent, Tail, Waiters
from shared.ports.ledger import Stored
from shared.refusals import JobNotFound
from triggers.http.problems import RequestError

#: maximum wait in seconds: shorter than timeouts of proxies and load balancers (230 s in Azure), so that a shutdown
#: need not wait long
MAX_WAIT_S = 20

WAIT = in_query(
    "wait",
    {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S},
    "Long poll. Maximum seconds to wait for the event in `until` before the response. Default 0, maximum "
    f"{MAX_WAIT_S}. No effect with `asOf`.",
)


class Until(StrEnum):
    """The event that ends a wait."""

    #: the job differs from the ETag of the request
    CHANGED = "changed"
    #: the job does not wait for its quotas or for other jobs
    ADMITTED = "admitted"
    #: the job is in a terminal state
    ENDED = "ended"


UNTIL = in_query(
    "until",
    {"enum": [each.value for each in Until], "default": Until.CHANGED.value},
    "Event that ends the `wait`. `changed`: the job differs from `If-None-Match`. `admitted`: the job no longer waits "
    "for quotas or for other jobs. `ended`: the job is in a terminal state.\n\nOnly `changed` needs `If-None-Match`: "
    "without this header, a wait for `changed` ends immediately. `until` has no effect without `wait`.",
)

PREFER = in_header(
    "Prefer",
    {"type": "string", "examples": [f"wait={MAX_WAIT_S}"]},
    f"`wait=N` (RFC 7240): wait up to N seconds, at most {MAX_WAIT_S}, until the job has ended. The API ignores other "
    "preferences and invalid values. The API also ignores the header for an NDJSON body or a dry run.",
)


def until_of(req: func.HttpRequest) -> Until:
    """Returns the event that ends the wait. Raises RequestError (400)."""
    given = req.params.get("until", Until.CHANGED)
    try:
        return Until(given)
    except ValueError:
        detail = f"until must be one of {', '.join(Until)}, not {excerpt(given)}"
        raise RequestError(ProblemCode.WAIT_INVALID, detail) from None


def preferred_wait_of(req: func.HttpRequest) -> int | None:
    """Returns the seconds of `Prefer: wait=N`, at most `MAX_WAIT_S`, or None if the preference is missing or invalid.

    If a request repeats the preference `wait`, the first one is in effect (RFC 7240 2).
    """
    for preference in parse_http_list(req.headers.get("Prefer", "")):
        name, _, value = preference.partition(";")[0].partition("=")
        if name.strip().lower() == "wait":
            digits = value.strip()
            if not (digits.isascii() and digits.isdecimal()):
                return None
            # Python cannot parse a number with more than 4,300 digits
            return min(int(digits.lstrip("0")[:3] or "0"), MAX_WAIT_S)
    return None


def wait_of(req: func.HttpRequest) -> int:
    """Returns the seconds of `wait`. Returns 0 without the parameter. Raises RequestError (400)."""
    given = req.params.get("wait", "0")
    if not (given.isascii() and given.isdecimal() and len(given) <= 3 and int(given) <= MAX_WAIT_S):
        detail = f"wait must be a whole number of seconds from 0 to {MAX_WAIT_S}, not {excerpt(given)}"
        raise RequestError(ProblemCode.WAIT_INVALID, detail)
    return int(given)


@dataclass(frozen=True)
class Answer:
    """The response that a request gets now."""

    response: func.HttpResponse
    #: number of the job's last event in the response
    seq: int
    #: `True` if the awaited event has happened, or can no longer happen
    final: bool = False
    #: the job is in a terminal state
    ended: bool = False


@contextmanager
def history_tail(context: Context, job_id: str) -> Iterator[Tail]:
    """Yields the tail of a job's history, which all requests that wait for the job share. Each request must have read
    the job before.

    A wait raises JobNotFound if the job is deleted, and LedgerUnavailable.
    """
    # the caller that created it may have fewer rights than a later one
    ledger = context.of_all_tenants.ledger

    async def last() -> LastEvent:
        if (found := await ledger.end_of(job_id)) is None:
            raise JobNotFound(job_id)
        return LastEvent(*found)

    with context.process.recent_jobs.tails.of(job_id, last) as tail:
        yield tail


def counted_as(caller: Caller) -> str | None:
    """Returns the tenant whose share of the waiting responses limits the caller, or None for a caller that sees all
    tenants.
    """
    return None if caller.sees_all else caller.tenant


class LongPoll:
    """Delays responses while the limits of `waiters` allow one more waiting response of this process."""

    def __init__(self, waiters: Waiters | None = None) -> None:
        self._waiters = waiters or Waiters()

    async def wait(
        self,
        wait_s: int,
        tenant: str | None,
        read: Callable[[], Awaitable[Answer]],
        tail: Tail,
        *,
        until: Until = Until.CHANGED,
        follower: bool = False,
    ) -> func.HttpResponse:
        """Calls `read` until its response is not 304, is final, or the time is over. Returns the last response.

        A response other than 304 ends only a wait for a change. With `follower` the request waits for events. If the
        limit of waiting responses is reached, the call returns the current response immediately.

        `tenant` is the tenant whose share of the waiting responses limits the call. None means no share. Raises errors
        of `read` and of the `tail`.
        """
        if not wait_s or not self._waiters.has_room(tenant, follower=follower):
            return (await read()).response
        end = time.monotonic() + wait_s
        with self._waiters.hold(tenant, follower=follower):
            while True:
                answer = await read()
                tail.grew(answer.seq, ended=answer.ended)
                left_s = end - time.monotonic()
                changed = until is Until.CHANGED and answer.response.status_code != 304
                if answer.final or left_s <= 0 or changed:
                    return answer.response
                # reads once more at the end of the time, since some changes have no event
                await tail.goes_past(answer.seq, left_s, to_end=until is Until.ENDED)

    async def ended(
        self, wait_s: int, tenant: str | None, context: Context, created: Stored
    ) -> tuple[Record | None, bool]:
        """Waits up to `wait_s` seconds until a submitted job has ended. Never raises an Exception.

        Returns the job if the job has ended, else None. The second value is False if the call could not wait, because
        the limit of waiting responses is reached or an error occurred. The call reads the job once, after the job has
        ended.
        """
        job = created.record.job
        if job.status.terminal:
            return created.record, True
        if not wait_s:
            return None, True
        if not self._waiters.has_room(tenant):
            return None, False
        try:
            # an unresponsive ledger must not delay the response
            async with asyncio.timeout(wait_s):
                with self._waiters.hold(tenant), history_tail(context, job.job_id) as tail:
                    tail.grew(job.event_seq)
                    has_ended = await tail.goes_past(job.event_seq, wait_s, to_end=True)
                    stored = await context.ledger.read(job.job_id) if has_ended else None
        except TimeoutError:
            return None, True
        except Exception as error:  # the job exists, so its 202 must reach the caller
            telemetry.record_fault(error, "WAIT_ABANDONED", jobId=job.job_id)
            return None, False
        return (stored.record if stored is not None else None), True
