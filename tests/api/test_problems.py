"""Problems that a healthy stack does not answer with."""

import json

import pytest

from shared.errors import LedgerRefused, LedgerUnavailable, PublishUnavailable
from shared.operations.admission import refusal
from triggers.http.problems import problem_of


@pytest.mark.parametrize(
    ("error", "status", "code", "retry_after"),
    [
        (LedgerUnavailable("127.0.0.1:10002 refused"), 503, "DEPENDENCY_UNAVAILABLE", True),
        (PublishUnavailable("sb://secret"), 503, "DEPENDENCY_UNAVAILABLE", True),
        (refusal("LUCIUS_MAX_INFLIGHT", "10 jobs are active"), 429, "LIMIT_REACHED", True),
        (LedgerRefused("PropertyValueTooLarge"), 400, "NOT_STORABLE", False),
        (ZeroDivisionError("password=hunter2"), 500, "INTERNAL", False),
    ],
)
def test_our_own_faults_are_problems_too(error: Exception, status: int, code: str, retry_after: bool) -> None:
    """With Retry-After where trying again helps, and without a word of what is inside."""
    answer = problem_of(error, "corr-1")
    body = json.loads(answer.get_body())
    assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")
    assert (body["status"], body["code"], body["correlation_id"]) == (status, code, "corr-1")
    assert answer.headers["X-Correlation-Id"] == "corr-1"
    assert ("Retry-After" in answer.headers) == retry_after
    assert not any(secret in json.dumps(body) for secret in ("127.0.0.1", "sb://", "hunter2", "PropertyValue"))
