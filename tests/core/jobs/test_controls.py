import pytest

from shared.core.jobs.occurrences import Control, ControlKind
from shared.core.jobs.outcome import OutcomeKind
from shared.core.jobs.states import JobStatus, StepStatus
from tests.jobs import Story


def asked(story: Story, kind: ControlKind) -> OutcomeKind:
    return story.occurs(Control(kind)).kind


def test_cancel_with_nothing_in_flight_is_at_once() -> None:
    """CANCELLED takes every step with it."""
    story = Story()
    assert asked(story, ControlKind.CANCEL) is OutcomeKind.MOVED
    assert story.record.job.status is JobStatus.CANCELLED
    assert {step.status for step in story.record.steps} == {StepStatus.CANCELLED}
    assert story.events[-1].data["steps_cancelled"] == ["ocr", "embedding", "sis"]
    assert asked(story, ControlKind.CANCEL) is OutcomeKind.IGNORED
    assert asked(story, ControlKind.PAUSE) is OutcomeKind.REFUSED


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"])
def test_cancel_waits_for_the_attempt_in_flight(status: str) -> None:
    """CANCELLING ends as CANCELLED with the RESULT of the attempt, whatever its status."""
    story = Story()
    story.recorded()
    story.replied("ACK")
    asked(story, ControlKind.CANCEL)
    assert story.record.job.status is JobStatus.CANCELLING
    story.replied("RESULT", status=status)
    assert story.record.job.status is JobStatus.CANCELLED
    assert story.record.job.error_code is None
    assert all(step.status.terminal for step in story.record.steps)


def test_pause_means_drained_and_the_backoff_stands_still() -> None:
    """PAUSED begins when nothing is in flight; what was left of a backoff is left after resume."""
    story = Story()
    story.recorded()
    asked(story, ControlKind.PAUSE)
    assert story.record.job.status is JobStatus.PAUSING
    story.after(1).replied("RESULT", status="FAILED_RETRY")
    job = story.record.job
    assert (job.status, job.drained_at, job.park_no) == (JobStatus.PAUSED, story.now, 1)
    left = story.step().due_at - story.now
    story.after(86_400 * 3)
    assert asked(story, ControlKind.RESUME) is OutcomeKind.MOVED
    assert story.record.job.status is JobStatus.IN_PROGRESS
    assert story.step().due_at - story.now == left


def test_resume_takes_a_pause_back() -> None:
    """A resume while PAUSING cancels the pause."""
    story = Story()
    story.recorded()
    asked(story, ControlKind.PAUSE)
    assert asked(story, ControlKind.RESUME) is OutcomeKind.MOVED
    assert (story.record.job.status, story.record.job.park_no) == (JobStatus.QUEUED, 0)
    assert asked(story, ControlKind.RESUME) is OutcomeKind.IGNORED


def test_last_step_that_succeeds_while_pausing_ends_the_job() -> None:
    """There is nothing left to pause."""
    story = Story()
    for step_id in ("ocr", "embedding", "sis"):
        story.recorded(step_id)
        if step_id == "sis":
            asked(story, ControlKind.PAUSE)
        story.replied("RESULT", step_id)
    assert story.record.job.status is JobStatus.SUCCEEDED


def test_cancel_overrides_pause() -> None:
    """A paused job is cancelled at once, a pausing one when its attempt ends."""
    story = Story()
    asked(story, ControlKind.PAUSE)
    assert story.record.job.status is JobStatus.PAUSED
    asked(story, ControlKind.CANCEL)
    assert story.record.job.status is JobStatus.CANCELLED


def test_nothing_is_dispatched_for_a_paused_job() -> None:
    """Recording an attempt is refused while the job is paused."""
    story = Story()
    asked(story, ControlKind.PAUSE)
    assert story.recorded().kind is OutcomeKind.REFUSED
