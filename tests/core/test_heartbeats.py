"""Silence is detected at twice the cadence, and a service that sends heartbeats is never silent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.job import Record
from shared.core.occurrences import DeadlinePassed
from shared.core.states import StepStatus
from tests.jobs import Story, planned

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
    """Whether a timer that fires now ends the attempt."""
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
