"""Decides on the repetition of a request (no I/O)."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from lucius_client.errors import Unreachable, error_of
from lucius_client.exchange import Flow, NoResponse, Pause, Request, Response


@dataclass(frozen=True, kw_only=True)
class Retries:
    """The number of retries and the waits between them, after 429, 500, 502, 503, 504 or no response.

    The wait is a random part of a time that doubles with each attempt ("full jitter",
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). If the API sends `Retry-After`, this
    random part is added to the seconds of the header. The client never retries health checks, tests of
    webhooks and rotations of their secrets. Other requests are safe to retry: controls are idempotent, and a submit
    has an idempotency key.
    """

    #: maximum number of requests; 1: no repetition
    attempts: int = 5
    #: upper bound of the random part of the first wait, in seconds
    first_s: float = 0.5
    #: upper bound of the random part of each wait, in seconds; if `Retry-After` is longer, the error is raised
    #: immediately
    longest_s: float = 60.0
    #: returns a number from 0 to 1
    random: Callable[[], float] = random.random

    def wait_s(self, attempt: int, outcome: Response | NoResponse) -> float | None:
        """Returns the seconds to wait after attempt `attempt` (from 1) with this outcome, or None for no retry."""
        if attempt >= self.attempts or not _is_transient(outcome):
            return None
        jitter = self.random() * min(self.longest_s, self.first_s * 2.0 ** (attempt - 1))
        retry_after_s = outcome.retry_after_s if isinstance(outcome, Response) else None
        if retry_after_s is None:
            return jitter
        return retry_after_s + jitter if retry_after_s <= self.longest_s else None


def send(request: Request, retries: Retries) -> Flow[Response]:
    """Returns a response with a status below 400.

    Raises Unreachable if no response arrives. Any other response raises Refused, or the subclass for its problem.
    """
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
    """Returns True if a repetition can have another outcome. Returns False for 4xx (except 429), 501 and
    ARCHIVE_INVALID.
    """
    if isinstance(outcome, NoResponse):
        return True
    # only an operator can restore the bundle of an archived job
    return outcome.status in (429, 500, 502, 503, 504) and error_of(outcome).code != "ARCHIVE_INVALID"
