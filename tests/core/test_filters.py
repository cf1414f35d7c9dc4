from datetime import UTC, datetime
from typing import Any

import pytest

from shared.core.filters import JobFilter, parameters_of, parse_filter
from shared.core.jobs.states import JobStatus
from shared.refusals import FilterInvalid

AT = datetime(2026, 1, 27, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ({}, {}),
        ({"tenant_id": "a"}, {"tenant_id": "a"}),
        ({"status": "failed_final, CANCELLED"}, {"statuses": frozenset({JobStatus.FAILED_FINAL, JobStatus.CANCELLED})}),
        ({"status": ["QUEUED"]}, {"statuses": frozenset({JobStatus.QUEUED})}),
        ({"request_type": "OCR"}, {"request_type": "OCR"}),
        ({"since": "2026-01-27T12:00:00+02:00"}, {"since": AT}),
        ({"since": "2026-01-27T12:00:00 02:00"}, {"since": AT}),  # the + of a query that was not escaped
        ({"until": "0001-01-01T00:00:00Z"}, {"until": datetime(1970, 1, 2, tzinfo=UTC)}),
        ({"label": "a:b:c"}, {"label": ("a", "b:c")}),
        ({"label": "a:"}, {"label": ("a", "")}),
    ],
)
def test_a_word_means_the_same_in_a_query_and_in_a_body(given: dict[str, Any], means: dict[str, Any]) -> None:
    """Every word of the grammar, in the forms that it may have."""
    assert parse_filter(JobFilter, given) == JobFilter(**means)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("status", value) for value in ("", "DONE", "QUEUED,", [], [1], {"QUEUED": 1}, None, 7)),
        *(("since", value) for value in ("", "yesterday", "2026-01-27", "2026-01-27T10:00:00", 7, None)),
        ("until", "2026-13-01T00:00:00Z"),
        *(("label", value) for value in ("", "team", ":red", 7)),
        ("tenant_id", 7),
        ("request_type", ["OCR"]),
        ("doc_id", "1"),
        *(("archived", value) for value in ("", "yes", "True", 1, None)),
        ("Status", "QUEUED"),
    ],
)
def test_what_is_wrong_is_named(word: str, value: Any) -> None:
    """An unknown parameter, or an invalid value: there is no filter, and the error names the parameter."""
    with pytest.raises(FilterInvalid) as refused:
        parse_filter(JobFilter, {"request_type": "OCR", word: value})
    assert refused.value.word == word
    assert refused.value.code == f"{word.upper()}_INVALID"


#: rows are found by them, in tests/operations/jobs/test_list_jobs.py
_KEYS = ("idempotency_key", "correlation_id", "archived")


@pytest.mark.parametrize("word", [each.name for each in parameters_of(JobFilter) if each.name not in _KEYS])
def test_every_word_narrows(word: str) -> None:
    """Each parameter with another value excludes a job that the empty filter matches."""
    values = {
        **{"tenant_id": "b", "status": "SUCCEEDED", "request_type": "SIS", "label": "team:blue"},
        **{"since": "2026-01-28T00:00:00Z", "until": "2026-01-27T10:00:00Z"},
    }

    def lets_through(job_filter: JobFilter) -> bool:
        return (
            job_filter.tenant_id in (None, "a")
            and job_filter.may_match(JobStatus.FAILED_FINAL, "OCR", {"team": "red"})
            and job_filter.has_time(AT)
        )

    assert lets_through(parse_filter(JobFilter, {}))
    assert not lets_through(parse_filter(JobFilter, {word: values[word]}))


def test_a_row_of_a_living_job_may_be_behind() -> None:
    """If a living state is requested, each living job is read from the ledger; the row decides for an ended one."""
    running = parse_filter(JobFilter, {"status": "IN_PROGRESS"})
    assert running.needs_ledger
    assert running.may_match(JobStatus.QUEUED, "OCR", {})
    assert not running.may_match(JobStatus.CANCELLED, "OCR", {})
    ended = parse_filter(JobFilter, {"status": "CANCELLED"})
    assert not ended.needs_ledger
    assert not ended.may_match(JobStatus.QUEUED, "OCR", {})
