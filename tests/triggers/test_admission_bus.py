"""Calls of the queue `lucius-admission`, as they are read."""

import json

import pytest

from triggers.admission_bus import called


@pytest.mark.parametrize(
    ("call", "meaning"),
    [
        ({"tenant": "a"}, ("a", None, None)),
        ({"tenant": "a", "job_id": "job_1"}, ("a", "job_1", None)),
        ({"tenant": "a", "bulk": "bulk_1", "later": 7}, ("a", None, "bulk_1")),
        ({"tenant": "", "bulk": 7}, (None, None, None)),
        ({"job_id": "job_1"}, (None, "job_1", None)),
        ([], (None, None, None)),
    ],
)
def test_a_call_names_a_desk_a_job_or_a_bulk(call: object, meaning: tuple[str | None, ...]) -> None:
    """Without a tenant it is none; what a later release adds is not looked at."""
    assert called(json.dumps(call).encode()) == meaning


def test_what_is_no_json_is_no_call() -> None:
    """It names nobody."""
    assert called(b"{") == (None, None, None)
