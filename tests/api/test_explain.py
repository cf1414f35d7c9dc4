from dataclasses import replace
from datetime import timedelta

import pytest

from shared.api.explain import explain
from shared.core.jobs.occurrences import Control, ControlKind, DeadlinePassed
from shared.core.jobs.states import JobStatus
from tests.jobs import DEFAULTS, START, Story, body, planned


def test_waiting_for_an_ack() -> None:
    """The attempt, its service, the deadline, and what follows."""
    story = Story()
    story.recorded()
    explanation = explain(story.record, story.now)
    assert explanation.waits_for == "the ACK of attempt 1 of 3 of step ocr by service ocr"
    assert (body(explanation)["since"], body(explanation)["until"]) == ("2026-01-27T10:00:00Z", "2026-01-27T10:00:30Z")
    assert (
        explanation.then == "If no ACK arrives by then and the lane has no backlog, attempt 2 follows after about 60 s."
    )
    assert explanation.what_if["ACK"] == "step PROCESSING, job IN_PROGRESS"
    assert explanation.what_if["RESULT FAILED_FINAL"] == "step FAILED_FINAL, job FAILED_FINAL"
    assert explanation.what_if["dispatch"] == "REFUSED: RECORD_IN_INITIATED"
    late = explain(story.record, story.after(30).now)
    assert late.waits_for == "the orchestration, which sends or ends attempt 1 of 3 of step ocr"
    assert late.then == "The time limit has passed, and the sweeper repairs the job."


def test_asking_changes_nothing() -> None:
    """The outcomes are computed without a commit: the record does not change."""
    story = Story()
    story.recorded()
    before = story.record
    explain(story.record, story.now)
    assert story.record is before


def test_backoff_pause_and_end() -> None:
    """Each state has its own words."""
    story = Story()
    story.recorded()
    story.after(30).occurs(DeadlinePassed("ocr", 1))
    assert explain(story.record, story.now).waits_for == "the backoff after ACK_TIMEOUT in attempt 1 of 3 of step ocr"
    story.occurs(Control(ControlKind.PAUSE))
    paused = explain(story.record, story.now)
    assert (paused.waits_for, paused.until) == ("a resume", None)
    story.occurs(Control(ControlKind.CANCEL))
    ended = explain(story.record, story.now)
    assert ended.text.startswith("Job job_1 CANCELLED at 2026-01-27T10:00:30Z, after 1 attempt.")
    assert ended.what_if == {}


def test_a_lease_that_ends_with_the_attempt_waits_for_its_result_alone() -> None:
    """No heartbeat extends an attempt past its longest time, so none is named."""
    story = Story()
    story.recorded()
    story.replied("ACK")
    assert explain(story.record, story.now).then.startswith(
        "If no RESULT or heartbeat arrives by then and the lane has no backlog, attempt 2"
    )
    for _ in range(17):
        story.after(850).replied("HEARTBEAT")
    explanation = explain(story.record, story.now)
    assert body(explanation)["until"] == "2026-01-27T14:00:00Z"
    assert explanation.then.startswith("If no RESULT arrives by then and the lane has no backlog, attempt 2")


def test_silence_at_the_end_of_the_total_time_fails_the_job() -> None:
    """No attempt follows if the total time ends before it, and the text agrees with `what_if`."""
    story = Story(planned(defaults=replace(DEFAULTS, total_timeout_s=60)))
    story.recorded()
    explanation = explain(story.record, story.now)
    assert explanation.then == (
        "If no ACK arrives by then and the lane has no backlog, the job is FAILED_FINAL. The total timeout of the step "
        "or job ends before another attempt."
    )
    assert explanation.what_if["deadline"] == "step FAILED_FINAL, job FAILED_FINAL"


def test_silence_of_a_pausing_or_cancelling_job() -> None:
    """A PAUSING job starts no attempt before a resume, and a CANCELLING job starts none."""
    story = Story()
    story.recorded()
    story.replied("ACK")
    story.occurs(Control(ControlKind.PAUSE))
    pausing = explain(story.record, story.now)
    assert pausing.then == (
        "If no RESULT or heartbeat arrives by then and the lane has no backlog, the job pauses. Attempt 2 follows "
        "after a resume."
    )
    assert pausing.what_if["deadline"] == "step FAILED_RETRY, job PAUSED"
    story.occurs(Control(ControlKind.CANCEL))
    assert explain(story.record, story.now).then == ("If no RESULT or heartbeat arrives by then, the job is CANCELLED.")


@pytest.mark.parametrize("kind", [ControlKind.PAUSE, ControlKind.CANCEL])
def test_a_pausing_or_cancelling_group_waits_for_its_step_in_flight(kind: ControlKind) -> None:
    """The first step of the group failed, so only the second one is in flight."""
    record = planned()
    story = Story(
        replace(record, steps=tuple(replace(step, group=0 if step.step_index < 2 else None) for step in record.steps))
    )
    story.recorded("ocr")
    story.recorded("embedding")
    story.replied("RESULT", "ocr", status="FAILED_RETRY")
    story.occurs(Control(kind))
    explanation = explain(story.record, story.now)
    assert explanation.waits_for == "the ACK of attempt 1 of 3 of step embedding by service embedding"
    assert explanation.what_if["RESULT SUCCEEDED"].startswith("step SUCCEEDED, job ")


def test_a_job_that_has_not_started_can_expire_or_fail_by_a_dependency() -> None:
    """The text names each end of the wait, also while the job is paused."""
    waiting = planned().with_job(
        status=JobStatus.WAITING_FOR_JOBS,
        staged_at=START,
        dependencies=["job_0"],
        expires_at=START + timedelta(hours=1),
    )
    expiry = "If the job has not started by 2026-01-27T11:00:00Z, the job is FAILED_FINAL."
    assert explain(waiting, START).then == (
        "After the dependencies have ended, LUCIUS checks the quotas of the job. If a dependency does not succeed, the "
        f"job is FAILED_FINAL. {expiry}"
    )
    paused = explain(waiting.with_job(status=JobStatus.PAUSED), START)
    assert paused.then == f"After a resume, the job waits for its dependencies again. {expiry}"
    assert paused.until == START + timedelta(hours=1)
    assert "waits for a resume, since 2026-01-27T10:00:00Z, until 2026-01-27T11:00:00Z at the latest." in paused.text
    throttled = explain(waiting.with_job(status=JobStatus.THROTTLED, dependencies=None), START)
    assert throttled.then == f"After its admission the job is QUEUED and starts. {expiry}"
    assert throttled.until == START + timedelta(hours=1)
