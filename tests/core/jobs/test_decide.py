import uuid

import pytest

from shared.core.jobs.history import lease_digest
from shared.core.jobs.occurrences import Control, ControlKind, DeadlinePassed, PublishFailed, RecordAttempt
from shared.core.jobs.outcome import OutcomeKind
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus
from tests.audit_bundles import check_chain
from tests.jobs import Story, planned


def run_step(story: Story, step_id: str) -> None:
    story.recorded(step_id)
    story.after(1).replied("ACK", step_id)
    story.after(5).replied("RESULT", step_id)


def test_happy_path_ends_with_the_last_result() -> None:
    """Three steps one after another: each takes the result of the one before, the job ends with the last."""
    story = Story()
    run_step(story, "ocr")
    assert story.record.job.status is JobStatus.IN_PROGRESS
    story.recorded("embedding")
    assert story.step("embedding").input_ref == story.step("ocr").result_ref
    story.after(1).replied("ACK", "embedding")
    story.after(1).replied("RESULT", "embedding")
    run_step(story, "sis")
    job = story.record.job
    assert job.status is JobStatus.SUCCEEDED
    assert job.final_output == story.step("sis").result_ref
    assert job.attempts_total == 3
    assert job.completed_at == story.now
    assert [step.status for step in story.record.steps] == [StepStatus.SUCCEEDED] * 3


def test_events_are_gapless_and_chained() -> None:
    """The EVENT rows of a job, its creation included, are one hash chain."""
    from shared.core.jobs.as_of import make_creation_data
    from shared.core.jobs.history import Provenance, append

    fresh = planned()
    created = append(
        None,
        fresh.with_job(event_seq=0, event_hash=""),
        "JOB_CREATED",
        Provenance(cause_id="create:job_1", actor="caller", source="http", at=fresh.job.created_at, salt=""),
        data=make_creation_data(fresh),
    )[1]
    story = Story(fresh)
    run_step(story, "ocr")
    check_chain([created, *story.events])
    assert [event.seq for event in story.events] == [2, 3, 4]
    with pytest.raises(ValueError, match="event 3 is missing"):
        check_chain([created, story.events[0], story.events[2]])


def test_changes_of_the_events_rebuild_the_rows() -> None:
    """Folding what each EVENT changed over the created job gives the columns of today's rows."""
    story = Story()
    before = story.record
    run_step(story, "ocr")
    folded: dict[str, object] = {}
    for event in story.events:
        folded |= event.data["changes"].get("job", {})
    for name, value in folded.items():
        now = getattr(story.record.job, name)
        assert value == (now.isoformat(timespec="microseconds") if hasattr(now, "isoformat") else now), name
        assert now != getattr(before.job, name)


def test_result_before_ack_is_taken() -> None:
    """A RESULT that overtakes its ACK settles the step; the ACK is late and changes nothing."""
    story = Story()
    story.recorded()
    outcome = story.after(1).replied("RESULT")
    assert outcome.transitioned
    assert outcome.events[0].data["overtook_ack"] is True
    assert story.record.job.first_ack_at == story.now
    assert story.record.job.status is JobStatus.IN_PROGRESS
    before = story.record
    late = story.after(1).replied("ACK")
    assert (late.kind, late.reason_code) == (OutcomeKind.IGNORED, "LATE")
    assert story.record.steps == before.steps


def test_retryable_failure_waits_and_gets_a_new_lease() -> None:
    """FAILED_RETRY waits its backoff; the next attempt has a new number and a new lease."""
    story = Story()
    story.recorded()
    first_lease = story.step().lease_id
    story.after(1).replied("RESULT", status="FAILED_RETRY", error={"code": "STORAGE_UNAVAILABLE", "message": "later"})
    step = story.step()
    assert step.status is StepStatus.FAILED_RETRY
    assert 5 <= (step.due_at - story.now).total_seconds() <= 5.5
    assert story.recorded().reason_code == "IN_BACKOFF"
    assert story.after(6).recorded().transitioned
    assert (story.step().attempt_no, story.record.job.attempts_total) == (2, 2)
    assert story.step().lease_id != first_lease


def test_a_lease_cannot_be_guessed() -> None:
    """A reply under the lease that 0.1 made of job, step and attempt is a stranger's, and its event tells a digest."""
    story = Story()
    story.recorded()
    of_0_1 = str(uuid.uuid5(uuid.UUID("6f0f1c5e-6a57-4b8c-9a1e-0d3c1f6a7b52"), "job_1:ocr:1"))
    outcome = story.replied("RESULT", lease_id=of_0_1)
    assert (outcome.kind, outcome.reason_code) == (OutcomeKind.IGNORED, "STALE_ATTEMPT")
    assert outcome.events[0].lease_digest == lease_digest(of_0_1) != story.step().lease_digest


def test_exhaustion_keeps_the_last_code_on_the_step() -> None:
    """The third retryable failure is final: ATTEMPTS_EXHAUSTED on the job, the service's code on the step."""
    story = Story()
    for _ in range(3):
        story.after(200).recorded()
        story.after(1).replied("RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "no room"})
    assert story.record.job.status is JobStatus.FAILED_FINAL
    assert story.record.job.error_code == "ATTEMPTS_EXHAUSTED"
    assert story.step().last_error_code == "BUSY"
    assert [step.status for step in story.record.steps] == [
        StepStatus.FAILED_FINAL,
        StepStatus.PENDING,
        StepStatus.PENDING,
    ]


def test_final_failure_ends_the_job_at_once() -> None:
    """FAILED_FINAL uses up nothing and ends the job with the service's code."""
    story = Story()
    story.recorded()
    story.after(1).replied("ACK")
    story.after(1).replied("RESULT", status="FAILED_FINAL", error={"code": "PDF_ENCRYPTED", "message": "locked"})
    assert story.record.job.status is JobStatus.FAILED_FINAL
    assert (story.record.job.error_code, story.record.job.error_message) == ("PDF_ENCRYPTED", "locked")


def test_ack_timeout_only_when_the_lease_is_over() -> None:
    """A timer that fires early moves nothing; after 30 s without ACK the attempt is used up."""
    story = Story()
    story.recorded()
    assert story.after(29).occurs(DeadlinePassed("ocr", 1)).reason_code == "LEASE_STILL_RUNS"
    assert story.after(1).occurs(DeadlinePassed("ocr", 1)).transitioned
    step = story.step()
    assert (step.status, step.retry_cause) == (StepStatus.FAILED_RETRY, FailureCause.ACK_TIMEOUT)
    assert 60 <= (step.due_at - story.now).total_seconds() <= 66
    assert story.record.job.status is JobStatus.QUEUED


def test_lease_expiry_uses_the_execution_backoff() -> None:
    """A service that goes silent after its ACK loses the lease after 15 minutes."""
    story = Story()
    story.recorded()
    story.after(1).replied("ACK")
    assert story.after(899).occurs(DeadlinePassed("ocr", 1)).reason_code == "LEASE_STILL_RUNS"
    story.after(1).occurs(DeadlinePassed("ocr", 1))
    assert story.step().retry_cause is FailureCause.LEASE_EXPIRED
    assert 5 <= (story.step().due_at - story.now).total_seconds() <= 5.5


@pytest.mark.parametrize("type_", ["ACK", "HEARTBEAT", "RESULT"])
def test_timed_out_attempt_is_revived(type_: str) -> None:
    """A reply that comes after the time-out and before the next attempt revives the attempt."""
    story = Story()
    story.recorded()
    story.after(30).occurs(DeadlinePassed("ocr", 1))
    assert story.after(1).replied(type_).transitioned
    expected = StepStatus.SUCCEEDED if type_ == "RESULT" else StepStatus.PROCESSING
    assert (story.step().status, story.step().attempt_no, story.step().ack_failures) == (expected, 1, 0)
    assert story.step().due_at is None


def test_first_result_of_an_attempt_stands() -> None:
    """After a retryable RESULT, a second RESULT of the same attempt is late."""
    story = Story()
    story.recorded()
    story.after(1).replied("RESULT", status="FAILED_RETRY")
    late = story.after(1).replied("RESULT")
    assert (late.kind, late.reason_code) == (OutcomeKind.IGNORED, "LATE")
    assert story.step().status is StepStatus.FAILED_RETRY


def test_heartbeat_is_written_once_a_quarter_of_the_lease() -> None:
    """A heartbeat restarts the lease, but only one a quarter of the lease costs a write."""
    story = Story()
    story.recorded()
    story.after(1).replied("ACK")
    early = story.after(100).replied("HEARTBEAT")
    assert (early.reason_code, early.events) == ("HEARTBEAT_NOT_DUE", ())
    assert story.after(125).replied("HEARTBEAT").transitioned
    assert (story.step().lease_expires_at - story.now).total_seconds() == 900


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"attempt_no": 2}, "STALE_ATTEMPT"),
        ({"lease_id": "another"}, "STALE_ATTEMPT"),
    ],
)
def test_foreign_replies_change_nothing_but_the_history(fields: dict[str, object], why: str) -> None:
    """A reply of another attempt or lease becomes an EVENT row and nothing else."""
    story = Story()
    story.recorded()
    before = story.record
    outcome = story.after(1).replied("RESULT", **fields)
    assert (outcome.kind, outcome.reason_code) == (OutcomeKind.IGNORED, why)
    assert story.record.steps == before.steps
    touched = {
        name for name in before.job.__dataclass_fields__ if getattr(before.job, name) != getattr(story.record.job, name)
    }
    assert touched == {"event_seq", "event_hash", "suppressed", "updated_at"}


@pytest.mark.parametrize(
    ("fields", "why"), [({"tenant_id": "tenant_b"}, "TENANT_MISMATCH"), ({"stepId": "nothing"}, "UNKNOWN_STEP")]
)
def test_what_is_none_of_the_job_leaves_nothing_in_it(fields: dict[str, object], why: str) -> None:
    """Foreign text does not enter a tenant's history: a reply for another tenant or an unknown step is refused."""
    story = Story()
    story.recorded()
    before = story.record
    outcome = story.after(1).replied("RESULT", **fields)
    assert (outcome.kind, outcome.reason_code, outcome.events) == (OutcomeKind.REFUSED, why, ())
    assert story.record is before


def test_a_flood_of_late_replies_is_only_counted() -> None:
    """After 20 ignored replies of a job no further EVENT rows are written, whatever attempts they name."""
    story = Story()
    story.recorded()
    story.replied("ACK")
    for number in range(25):
        story.replied("ACK", attempt_no=1 + number)
    assert sum(event.type == "REPLY_IGNORED" for event in story.events) == 20
    assert story.record.job.suppressed == 25


def test_publish_faults_use_up_no_attempt() -> None:
    """The same attempt waits out the dispatch backoffs; when they are used up the step fails for good."""
    story = Story()
    story.recorded()
    for wait_s in (30, 120, 600):
        story.after(1).occurs(PublishFailed("ocr", 1, "the bus is away"))
        assert wait_s <= (story.step().due_at - story.now).total_seconds() <= wait_s * 1.1
        assert (story.step().status, story.step().attempt_no) == (StepStatus.INITIATED, 1)
        story.after(wait_s * 1.1)
    story.occurs(PublishFailed("ocr", 1, "the bus is away"))
    assert (story.record.job.status, story.record.job.error_code) == (JobStatus.FAILED_FINAL, "DISPATCH_FAILED")
    assert story.record.job.attempts_total == 1


def test_terminal_jobs_never_move() -> None:
    """Every occurrence on an ended job leaves its rows as they are."""
    story = Story()
    story.recorded()
    story.replied("RESULT", status="FAILED_FINAL")
    ended = story.record
    occurrences = [RecordAttempt("ocr", "lease"), DeadlinePassed("ocr", 1), PublishFailed("ocr", 1, "x")]
    occurrences += [Control(kind) for kind in ControlKind]
    for occurrence in occurrences:
        story.after(2000).occurs(occurrence)
    for type_ in ("ACK", "HEARTBEAT", "RESULT"):
        story.after(1).replied(type_)
    assert story.record.steps == ended.steps
    assert story.record.job.status is ended.job.status


def test_an_earlier_step_must_have_succeeded() -> None:
    """No step is dispatched before the one in front of it has succeeded."""
    story = Story()
    assert story.recorded("embedding").reason_code == "EARLIER_STEP_UNSETTLED"
