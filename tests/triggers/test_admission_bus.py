"""Calls of the queue `lucius-admission`, as they are read."""

import json

import pytest

from tests.jobs import START
from triggers.admission_bus import Call, called


@pytest.mark.parametrize(
    ("call", "meaning"),
    [
        ({"tenant": "a"}, Call(tenant="a")),
        ({"tenant": "a", "job_id": "job_1"}, Call(tenant="a", job_id="job_1")),
        ({"tenant": "a", "bulk": "bulk_1", "later": 7}, Call(tenant="a", bulk_id="bulk_1")),
        ({"gate": "0" * 16, "since": START.isoformat()}, Call(gate_id="0" * 16, since=START)),
        ({"tenant": "a", "gate": "0" * 16}, Call(tenant="a", gate_id="0" * 16)),
        ({"gate": "0" * 16, "since": "yesterday"}, Call(gate_id="0" * 16)),
        ({"gate": "0" * 16, "since": "2026-01-27T10:00:00"}, Call(gate_id="0" * 16)),
        ({"tenant": "", "bulk": 7}, Call()),
        ({"job_id": "job_1"}, Call(job_id="job_1")),
        ([], Call()),
    ],
)
def test_a_call_names_a_admission_a_job_a_bulk_or_a_gate(call: object, meaning: Call) -> None:
    """A call without a tenant or a gate is ignored; fields of a later release are ignored."""
    assert called(json.dumps(call).encode()) == meaning


def test_what_is_no_json_is_no_call() -> None:
    """The message names no job."""
    assert called(b"{") == Call()
