"""What the audit finds in a history whose hashes were made to fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.history import event_hash
from shared.core.job import Event
from shared.core.plan import plan_job
from shared.core.routing import decide_lane
from shared.views.audit import bundle, verify
from tests.jobs import DEFAULTS, START, Story, envelope, registry


def history() -> tuple[Story, list[Event]]:
    """A job with its first attempt taken up, and all its events."""
    request = envelope()
    protocol = registry().find(request.request_type)
    assert protocol is not None
    lane = decide_lane(request, default_mode="DEFAULT", lanes=16)
    record, created = plan_job(
        request,
        protocol,
        lane,
        DEFAULTS,
        job_id="job_1",
        created_at=START,
        correlation_id="corr-1",
        workspace_uri="https://account.blob.core.windows.net/workspace",
    )
    story = Story(record)
    story.recorded()
    story.after(3).replied("ACK")
    return story, [created, *story.events]


def forged(story: Story, events: list[Event], transitions: list[str]) -> list[str]:
    """The findings of the audit for a history whose last event names other rows, with every hash computed again."""
    *earlier, last = events
    last = replace(last, data={**last.data, "transitions": transitions})
    last = replace(last, hash=event_hash(vars(last)))
    record = story.record.with_job(event_hash=last.hash)
    return verify(bundle(record, [*earlier, last], story.now))


def test_the_rows_that_were_used_are_proved() -> None:
    """They lead from the states before an event to those after it."""
    story, events = history()
    assert forged(story, events, events[-1].data["transitions"]) == []


@pytest.mark.parametrize(
    "transitions",
    [
        [],
        ["step:ocr INITIATED ACK"],
        ["step:ocr INITIATED SUCCEED", "job QUEUED ACKED"],
        ["step:ocr PENDING ACK", "job QUEUED ACKED"],
        ["step:ocr PROCESSING HEARTBEAT", "job QUEUED ACKED"],
        ["step:embedding INITIATED ACK", "job QUEUED ACKED"],
        ["nonsense"],
    ],
)
def test_rows_that_do_not_lead_there_are_found(transitions: list[str]) -> None:
    """None, too few, another row's, one that the tables do not have, another step's, or nothing readable."""
    story, events = history()
    assert forged(story, events, transitions)
