"""Public events: each EVENT row and each transition has its decision, and every process makes the same ones (R70)."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from cloudevents.http import from_json
from jsonschema import ValidationError

from shared.apidocs import event_schemas
from shared.contracts.messages import MAX_SENDER
from shared.core.events.event_types import OF_HOOKS, OF_LOGS, PAYLOADS, PublicType
from shared.core.events.public_events import (
    ARRIVALS,
    MAX_EVENT_BYTES,
    MOVES,
    ROWS,
    Issuer,
    encode_json,
    find_public_types,
    format_instant,
    make_public_events,
    number_event,
)
from shared.core.jobs.as_of import make_creation_data
from shared.core.jobs.history import EventType, Provenance, append
from shared.core.jobs.job import Event, Record
from shared.core.jobs.occurrences import Control, ControlKind, DeadlinePassed, Redriven, Replayed
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JOB_CREATION, JOB_TABLE
from tests.event_checks import check_event
from tests.jobs import DEFAULTS, START, Story, planned

ISSUER = Issuer("test", "https://lucius.example")


def created(record: Record) -> Event:
    provenance = Provenance(cause_id="create", actor="ann", source="http", at=START, salt="")
    before = record.with_job(event_seq=0, event_hash="")
    return append(None, before, EventType.JOB_CREATED, provenance, data=make_creation_data(record))[1]


def types(event: Any) -> list[str]:
    return [each.value for each in find_public_types(event)]


def test_every_event_type_is_decided_on() -> None:
    """A new type of EVENT row without a decision fails here."""
    assert set(ROWS) == set(EventType)
    assert set(PAYLOADS) == set(PublicType)


def test_every_move_is_decided_on() -> None:
    """One row of the table moves a job, or two in one EVENT row: the ACK and its effect."""
    one = {(state, JobStatus(row.to)) for state, rows in JOB_TABLE.items() for row in rows.values()}
    two = {(first, last) for (first, middle), (again, last) in product(one, one) if middle == again}
    created = {(None, JobStatus(row.to)) for row in JOB_CREATION.values()}
    moves = {move for move in one | created if move[0] != move[1] and move[1] not in ARRIVALS}
    assert moves == set(MOVES)
    # a second transition of the same EVENT row follows the first ACK, the only trigger that leaves QUEUED
    acked = {(JobStatus.QUEUED, last) for first, last in one if first is JobStatus.IN_PROGRESS}
    assert acked <= two
    assert {move for move in acked if move[0] != move[1] and move[1] not in ARRIVALS} <= set(MOVES)


def test_the_life_of_a_job() -> None:
    story = Story(planned(labels={"team": "a"}))
    rows = [created(planned(labels={"team": "a"}))]
    for step in ("ocr", "embedding", "sis"):
        story.recorded(step)
        story.after(1).replied("ACK", step)
        story.after(400).replied("HEARTBEAT", step, progress={"page": 2}, worker_id="w-1")
        story.after(5).replied("RESULT", step)
    rows += story.events
    found = [each for event in rows for each in make_public_events(event, story.record.job)]
    running = ["job.leased", "job.progress", "job.step.completed"]
    assert [each["type"] for each in found] == [
        *("job.queued", "job.leased", "job.started", "job.progress", "job.step.completed"),
        *running,
        *running,
        "job.completed",
    ]
    ids = [each["id"] for each in found]
    assert len(set(ids)) == len(ids)
    assert ids[-2:] == [f"job_1:{story.events[-1].seq}:0", f"job_1:{story.events[-1].seq}:1"]
    last = found[-1]["data"]
    assert last["payload"]["status"] == "SUCCEEDED"
    assert last["payload"]["duration"] == (story.now - START).total_seconds()
    assert last["payload"]["result"] == story.record.job.final_output
    progress = found[3]["data"]
    assert progress["payload"]["progress"] == {"page": 2}
    assert progress["provenance"]["workerId"] == "w-1"
    assert progress["provenance"]["leaseId"].startswith("sha256:")
    assert progress["labels"] == {"team": "a"}
    # any process that makes it later, from the job's state then, makes the same
    assert [each for event in rows for each in make_public_events(event, planned(labels={"team": "a"}).job)] == found


def test_what_goes_wrong() -> None:
    story = Story()
    story.recorded()
    story.after(31).occurs(DeadlinePassed("ocr", 1))
    assert types(story.events[-1]) == ["job.retrying"]
    [retrying] = make_public_events(story.events[-1], story.record.job)
    assert retrying["data"]["payload"]["nextEligibleAt"] == format_instant(story.step().due_at)
    story.after(60).recorded()
    story.replied("RESULT", status="FAILED_FINAL", error={"code": "PDF", "message": "locked"}, result_ref=None)
    assert types(story.events[-1]) == ["job.started", "job.failed"]
    failed = make_public_events(story.events[-1], story.record.job)[1]
    assert failed["data"]["payload"]["error"] == {"code": "PDF", "message": "locked"}
    story.occurs(Redriven("job_2"))
    [redriven] = make_public_events(story.events[-1], story.record.job)
    assert redriven["data"]["payload"]["redrivenBy"] == "job_2"


def test_an_attempt_that_fails_as_the_one_before() -> None:
    """The row's `changes` name no error then; the event has it, of a time-out its code."""

    def error_of(story: Story) -> Any:
        event = make_public_events(story.events[-1], story.record.job)[-1]
        story.after(1000)
        return event["data"]["payload"]["error"]

    by_reply, by_time = Story(), Story()
    for error in ({"code": "PDF", "message": "locked"}, {"code": "PDF"}):
        for _ in range(2):
            by_reply.recorded()
            by_reply.after(1).replied("RESULT", status="FAILED_RETRY", error=error, result_ref=None, reason="a bad day")
            assert error_of(by_reply) == {"message": "a bad day", **error}
        by_reply = Story()
    errors = []
    for attempt_no in (1, 2):
        by_time.recorded()
        by_time.after(31).occurs(DeadlinePassed("ocr", attempt_no))
        errors.append(error_of(by_time))
    assert errors == [{"code": "ACK_TIMEOUT", "message": "no ACK within 30 s"}, {"code": "ACK_TIMEOUT"}]


def test_attempts_that_all_take_too_long() -> None:
    """Each has its own reason: the type of its row would report a silent service."""
    story, codes = Story(planned(defaults=replace(DEFAULTS, lease_s=300, attempt_max_s=100))), []
    for attempt_no in (1, 2):
        story.recorded()
        story.after(10).replied("ACK")
        story.after(100).occurs(DeadlinePassed("ocr", attempt_no))
        [retrying] = make_public_events(story.events[-1], story.record.job)
        codes.append((retrying["type"], retrying["data"]["payload"]["error"]["code"]))
        story.after(1000)
    assert codes == [("job.retrying", "TIME_EXCEEDED")] * 2


def test_controls() -> None:
    story = Story()
    for kind, expected in (("PAUSE", "job.paused"), ("RESUME", "job.resumed"), ("CANCEL", "job.canceled")):
        story.after(1).occurs(Control(ControlKind(kind)))
        assert types(story.events[-1]) == [expected]
    story = Story()
    story.recorded()
    story.occurs(Control(ControlKind.CANCEL))
    assert types(story.events[-1]) == []  # the attempt in flight may end


def test_an_envelope_is_a_cloud_event() -> None:
    story = Story(planned(traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"))
    story.recorded()
    [leased] = make_public_events(story.events[-1], story.record.job)
    whole = number_event(leased, 7, ISSUER)
    read = from_json(json.dumps(whole))
    assert read["type"] == "job.leased"
    assert read["id"] == read.data["eventId"] == "job_1:2:0"
    assert read["source"] == "/lucius/test/tenant_a"
    assert read["sequence"] == "00000000000000000007"
    assert read["dataschema"] == "https://lucius.example/v1/schemas/events/job.leased"
    assert read["traceparent"].startswith("00-4bf9")
    # CloudEvents 1.0: names of attributes are lower-case letters and digits
    assert all(name.isalnum() and name.islower() for name in whole)


def test_the_largest_event_fits_a_column() -> None:
    """With any text of callers and services, in characters of four bytes."""
    wide = "\N{OLD ITALIC LETTER A}"
    labels = {f"{wide * 120}{number}": wide * 512 for number in range(32)}
    record = planned(idempotency_key=wide * 512, labels=labels, correlation_id=wide * 128)
    story = Story(record.with_job(request_type=wide * 128, correlation_id=wide * 128))
    story.recorded()
    story.replied("ACK")
    # a heartbeat stores at most 4,096 bytes of it
    text = wide * 1_000
    story.after(400).replied("HEARTBEAT", progress={"text": text}, worker_id=wide * 60_000, task_runner_id=wide * 256)
    [progress] = make_public_events(story.events[-1], story.record.job)
    assert progress["data"]["payload"]["progress"] == {
        "omitted": len(encode_json({"text": text})),
        "href": f"/v1/jobs/job_1?asOf={story.events[-1].seq}",
    }
    assert progress["data"]["labels"]["omitted"] > 60_000
    assert len(progress["data"]["provenance"]["workerId"]) == MAX_SENDER
    story.replied("RESULT", status="FAILED_FINAL", error={"code": "E", "message": wide * 60_000}, result_ref=None)
    for event in story.events:
        for each in make_public_events(event, story.record.job):
            assert len(encode_json(number_event(each, 10**19, ISSUER))) <= MAX_EVENT_BYTES


def test_events_are_as_their_schemas_describe() -> None:
    """An event of each type of a job, and the example of each type, which the `cloudevents` package reads too."""
    story = Story(planned(labels={"team": "a"}, idempotency_key="k"))
    story.recorded()
    story.after(31).occurs(DeadlinePassed("ocr", 1))
    story.after(60).recorded()
    story.replied("ACK")
    story.after(400).replied("HEARTBEAT", progress={"text": "x" * 5_000})
    story.replied("RESULT", status="FAILED_FINAL", error={"code": "PDF", "message": "y" * 5_000}, result_ref=None)
    story.occurs(Redriven("job_2"))
    story.occurs(Replayed("job_3", "compare"))
    done, controlled = Story(), Story()
    for step in ("ocr", "embedding", "sis"):
        done.recorded(step)
        done.replied("RESULT", step)
    for kind in (ControlKind.PAUSE, ControlKind.RESUME, ControlKind.CANCEL):
        controlled.occurs(Control(kind))
    queued = created(planned())
    waits = [replace(queued, job_to=status) for status in (JobStatus.WAITING_FOR_JOBS, JobStatus.THROTTLED)]
    admitted = replace(queued, type=EventType.ADMITTED, job_from=JobStatus.THROTTLED)
    events = [queued, *waits, admitted, *story.events, *done.events, *controlled.events]
    real = [number_event(each, 7, ISSUER) for event in events for each in make_public_events(event, story.record.job)]
    assert {each["type"] for each in real} == {*PublicType} - OF_HOOKS - OF_LOGS
    for each in [*real, *(event_schemas.example(type_) for type_ in PublicType)]:
        check_event(each)
        assert from_json(json.dumps(each))["type"] == each["type"]
        with pytest.raises(ValidationError):
            check_event({**each, "sequence": "7"})


def test_rows_without_data_and_of_a_later_release() -> None:
    story = Story()
    story.recorded()
    story.replied("ACK")
    withheld = replace(story.events[-1], data=None)
    assert types(withheld) == []
    assert types(replace(withheld, type="SOMETHING_NEW", job_to="ELSEWHERE")) == []
    assert types(replace(story.events[0], job_from="QUEUED", job_to="ELSEWHERE")) == ["job.leased"]
