"""The audit itself: right rows pass, and each kind of wrong row is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.core.jobs.job import Event, Record
from shared.core.jobs.plan import compute_digests, plan_job, with_first_event
from shared.core.jobs.routing import decide_lane
from shared.core.jobs.states import JobStatus, StepStatus
from tests.chaos.ledger_audit import StoredRows, audit
from tests.jobs import DEFAULTS, START, Story, envelope, registry

JOB = "job_1"
ACCEPTED = {"key-1": JOB}


def stored() -> StoredRows:
    """One job of one step that succeeded at its second attempt."""
    request = envelope(request_type="OCR", payload={}, idempotency_key="key-1")
    protocol = registry().find("OCR")
    assert protocol is not None
    planned = plan_job(
        request,
        protocol,
        decide_lane(request, default_mode="DEFAULT", lanes=16),
        DEFAULTS,
        job_id=JOB,
        created_at=START,
        correlation_id="corr-1",
        workspace_uri="https://account.blob.core.windows.net/workspace",
        identity=compute_digests(request),
    )
    record, created = with_first_event(planned, "")
    story = Story(record)
    story.recorded()
    story.after(1).replied("RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "later"})
    story.after(60).recorded()
    story.after(1).replied("RESULT")
    assert story.record.job.status is JobStatus.SUCCEEDED
    return StoredRows(
        records={JOB: story.record},
        events={JOB: [created, *story.events]},
        claims=[{"job_id": JOB, "expires_at": START}],
        active=[],
        listed=[{"job_id": JOB, "status": "SUCCEEDED"}],
        rejected=[{"body": "rubbish 1"}],
    )


def job(**changes: Any) -> Callable[[StoredRows], StoredRows]:
    return lambda right: replace(
        right, records={JOB: Record(replace(right.records[JOB].job, **changes), right.records[JOB].steps)}
    )


def step(**changes: Any) -> Callable[[StoredRows], StoredRows]:
    def change(right: StoredRows) -> StoredRows:
        record = right.records[JOB]
        return replace(right, records={JOB: Record(record.job, (replace(record.steps[0], **changes),))})

    return change


def events(change: Callable[[list[Event]], list[Event]]) -> Callable[[StoredRows], StoredRows]:
    return lambda right: replace(right, events={JOB: change(right.events[JOB])})


def test_right_rows_pass() -> None:
    """Nothing is wrong with a job that went as it should."""
    assert audit(stored(), ACCEPTED, {"rubbish 1"}) == []


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (job(status=JobStatus.IN_PROGRESS), "still IN_PROGRESS"),
        (job(error_code="FORGED"), "a forged reply was applied"),
        (job(status=JobStatus.FAILED_FINAL), "folding the events"),
        (job(final_output={"uri": "https://elsewhere"}), "folding the events"),
        (job(event_seq=99), "the head is not the last event"),
        (step(status=StepStatus.PROCESSING), "folding the events"),
        (step(attempt_no=3), "folding the events"),
        (events(lambda all_: all_[:2] + all_[3:]), "event 3 is missing"),
        (events(lambda all_: [all_[0], replace(all_[1], reason="forged"), *all_[2:]]), "the hash is not the hash"),
        (lambda right: replace(right, active=[{"job_id": JOB}]), "ACTIVE of a job that ended"),
        (lambda right: replace(right, claims=[]), "0 CLAIM rows"),
        (lambda right: replace(right, claims=[{"job_id": JOB}]), "its claim has no end"),
        (lambda right: replace(right, listed=[{"job_id": JOB, "status": "QUEUED"}]), "listed as QUEUED"),
        (lambda right: replace(right, rejected=[]), "lost and not quarantined: rubbish 1"),
        (lambda right: replace(right, records={}), "accepted and lost"),
    ],
)
def test_each_wrong_row_is_found(spoil: Callable[[StoredRows], StoredRows], words: str) -> None:
    """One row is changed, and the audit names the violation."""
    wrong = audit(spoil(stored()), ACCEPTED, {"rubbish 1"})
    assert any(words in line for line in wrong), wrong


def test_a_job_without_a_submitter_is_found() -> None:
    """One key, one job: another job id in the ledger belongs to no submission."""
    assert any("no caller submitted" in line for line in audit(stored(), {}, set()))
    assert any("is another's" in line for line in audit(stored(), {"key-2": JOB}, set()))
