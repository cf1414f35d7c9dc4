"""Findings of the audit for a history whose hashes were recomputed."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from shared.api.audit import bundle
from shared.api.job import event_response, job_response
from shared.core.jobs.as_of import NOT_FOLDED
from shared.core.jobs.history import event_hash, lease_digest
from shared.core.jobs.job import Event, Job, Step
from shared.core.jobs.plan import compute_digests, plan_job, with_first_event
from shared.core.jobs.routing import decide_lane
from tests.audit_bundles import faults
from tests.jobs import DEFAULTS, RETENTION, START, Story, body, envelope, registry


def history() -> tuple[Story, list[Event]]:
    """A job with its first attempt taken up, and all its events."""
    request = envelope()
    protocol = registry().find(request.request_type)
    assert protocol is not None
    lane = decide_lane(request, default_mode="DEFAULT", lanes=16)
    planned = plan_job(
        request,
        protocol,
        lane,
        DEFAULTS,
        job_id="job_1",
        created_at=START,
        correlation_id="corr-1",
        workspace_uri="https://account.blob.core.windows.net/workspace",
        identity=compute_digests(request),
    )
    record, created = with_first_event(planned, "")
    story = Story(record)
    story.recorded()
    story.after(3).replied("ACK")
    return story, [created, *story.events]


def forged(story: Story, events: list[Event], transitions: list[str]) -> list[str]:
    """Returns the findings for a history whose last event names other rows, with every hash computed again."""
    *earlier, last = events
    last = replace(last, data={**last.data, "transitions": transitions})
    last = replace(last, hash=event_hash(vars(last)))
    record = story.record.with_job(event_hash=last.hash)
    return faults(bundle(record, [*earlier, last], story.now))


def test_the_rows_that_were_used_are_verified() -> None:
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


COLUMNS = [(row, field.name) for row in (Job, Step) for field in fields(row) if field.name not in NOT_FOLDED]


@pytest.mark.parametrize(("row", "column"), COLUMNS)
def test_every_column_is_verified(row: type[Job | Step], column: str) -> None:
    """A column that is changed without an EVENT is found, also if the digests match."""
    story, events = history()
    record = story.record
    if row is Job:
        record = record.with_job(**{column: "another"})
    else:
        record = replace(record, steps=(replace(record.steps[0], **{column: "another"}), *record.steps[1:]))
    document = bundle(record, events, story.now)
    assert faults(document), column


def test_nobody_but_the_step_has_the_lease() -> None:
    """No bundle, event or response has it; all of them have its digest."""
    story, events = history()
    lease = story.step().lease_id
    shown = [
        bundle(story.record, events, story.now),
        *map(body, map(event_response, events)),
        body(job_response(story.record, RETENTION)),
    ]
    assert lease not in json.dumps(shown)
    assert json.dumps(shown).count(lease_digest(lease)) > 4
