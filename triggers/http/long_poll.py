"""Waiting for a job: a response that brings nothing new is held back until something of the job is committed (R82)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import azure.functions as func

from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter
from shared.operations.context import Context
from shared.operations.waiters import Tail, Waiters
from shared.refusals import JobNotFound
from triggers.http.problems import RequestError

#: below what proxies and load balancers cut off (230 s in Azure), and short enough that a shutdown need not wait long
MAX_WAIT_S = 20

WAIT = Parameter(
    name="wait",
    where="query",
    schema={"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S},
    description="With If-None-Match: seconds for which a 304 is held back, in case that the job changes meanwhile.",
)


UNTIL = Parameter(
    name="until",
    where="query",
    schema={"enum": ["changed", "admitted"], "default": "changed"},
    description="With `wait`: `admitted` holds the answer, whatever it is, while the job waits for its gates or for "
    "other jobs, and needs no If-None-Match.",
)


def until_admitted(req: func.HttpRequest) -> bool:
    """Whether the answer is held until the job's gates let it in. Raises RequestError (400)."""
    given = req.params.get("until", "changed")
    if given not in UNTIL.schema["enum"]:
        raise RequestError(ProblemCode.WAIT_INVALID, "until is changed or admitted")
    return bool(given == "admitted")


def wait_of(req: func.HttpRequest) -> int:
    """Seconds; 0 without the parameter. Raises RequestError (400)."""
    given = req.params.get("wait", "0")
    if not (given.isascii() and given.isdecimal() and len(given) <= 3 and int(given) <= MAX_WAIT_S):
        detail = f"wait must be a whole number of seconds from 0 to {MAX_WAIT_S}"
        raise RequestError(ProblemCode.WAIT_INVALID, detail)
    return int(given)


@dataclass(frozen=True)
class Answer:
    """What a request would be answered now."""

    response: func.HttpResponse
    #: number of the job's last event in it
    seq: int
    #: nothing that is waited for will change
    final: bool = False


@contextmanager
def history_tail(context: Context, job_id: str) -> Iterator[Tail]:
    """The end of a job's history: one for all who wait for it, who read the job themselves before they wait.

    A wait at it raises JobNotFound where the job is gone, and LedgerUnavailable.
    """
    # who made it may see less than who comes to it
    ledger = context.of_all_tenants.ledger

    async def last() -> int:
        if (seq := await ledger.last_seq(job_id)) is None:
            raise JobNotFound(job_id)
        return seq

    with context.recent_jobs.tails.of(job_id, last) as tail:
        yield tail


class LongPoll:
    """Holds responses back, as far as there is room among the `waiters` of this process."""

    def __init__(self, waiters: Waiters | None = None) -> None:
        self._waiters = waiters or Waiters()

    async def wait(
        self,
        wait_s: int,
        tenant: str | None,
        read: Callable[[], Awaitable[Answer]],
        tail: Tail,
        *,
        until_final: bool = False,
        follower: bool = False,
    ) -> func.HttpResponse:
        """What `read` gives once it is no 304, once it is final, or when the time is up. `until_final`: in the first
        case it goes on. `follower`: it waits for events.

        Where too many are held already, what it gives now. `tenant` is the caller's; None: it sees every tenant's jobs.
        Raises what `read` and the `tail` raise.
        """
        if not wait_s or not self._waiters.has_room(tenant, follower=follower):
            return (await read()).response
        end = time.monotonic() + wait_s
        with self._waiters.hold(tenant, follower=follower):
            while True:
                answer = await read()
                tail.grew(answer.seq)
                left_s = end - time.monotonic()
                if answer.final or left_s <= 0 or (answer.response.status_code != 304 and not until_final):
                    return answer.response
                # when the time is up it reads once more: not all that changes has an event
                await tail.goes_past(answer.seq, left_s)
