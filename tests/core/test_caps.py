from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import (
    Control,
    ControlKind,
    DeadlinePassed,
    LaneBacklog,
    PublishFailed,
    ReplyArrived,
)
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus
from tests.jobs import DEFAULTS, START, Story, next_attempt, planned, reply


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
    assert story.record.job.error_message == "the total timeout of the step is over, or ends before the next retry"


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
    assert story.record.job.error_message == "the total timeout of the job is over, or ends before the next retry"
    assert story.step("embedding").attempt_no == 0


@pytest.mark.parametrize(("step_s", "types"), [(None, ["RESULT", "ATTEMPT_RECORDED"]), (100, ["RESULT"])])
def test_a_steps_own_total_time_begins_with_its_dispatch(step_s: float | None, types: list[str]) -> None:
    """A RESULT records no attempt of a step that has one: an engine that is late would use it up."""
    story = Story()
    following = story.step("embedding")
    timings = replace(following.timings, total_timeout_s=step_s)
    story.record = story.record.with_step(replace(following, timings=timings))
    story.recorded()
    result = ReplyArrived(reply(story.record, "RESULT"), next_attempt=next_attempt(story.record, "ocr"))
    assert [event.type for event in story.occurs(result).events] == types
    assert story.step("embedding").deadline_at is None


def test_a_late_result_within_the_lease_still_counts() -> None:
    """The limit is enforced by a check; a RESULT that comes first is accepted."""
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
    """The rest of both time limits continues after a resume."""
    story = capped(step_s=300, job_s=500)
    story.recorded()
    story.after(1).replied("RESULT", status="FAILED_RETRY")
    story.occurs(Control(ControlKind.PAUSE))
    left = (story.step().deadline_at - story.now, story.record.job.deadline_at - story.now)
    story.after(86_400).occurs(Control(ControlKind.RESUME))
    assert (story.step().deadline_at - story.now, story.record.job.deadline_at - story.now) == left


#: a step with a maximum of 1,000 s per attempt from the ACK, with a lease of 300 s
BOUNDED = replace(DEFAULTS, lease_s=300, attempt_max_s=1000)


def busy(beats: int = 0) -> Story:
    """At work since its ACK at 10 s, with a heartbeat every 250 s."""
    story = Story(planned(defaults=BOUNDED))
    story.recorded()
    story.after(10).replied("ACK")
    for _ in range(beats):
        assert story.after(250).replied("HEARTBEAT").transitioned
    return story


def at(story: Story, seconds: float) -> Story:
    story.now = START + timedelta(seconds=seconds)
    return story


def test_no_heartbeat_extends_an_attempts_longest_time() -> None:
    """A service that continues to work loses the attempt; the next one has its own maximum."""
    story = busy(beats=3)
    assert story.step().lease_expires_at == story.step().attempt_deadline_at == START + timedelta(seconds=1010)
    assert not at(story, 1009).replied("HEARTBEAT").transitioned
    at(story, 1010).occurs(DeadlinePassed("ocr", 1))
    step = story.step()
    assert (step.status, step.retry_cause) == (StepStatus.FAILED_RETRY, FailureCause.LEASE_EXPIRED)
    assert (step.last_error_code, step.last_error_message) == (
        "TIME_EXCEEDED",
        "the attempt reached its maximum time",
    )
    story.now = step.due_at
    story.recorded()
    assert (story.step().attempt_no, story.step().attempt_deadline_at) == (2, None)
    story.after(5).replied("HEARTBEAT")
    assert story.step().attempt_deadline_at == story.now + timedelta(seconds=1000)


def test_the_last_attempt_that_lasts_too_long_ends_the_job() -> None:
    """As an expired lease does; the step has the reason."""
    story = busy(beats=3)
    first = story.step()
    story.record = story.record.with_step(replace(first, timings=replace(first.timings, max_attempts=1)))
    at(story, 1010).occurs(DeadlinePassed("ocr", 1))
    assert (story.record.job.error_code, story.step().last_error_code) == ("ATTEMPTS_EXHAUSTED", "TIME_EXCEEDED")


def test_silence_keeps_its_own_name() -> None:
    """A read long after the lease's end still shows that the service was silent."""
    story = busy(beats=1)
    at(story, 5000).occurs(DeadlinePassed("ocr", 1))
    assert story.step().last_error_code == "LEASE_EXPIRED"


@pytest.mark.parametrize("type_", ["ACK", "HEARTBEAT"])
def test_only_finished_work_revives_an_attempt_that_lasted_too_long(type_: str) -> None:
    """A sign of life is late, and its RESULT is taken until the next attempt is recorded."""
    story = busy(beats=3)
    at(story, 1010).occurs(DeadlinePassed("ocr", 1))
    assert story.after(1).replied(type_).reason_code == "LATE"
    assert story.replied("RESULT").transitioned
    assert story.step().status is StepStatus.SUCCEEDED


def test_a_revived_attempt_counts_from_its_first_ack() -> None:
    """Silence and a sign of life give no new longest time."""
    story = busy()
    at(story, 310).occurs(DeadlinePassed("ocr", 1))
    assert story.after(1).replied("HEARTBEAT").transitioned
    assert story.step().attempt_deadline_at == START + timedelta(seconds=1010)


def test_our_backlog_is_waited_for_past_an_attempts_longest_time() -> None:
    """Its RESULT may be among the replies that wait; a heartbeat from before neither extends nor shortens that."""
    story = busy(beats=3)
    assert at(story, 1010).occurs(LaneBacklog("ocr", 1, "unread replies wait on the lane")).transitioned
    until = story.step().silent_until
    assert until > story.now
    assert not story.after(1).replied("HEARTBEAT").transitioned
    assert story.step().silent_until == until
    assert story.replied("RESULT").transitioned


def test_a_pause_does_not_stop_a_service() -> None:
    """An attempt's maximum is its service's, which continues; the job's clocks stop."""
    story = busy()
    story.occurs(Control(ControlKind.PAUSE))
    at(story, 310).occurs(DeadlinePassed("ocr", 1))
    assert story.record.job.status is JobStatus.PAUSED
    deadline = story.record.job.deadline_at
    story.after(2000).occurs(Control(ControlKind.RESUME))
    assert story.record.job.deadline_at - deadline == timedelta(seconds=2000)
    assert story.step().attempt_deadline_at == START + timedelta(seconds=1010)


def test_every_job_and_attempt_has_a_longest_time() -> None:
    """The settings' where the protocol names none, frozen in the rows."""
    record = planned(defaults=BOUNDED)
    assert record.job.deadline_at == START + timedelta(seconds=604_800)
    assert {step.timings.attempt_max_s for step in record.steps} == {1000}
