"""Jobs of every released version end on this one: their histories, rows and messages are understood."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from functions_emulator.durable import wire
from functions_emulator.durable.events import Event, Instance, Kind, Status
from functions_emulator.durable.replay import Outcome, Replay
from orchestrations.job import job, step
from shared.adapters.tables import rows
from shared.contracts.messages import Directive, Reply
from shared.core.jobs import durable_names
from shared.core.jobs.directive import directive_of, encode_directive
from shared.core.jobs.job import Record
from tests.jobs import START
from tests.rollout.record import RECORDED, entities, sample, version

VERSIONS = sorted(path.name for path in RECORDED.iterdir())
HISTORIES = sorted(RECORDED.glob("*/*.history.json"))

#: replies as services of each version may send them, legacy forms included
REPLIES = [
    {"type": "ACK"},
    {"type": "ACK", "status": "ACKED"},
    {"type": "HEARTBEAT", "progress": 40, "note": "page 4 of 10"},
    {"type": "RESULT", "status": "SUCCEEDED", "result_ref": {"uri": "https://account.blob.core.windows.net/w/r.json"}},
    {"type": "RESULT", "status": "SUCCEEDED", "output_ref": "https://account.blob.core.windows.net/w/r.json"},
    {"type": "RESULT", "status": "FAILED_RETRY", "error": {"code": "BUSY", "message": "later"}, "metrics": {"ms": 1}},
    {"type": "RESULT", "status": "FAILED", "failure_class": "NON_RETRYABLE"},
    {"type": "RESULT", "status": "SUCCEEDED", "something_new": {"of": "a later service"}},
]


def replayed(instance: dict[str, Any], events: list[Event], of_version: str) -> tuple[Any, Outcome]:
    """Today's orchestrator on that much of its history."""
    function = {durable_names.JOB: job, durable_names.STEP: step}[instance["name"]]._function.get_user_function()
    identity = Instance(
        instance["instance_id"],
        instance["execution_id"],
        instance["name"],
        of_version,
        instance["input"],
        Status.RUNNING,
        None,
        None,
        START,
        START,
        None,
    )
    context = wire.encode_context(identity, events, len(events))
    reply = wire.decode_reply(function(func.OrchestrationContext(context)))
    return reply, Replay(reply, instance["execution_id"], lambda action: None).run(events)


def events_of(instance: dict[str, Any]) -> list[Event]:
    return [Event(Kind(kind), event_id, at, data) for kind, event_id, at, data in instance["events"]]


def test_this_version_is_recorded() -> None:
    """A new `defaultVersion` must be recorded with `python -m tests.rollout.record`."""
    assert version() in VERSIONS
    assert len(HISTORIES) >= 10


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_a_history_replays(path: Path) -> None:
    """After any episode, the current code requests the recorded next actions, and at the end none."""
    for instance in json.loads(path.read_text()):
        events = events_of(instance)
        ends = [number for number, event in enumerate(events) if event.kind is Kind.ORCHESTRATOR_COMPLETED]
        assert ends, instance["instance_id"]
        for end in ends:
            _, outcome = replayed(instance, events[: end + 1], path.parent.name)
            assert (outcome.failure, outcome.decisions) == (None, ()), (instance["instance_id"], end)
        reply, outcome = replayed(instance, events, path.parent.name)
        assert reply.done
        assert (json.loads(reply.output or "null"), outcome.finished) == (json.loads(instance["output"]), True)


@pytest.mark.parametrize("of_version", VERSIONS)
def test_rows_are_read(of_version: str) -> None:
    """Rows of that version are a job of this one, which would write every column with the same value."""
    kept = [
        {name: _value(value) for name, value in entity.items()}
        for entity in json.loads((RECORDED / of_version / "rows.json").read_text())
    ]
    record = Record(rows.job_of(kept[0]), tuple(rows.step_of(entity) for entity in kept[1:]))
    for was, becomes in zip(
        json.loads((RECORDED / of_version / "rows.json").read_text()), entities(record), strict=True
    ):
        assert {name: becomes.get(name) for name in was} == was


@pytest.mark.parametrize("of_version", VERSIONS)
def test_directives_only_gain_fields(of_version: str) -> None:
    """A service of that version finds every field where it was, of the same type."""
    was = json.loads((RECORDED / of_version / "directive.json").read_text())
    record = sample()
    becomes = json.loads(encode_directive(directive_of(record, record.steps[1])))
    for name, value in was.items():
        assert name in becomes, f"{name} is gone"
        assert type(becomes[name]) is type(value) or value is None, name
    Directive.model_validate(was)


@pytest.mark.parametrize("body", REPLIES, ids=lambda body: "-".join(map(str, [body["type"], *list(body)[1:]])))
def test_replies_are_taken(body: dict[str, Any]) -> None:
    """A service of any version is understood."""
    common = {"jobId": "job_1", "stepId": "ocr", "tenant_id": "tenant_a", "attempt_no": 1, "lease_id": "lease-1"}
    assert Reply.model_validate({**common, "timestamp": "2026-01-27T10:02:00Z", **body}).type == body["type"]


def test_a_changed_orchestrator_is_detected() -> None:
    """The test can fail: code that dispatches twice does not replay."""
    path = RECORDED / version() / "undisturbed.history.json"
    (instance,) = json.loads(path.read_text())
    events = [event for event in events_of(instance) if event.data.get("Name") != durable_names.DISPATCH]
    _, outcome = replayed(instance, events, version())
    assert outcome.failure or outcome.decisions


def _value(value: Any) -> Any:
    return datetime.fromisoformat(value["instant"]) if isinstance(value, dict) and "instant" in value else value
