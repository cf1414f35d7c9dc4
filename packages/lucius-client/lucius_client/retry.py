"""When a request is sent again, and after which time (no I/O)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from lucius_client.errors import Unreachable, error_of
from lucius_client.exchange import Flow, NoResponse, Pause, Request, Response


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often, and after which times, a request is repeated after 429, 500, 502, 503, 504 or no response.

    The wait is a random part of a time that doubles with each attempt ("full jitter",
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), and it is added to `Retry-After` where
    the API sends that. Every request may be repeated: reads change nothing, a repeated control has no further effect,
    and a submit has its idempotency key.
    """

    #: requests in all; 1: none is repeated
    attempts: int = 5
    #: upper bound of the first wait, in seconds
    first_s: float = 0.5
    #: upper bound of each wait, in seconds; where `Retry-After` is longer, the error is raised at once
    longest_s: float = 60.0
    #: a number from 0 to 1
    random: Callable[[], float] = random.random

    def wait_s(self, attempt: int, outcome: Response | NoResponse) -> float | None:
        """Seconds to wait after attempt `attempt` (counted from 1) had this outcome; None: do not repeat it."""
        if attempt >= self.attempts or not _is_transient(outcome):
            return None
        jitter = self.random() * min(self.longest_s, self.first_s * 2.0 ** (attempt - 1))
        retry_after_s = outcome.retry_after_s if isinstance(outcome, Response) else None
        if retry_after_s is None:
            return jitter
        return retry_after_s + jitter if retry_after_s <= self.longest_s else None


def send(request: Request, retries: Retries) -> Flow[Response]:
    """The response, whose status is below 400. Raises Unreachable, or the subclass of Refused for its problem."""
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
    """Whether a repetition can have another outcome; it cannot after 4xx, but 429, and 501."""
    return isinstance(outcome, NoResponse) or outcome.status == 429 or outcome.status in (500, 502, 503, 504)
