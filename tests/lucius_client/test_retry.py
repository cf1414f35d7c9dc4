"""Repetitions of a request and their waits, without sockets and clocks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from lucius_client.cli.session import RETRIES, WATCH_RETRIES
from lucius_client.errors import LimitReached, Unreachable
from lucius_client.exchange import NoResponse, Pause, Request, Response
from lucius_client.retry import Retries, send
from shared.errors import BusUnavailable, Contended, LedgerUnavailable
from shared.refusals import Overloaded
from tests.lucius_client import samples
from triggers.http.problems import problem_response

NO_RESPONSE = NoResponse("connection refused")
HALF = Retries(attempts=5, first_s=1.0, longest_s=60.0, random=lambda: 0.5)


def response(status: int, **headers: str) -> Response:
    return Response(status, {name.replace("_", "-").lower(): value for name, value in headers.items()}, b"")


@pytest.mark.parametrize("outcome", [NO_RESPONSE, *(response(status) for status in (429, 500, 502, 503, 504))])
def test_the_wait_doubles_and_is_a_random_part_of_it(outcome: Response | NoResponse) -> None:
    """Full jitter with a random number of 0.5 is half of 1, 2, 4 and 8 s; the last attempt has no wait."""
    assert [HALF.wait_s(attempt, outcome) for attempt in range(1, 6)] == [0.5, 1.0, 2.0, 4.0, None]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 415, 501])
def test_a_final_response_is_not_repeated(status: int) -> None:
    """A status that cannot change by itself is not tried again."""
    assert HALF.wait_s(1, response(status)) is None


def test_a_bundle_that_an_operator_must_restore_is_requested_once() -> None:
    """It is a 500 that no repetition changes; an export would wait two minutes for each such job."""
    refused = Response(500, {}, json.dumps(samples.problem(500, "ARCHIVE_INVALID")).encode())
    assert HALF.wait_s(1, refused) is None


def test_retry_after_is_honoured() -> None:
    """Jitter is added to it, a date counts from now, and one over `longest_s` means no repetition."""
    assert HALF.wait_s(1, response(429, Retry_After="7")) == 7.5
    in_ten_s = format_datetime(datetime.now(UTC) + timedelta(seconds=10), usegmt=True)
    waited = HALF.wait_s(1, response(503, Retry_After=in_ten_s))
    assert waited is not None
    assert 5 < waited <= 10.5
    assert HALF.wait_s(1, response(429, Retry_After="61")) is None
    assert HALF.wait_s(1, response(429, Retry_After="soon")) == 0.5


def test_the_flow_sends_waits_and_sends_again() -> None:
    """After a fault that passes, the flow yields a pause and the same request, and returns the response."""
    request = Request("GET", "/v1/jobs")
    flow = send(request, HALF)
    assert next(flow) == request
    assert flow.send(NO_RESPONSE) == Pause(0.5)
    assert flow.send(None) == request
    with pytest.raises(StopIteration) as ended:
        flow.send(response(200))
    assert ended.value.value.status == 200


def test_the_last_outcome_is_the_error() -> None:
    """No response to the last attempt is Unreachable; a 429 is LimitReached."""
    once = Retries(attempts=1)
    for outcome, error in ((NO_RESPONSE, Unreachable), (response(429), LimitReached)):
        flow = send(Request("GET", "/"), once)
        next(flow)
        with pytest.raises(error):
            flow.send(outcome)


def test_a_health_probe_is_not_repeated() -> None:
    """A request with `repeat=False` is sent once."""
    flow = send(Request("GET", "/v1/health/ready", repeat=False), HALF)
    next(flow)
    with pytest.raises(Unreachable):
        flow.send(NO_RESPONSE)


@pytest.mark.parametrize("retries", [RETRIES, WATCH_RETRIES])
def test_commands_wait_for_what_passes(retries: Retries) -> None:
    """A command waits for Retry-After while the store, the bus or admission to the API is unavailable."""
    for fault in (LedgerUnavailable("away"), BusUnavailable("away"), Contended("others wrote"), Overloaded()):
        answer = problem_response(fault, "x")
        after_s = answer.headers["Retry-After"]
        waited = retries.wait_s(1, response(answer.status_code, Retry_After=after_s))
        assert waited is not None
        assert waited >= float(after_s)
