from contextlib import nullcontext

import azure.functions as func
import pytest

from shared.api.job_requests import ControlRequest
from shared.apidocs.problem_codes import ProblemCode
from shared.refusals import BodyTooLarge, Refused
from triggers.http.bodies import (
    MAX_BODY_BYTES,
    bounded_body,
    json_body,
    optional_body,
    refuse_large_body,
    sent_body,
)
from triggers.http.problems import RequestError


def request(body: bytes, content_type: str = "application/json", **headers: str) -> func.HttpRequest:
    headers = {"Content-Type": content_type, **headers}
    return func.HttpRequest("POST", "/v1/orchestrate", headers=headers, body=body)


def test_a_body_has_a_bound() -> None:
    """A body of the bound is accepted, one more byte is not; for JSON and NDJSON."""
    assert len(bounded_body(request(b"x" * MAX_BODY_BYTES))) == MAX_BODY_BYTES
    for read in (bounded_body, json_body):
        with pytest.raises(BodyTooLarge):
            read(request(b"x" * (MAX_BODY_BYTES + 1)))


@pytest.mark.parametrize(
    ("body", "content_type", "status", "code"),
    [
        (b"{}", "text/plain", 415, "NOT_JSON"),
        (b"{", "application/json", 400, "NOT_JSON"),
        (b'{"reason": "a", "reason": "b"}', "application/json", 400, "NOT_JSON"),
        (b'{"reason": 1}', "application/json; charset=utf-8", 400, "REASON_INVALID"),
        (b'{"reason": "a\\u001b[2J"}', "application/json", 400, "REASON_INVALID"),
        (b"[]", "application/merge-patch+json", 400, "REASON_INVALID"),
    ],
)
def test_a_body_that_its_route_does_not_take(body: bytes, content_type: str, status: int, code: str) -> None:
    """Not declared as JSON, not strict JSON, or not valid for the model."""
    with pytest.raises(Refused) as refused:
        optional_body(request(body, content_type), ControlRequest, ProblemCode.REASON_INVALID)
    assert (refused.value.status, refused.value.code) == (status, code)


def test_a_body_that_is_left_out_is_the_models_defaults() -> None:
    """Without a body no content type is required."""
    assert optional_body(request(b" \n", ""), ControlRequest, ProblemCode.REASON_INVALID) == ControlRequest()


@pytest.mark.parametrize("coding", ["chunked", "gzip, Chunked"])
def test_a_chunked_body_that_arrives_empty_is_411(coding: str) -> None:
    """The host passes a body with Content-Length only; if a chunked one has a body, it is accepted."""
    headers = {"transfer-encoding": coding}
    for read in (sent_body, bounded_body, json_body):
        with pytest.raises(RequestError) as refused:
            read(request(b"", **headers))
        assert (refused.value.status, refused.value.code) == (411, "LENGTH_REQUIRED")
        assert "send Content-Length" in str(refused.value)
        assert read(request(b"{}", **headers)) == b"{}"
    with pytest.raises(RequestError, match="chunked"):
        optional_body(request(b"", **headers), ControlRequest, ProblemCode.REASON_INVALID)


@pytest.mark.parametrize(
    ("declared", "refused"),
    [
        (str(MAX_BODY_BYTES), False),
        (str(MAX_BODY_BYTES + 1), True),
        ("9" * 19, True),
        ("9" * 5000, False),
        ("-1", False),
    ],
)
def test_a_body_is_refused_by_its_declared_length(declared: str, refused: bool) -> None:
    """Before it is read; an invalid length is left to the host."""
    asked = func.HttpRequest("POST", "/v1/orchestrate", headers={"Content-Length": declared}, body=b"")
    with pytest.raises(BodyTooLarge) if refused else nullcontext():
        refuse_large_body(asked)
