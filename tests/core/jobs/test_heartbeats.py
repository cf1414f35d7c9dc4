"""Silence is detected at twice the cadence, and a service that sends heartbeats is never silent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.contracts.messages import MAX_NOTE, MAX_PROGRESS_BYTES, MAX_SENDER
from shared.core.jobs.as_of import encode_columns, encode_value
from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import DeadlinePassed, ReplyArrived
from shared.core.jobs.reasons import IgnoreReason
from shared.core.jobs.replies import MAX_HEARTBEATS
from shared.core.jobs.states import StepStatus
from tests.jobs import Story, planned, reply

CADENCE_S = 20.0


def beating() -> Story:
    """In service, with a declared cadence."""
    record = planned()
    ocr = replace(record.steps[0], timings=replace(record.steps[0].timings, heartbeat_cadence_s=CADENCE_S))
    story = Story(Record(record.job, (ocr, *record.steps[1:])))
    story.recorded()
    story.after(1).replied("ACK")
    return story


def tries_to_end(story: Story) -> bool:
    """Returns whether a timer that fires now ends the attempt."""
    return story.occurs(DeadlinePassed("ocr", 1)).transitioned


@pytest.mark.parametrize("every_s", [1.0, 7.3, 9.9, 10.0, 13.0, 19.9, 20.0])
def test_a_service_that_beats_at_its_cadence_is_never_silent(every_s: float) -> None:
    """For hours, with a timer that fires at every beat, just before it and between two."""
    story = beating()
    writes = 0
    for _ in range(500):
        for part in (0.5, 0.499, 0.001):
            story.after(every_s * part)
            assert not tries_to_end(story)
        writes += story.replied("HEARTBEAT").transitioned
    assert story.step().status is StepStatus.PROCESSING
    # half a cadence has gone by between two writes at the least
    assert writes * CADENCE_S / 2 <= 500 * every_s + CADENCE_S


@pytest.mark.parametrize("every_s", [1.0, 7.3, 20.0])
def test_silence_is_seen_at_twice_the_cadence(every_s: float) -> None:
    """Never later than two cadences after the last heartbeat, never before one and a half."""
    story = beating()
    for _ in range(50):
        story.after(every_s).replied("HEARTBEAT")
    heard_at = story.now
    lease_ends = story.step().lease_expires_at
    silent_for = lease_ends - heard_at
    assert timedelta(seconds=1.5 * CADENCE_S) <= silent_for <= timedelta(seconds=2 * CADENCE_S)
    story.now = lease_ends - timedelta(microseconds=1)
    assert not tries_to_end(story)
    story.now = lease_ends
    assert tries_to_end(story)
    assert (story.step().status, story.step().last_error_code) == (StepStatus.FAILED_RETRY, "LEASE_EXPIRED")


PROGRESS_S = 30.0


def reports(story: Story, progress: object, **given: object) -> bool:
    """Returns whether a heartbeat with that progress is written."""
    beat = reply(story.record, "HEARTBEAT", progress=progress, **given)
    outcome = story.occurs(ReplyArrived(beat, PROGRESS_S))
    assert outcome.transitioned or outcome.reason_code is IgnoreReason.HEARTBEAT_NOT_DUE
    return outcome.transitioned


def working() -> Story:
    """In service, with a lease of 15 minutes and no cadence."""
    story = Story(planned())
    story.recorded()
    story.after(1).replied("ACK")
    return story


def test_new_progress_is_written_between_leases() -> None:
    """Every so many seconds, and it prolongs the lease; the same progress, or none, waits for the lease."""
    story = working()
    lease = timedelta(seconds=story.step().timings.running_lease_s)
    assert not reports(story.after(29), 0.1)
    assert reports(story.after(1), 0.1)
    assert (story.step().progress, story.step().lease_expires_at) == (0.1, story.now + lease)
    assert not reports(story.after(1), 0.2)
    assert not reports(story.after(60), 0.1)
    assert not story.after(60).replied("HEARTBEAT").transitioned
    assert reports(story.after(1), 0.2)
    assert reports(story.after(lease.total_seconds() / 4), 0.2)
    # an app that names no seconds goes by the lease alone, as jobs of before it did
    assert not story.after(60).replied("HEARTBEAT", progress=0.3).transitioned


def test_progress_is_shown_to_the_end_of_the_longest_attempt() -> None:
    """The lease cannot be prolonged any more, and nothing is taken after the end (R10)."""
    record = planned()
    timings = replace(record.steps[0].timings, attempt_max_s=120.0)
    story = Story(Record(record.job, (replace(record.steps[0], timings=timings), *record.steps[1:])))
    story.recorded()
    story.after(1).replied("ACK")
    ends = story.step().lease_expires_at
    assert [reports(story.after(35), number) for number in (1, 2, 3)] == [True] * 3
    assert story.step().lease_expires_at == ends
    assert not reports(story.after(35), 4)


def test_a_step_has_so_many_heartbeats_and_then_those_of_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over its attempts; the count is in no history, so that a release that drops it breaks none."""
    assert MAX_HEARTBEATS == 2_000
    monkeypatch.setattr("shared.core.jobs.replies.MAX_HEARTBEATS", 5)
    story = working()
    assert [reports(story.after(30), number) for number in range(7)] == [True] * 5 + [False] * 2
    assert story.step().heartbeats == 5
    assert reports(story.after(900 / 4), 8)
    story.replied("RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "later"}, result_ref=None)
    story.after(1000).recorded()
    story.after(1).replied("ACK")
    assert not reports(story.after(31), 9)
    assert "heartbeats" not in encode_columns(story.step())
    assert all("heartbeats" not in str(event.data) for event in story.events)


def test_a_history_of_a_release_that_drops_the_count_is_whole() -> None:
    story = working()
    assert reports(story.after(30), 1)
    dropped = replace(story.record, steps=tuple(replace(step, heartbeats=0) for step in story.record.steps))
    assert encode_columns(dropped.steps[0]) == encode_columns(story.step())
    story.record = dropped
    assert reports(story.after(30), 2)
    assert story.step().heartbeats == 1


LARGEST = "\u00e9" * ((MAX_PROGRESS_BYTES - 2) // 2)


@pytest.mark.parametrize("progress", [LARGEST + "x", {"pages": ["x" * 100] * 100}, [0] * 100_000])
def test_a_large_progress_does_not_fill_the_history(progress: object) -> None:
    """The heartbeat is written without it, and renews the lease; what was reported before stays."""
    story = working()
    assert reports(story.after(PROGRESS_S), LARGEST)
    assert not reports(story.after(PROGRESS_S), progress)
    before = story.step().lease_expires_at
    long = dict.fromkeys(("note", "worker_id", "task_runner_id"), "n" * 250_000)
    assert (
        story.after(story.step().timings.running_lease_s / 2)
        .replied("HEARTBEAT", progress=progress, **long)
        .transitioned
    )
    assert story.step().lease_expires_at > before
    assert story.step().progress == LARGEST
    data = encode_value(story.events[-1])["data"]
    assert [len(data[name]) for name in long] == [MAX_NOTE, MAX_SENDER, MAX_SENDER]
    assert len(str(data)) < MAX_PROGRESS_BYTES


def test_an_ack_with_a_large_progress_counts() -> None:
    """Its attempt is in service."""
    story = Story(planned())
    story.recorded()
    assert story.replied("ACK", progress="x" * 250_000).transitioned
    assert (story.step().status, story.step().progress) == (StepStatus.PROCESSING, None)


def test_the_request_of_a_pack_chooses_its_cadence() -> None:
    """It is in the frozen plan; another step type keeps that of its protocol, whatever its payload has."""
    pack = {"packId": "test", "packVersion": "1.0.0", "planHash": f"sha256:{'0' * 64}"}
    for payload, cadence_s in ((pack, 30), ({**pack, "heartbeatCadence": 15}, 15)):
        [step] = planned(request_type="PACK_RUN", payload=payload).steps
        assert (step.timings.heartbeat_cadence_s, step.timings.running_lease_s) == (cadence_s, 2 * cadence_s)
    [ocr] = planned(request_type="OCR", payload={"heartbeatCadence": 15}).steps
    assert ocr.timings.heartbeat_cadence_s is None
