from dataclasses import replace

from shared.core.job import Record
from shared.core.occurrences import Control, ControlKind, DeadlinePassed, PublishFailed
from shared.core.states import JobStatus, StepStatus
from tests.jobs import START, Story, planned


def capped(*, step_s: float | None = None, job_s: float | None = None) -> Story:
    record = planned()
    first = replace(record.steps[0], timings=replace(record.steps[0].timings, total_timeout_s=step_s))
    story = Story(Record(record.job, (first, *record.steps[1:])))
    if job_s is not None:
        story.record = story.record.with_job(deadline_at=story.after(job_s).now)
        story.now = START
    return story


def ended_for_time(story: Story) -> bool:
    job = story.record.job
    return (job.status, job.error_code) == (JobStatus.FAILED_FINAL, "TIME_EXCEEDED")


def test_the_steps_cap_ends_the_lease() -> None:
    """No lease outlives the total time of the step; when it is over, attempts that are left do not matter."""
    story = capped(step_s=100)
    story.recorded()
    story.after(10).replied("ACK")
    assert (story.step().lease_expires_at - story.now).total_seconds() == 90
    story.after(90).occurs(DeadlinePassed("ocr", 1))
    assert ended_for_time(story)
    assert story.record.job.error_message == "the total time of the step is over"


def test_a_backoff_past_the_cap_fails_at_once() -> None:
    """There is no point in waiting for an attempt that may not be made."""
    story = capped(step_s=100)
    story.recorded()
    story.after(30).occurs(DeadlinePassed("ocr", 1))
    assert story.step().status is StepStatus.FAILED_RETRY
    story = capped(step_s=80)
    story.recorded()
    story.after(30).occurs(DeadlinePassed("ocr", 1))
    assert ended_for_time(story)


def test_the_jobs_cap_counts_from_its_creation() -> None:
    """A job whose time is over starts no further step."""
    story = capped(job_s=100)
    story.recorded()
    story.after(90).replied("RESULT")
    story.after(10).recorded("embedding")
    assert ended_for_time(story)
    assert story.record.job.error_message == "the total time of the job is over"
    assert story.step("embedding").attempt_no == 0


def test_a_late_result_within_the_lease_still_counts() -> None:
    """The cap is enforced when somebody looks; a RESULT that comes first is taken."""
    story = capped(job_s=100)
    story.recorded()
    story.after(5).replied("ACK")
    assert story.after(100).replied("RESULT").transitioned
    assert story.step().status is StepStatus.SUCCEEDED


def test_publish_faults_respect_the_cap() -> None:
    """A dispatch backoff past the cap ends the job."""
    story = capped(step_s=20)
    story.recorded()
    story.after(1).occurs(PublishFailed("ocr", 1, "away"))
    assert ended_for_time(story)


def test_a_pause_stops_the_clock() -> None:
    """What was left of both caps is left after resume."""
    story = capped(step_s=300, job_s=500)
    story.recorded()
    story.after(1).replied("RESULT", status="FAILED_RETRY")
    story.occurs(Control(ControlKind.PAUSE))
    left = (story.step().deadline_at - story.now, story.record.job.deadline_at - story.now)
    story.after(86_400).occurs(Control(ControlKind.RESUME))
    assert (story.step().deadline_at - story.now, story.record.job.deadline_at - story.now) == left
