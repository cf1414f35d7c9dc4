"""When a request is sent again (no I/O)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from lucius_client.errors import Unreachable, error_of
from lucius_client.exchange import Flow, NoResponse, Pause, Request, Response


@dataclass(frozen=True, kw_only=True)
class Retries:
    """429, 5xx and silence are tried again, after a random part of a wait that doubles ("full jitter").

    Where the API says when to come again (`Retry-After`), not before that. Every request of LUCIUS may be sent again:
    reads change nothing, controls take a repetition for what it is, and a submit has its key.
    """

    #: requests in all; 1: never again
    attempts: int = 5
    #: seconds, the first wait at most
    first_s: float = 0.5
    #: seconds, any wait at most; a longer Retry-After is the caller's to decide, so the error is raised at once
    longest_s: float = 60.0
    #: from 0 to 1
    random: Callable[[], float] = random.random

    def wait_s(self, attempt: int, outcome: Response | NoResponse) -> float | None:
        """How long to wait after attempt `attempt` (from 1) had this outcome; None: no further one."""
        if attempt >= self.attempts or not _is_transient(outcome):
            return None
        jitter = self.random() * min(self.longest_s, self.first_s * 2.0 ** (attempt - 1))
        retry_after_s = outcome.retry_after_s if isinstance(outcome, Response) else None
        if retry_after_s is None:
            return jitter
        return retry_after_s + jitter if retry_after_s <= self.longest_s else None


def send(request: Request, retries: Retries) -> Flow[Response]:
    """The answer, below 400. Raises Unreachable, or the Refused that the answer is."""
    attempt = 1
    while True:
        outcome = yield request
        assert outcome is not None
        if isinstance(outcome, Response) and outcome.status < 400:
            return outcome
        wait_s = retries.wait_s(attempt, outcome) if request.repeat else None
        if wait_s is None:
            raise Unreachable(outcome.reason) if isinstance(outcome, NoResponse) else error_of(outcome)
        yield Pause(wait_s)
        attempt += 1


def _is_transient(outcome: Response | NoResponse) -> bool:
    """501 and its like stay; what a restart or a little time mends does not."""
    return isinstance(outcome, NoResponse) or outcome.status == 429 or outcome.status in (500, 502, 503, 504)
