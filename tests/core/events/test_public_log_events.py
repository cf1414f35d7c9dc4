"""Public events of quotas and incidents: each type of entry has its decision, and every process makes the same ones
(R78).
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from cloudevents.http import from_json

from shared.core.events.event_types import OF_LOGS, PublicType
from shared.core.events.hints import Hint, decode_hint, encode_hint, gate_hint, incident_hint
from shared.core.events.public_events import MAX_EVENT_BYTES, Issuer, PublicEvent, encode_json, number_event
from shared.core.events.public_log_events import GATE_LOG, INCIDENT_LOG, feed_of, gate_events, incident_events
from shared.core.gates import changes, ends
from shared.core.gates.breaker import Breaker, BreakerRule, BreakerState
from shared.core.gates.changes import ChangeType
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import EVERY, Directory, Gate, GateKind, GateState, Hold, Rule
from shared.core.incidents import (
    Incident,
    IncidentEntry,
    IncidentKind,
    IncidentState,
    Settlement,
    apply_settlement,
    open_incident,
)
from shared.core.jobs.routing import PLATFORM
from tests.event_checks import check_event, payload_schema
from tests.jobs import START

GATE = Gate(GateKind.TYPE, "acme", "OCR")
ISSUER = Issuer("test", "https://lucius.example")
RULE = Rule(max_active=5, breaker=BreakerRule())


def changed(
    before: GateState, after: GateState, type_: ChangeType, *, reason: str = "why"
) -> tuple[GateState, LogEntry]:
    return changes.record_change(before, after, Directory(), type_, actor="ann", reason=reason, at=START)


def types(entry: LogEntry, gate: Gate = GATE) -> list[str]:
    return [each["type"] for each in gate_events(entry, gate)]


def an_incident(**given: Any) -> tuple[Incident, IncidentEntry]:
    values = {"tenant": "acme", "request_type": "OCR", "code": "BREAKER_OPENED", "detail": "6 of 10", "at": START}
    return open_incident(given.pop("kind", IncidentKind.BREAKER), "subject", **values | given)


def settled_as(state: IncidentState, reason: str = "done") -> tuple[Incident, IncidentEntry]:
    found = apply_settlement(
        an_incident()[0], Settlement(state=state, actor="ann", reason=reason, at=START, retried_by="job_2")
    )
    assert found is not None
    return found


def test_every_type_of_entry_is_decided_on() -> None:
    """A new type of entry without a decision fails here."""
    assert set(GATE_LOG) == set(ChangeType)
    assert set(INCIDENT_LOG) == {"OPENED", *(set(IncidentState) - {IncidentState.OPEN})}
    meant = {each for types in (*GATE_LOG.values(), *INCIDENT_LOG.values()) for each in types or ()}
    assert meant == OF_LOGS
    changes = {type_ for type_, types in GATE_LOG.items() if PublicType.QUOTA_CHANGED in (types or ())}
    assert {*payload_schema("quota.changed")["change"]["enum"]} == changes
    assert gate_events(replace(settling()[1], type="OF_A_LATER_RELEASE"), GATE) == ()


def settling() -> tuple[GateState, LogEntry]:
    return changed(GateState(gate=GATE), GateState(gate=GATE, rule=RULE), ChangeType.RULE_SET)


def test_a_breaker_opens_and_closes() -> None:
    """Half-open is neither; the removal of an open breaker's rule, and a reset, close it."""
    state, entry = settling()
    assert types(entry) == ["quota.changed"]
    is_open = Breaker(state=BreakerState.OPEN, epoch=1, opened_by=(6, 10), until=START + timedelta(minutes=1))
    state, log = ends.change_breaker(state, is_open, START)
    assert types(*log) == ["breaker.opened"]
    [event] = gate_events(*log, GATE)
    assert (event["id"], event["subject"], event["tenant"]) == (f"{GATE.id}:2:0", GATE.id, "acme")
    payload = event["data"]["payload"]
    assert (payload["status"], payload["from"]) == ("OPEN", "CLOSED")
    assert payload["gate"] == {"id": GATE.id, "kind": "tenant/type", "name": "OCR"}
    assert event["data"]["jobType"] == "OCR"
    half_open = replace(is_open, state=BreakerState.HALF_OPEN, allow=1)
    probing, log = ends.change_breaker(state, half_open, START)
    assert types(*log) == []
    _, log = ends.change_breaker(probing, replace(half_open, state=BreakerState.CLOSED, closed_at=START), START)
    assert types(*log) == ["breaker.closed"]
    for before in (state, probing):
        _, entry = changed(before, replace(before, rule=None), ChangeType.RULE_DELETED)
        assert types(entry) == ["quota.changed", "breaker.closed"]
        assert [each["id"] for each in gate_events(entry, GATE)] == [f"{GATE.id}:{entry.seq}:{n}" for n in (0, 1)]
        _, entry = changed(before, changes.apply_reset(before), ChangeType.BREAKER_RESET)
        assert types(entry) == ["breaker.closed"]
        _, entry = changed(before, replace(before, rule=replace(RULE, max_active=9)), ChangeType.RULE_SET)
        assert types(entry) == ["quota.changed"]


def test_whose_feed() -> None:
    assert [feed_of(each) for each in ("acme", EVERY, None)] == ["acme", PLATFORM, PLATFORM]
    over_all = Gate.over_all(GateKind.PLATFORM)
    _, entry = changed(GateState(gate=over_all), GateState(gate=over_all, rule=Rule(max_active=9)), ChangeType.RULE_SET)
    [event] = gate_events(entry, over_all)
    assert number_event(event, 1, ISSUER)["source"] == "/lucius/test/%3Dplatform"
    [event] = incident_events(an_incident(tenant=None)[1], an_incident(tenant=None)[0])
    assert (event["tenant"], event["data"]["tenant"]) == (PLATFORM, PLATFORM)


def everything() -> list[PublicEvent]:
    """An event of each type, some with values that are too large."""
    state, first = settling()
    _, held = changed(
        state,
        replace(state, hold=Hold(reason="x" * 5_000, actor="ann", at=START)),
        ChangeType.HELD,
        reason="x" * 5_000,
    )
    _, log = ends.change_breaker(
        state, Breaker(state=BreakerState.OPEN, epoch=1, opened_by=(6, 10), until=START), START
    )
    is_open = replace(state, breaker=Breaker(state=BreakerState.OPEN, epoch=1))
    _, reset = changed(is_open, changes.apply_reset(is_open), ChangeType.BREAKER_RESET)
    incident, entry = an_incident(kind=IncidentKind.JOB, detail=None)
    found = [each for one in (first, held, *log, reset) for each in gate_events(one, GATE)]
    found += incident_events(entry, incident)
    for each in set(IncidentState) - {IncidentState.OPEN}:
        settled_one, entry = settled_as(each, reason="y" * 5_000)
        found += incident_events(entry, settled_one)
    return found


def test_events_are_as_their_schemas_describe() -> None:
    found = everything()
    assert {each["type"] for each in found} == OF_LOGS
    for each in found:
        whole = number_event(each, 7, ISSUER)
        check_event(whole)
        assert from_json(json.dumps(whole))["type"] == each["type"]
        assert len(encode_json(whole)) < MAX_EVENT_BYTES
        assert each["data"]["eventId"] == each["id"]
    assert [each["data"]["jobId"] for each in found if each["type"] == PublicType.INCIDENT_OPENED] == ["subject"]


def test_hints_of_logs_travel() -> None:
    """A message without a log's name is not a hint, and events of another log are not accepted."""
    _, entry = settling()
    incident, first = an_incident()
    over_all, entry_of_all = Gate.over_all(GateKind.LANE, "3"), replace(entry, gate_id="x")
    for hint in (
        *(gate_hint(GATE, [entry]), gate_hint(GATE, (), last=4), gate_hint(over_all, [entry_of_all])),
        *(incident_hint(incident, [first]), incident_hint(incident)),
    ):
        assert decode_hint(encode_hint(hint)) == hint
    assert [gate_hint(GATE, [entry]).key, incident_hint(incident).key] == [GATE.id, incident.id]
    [event] = gate_events(entry, GATE)
    foreign = Hint(tenant="acme", gate=replace(GATE, name="SIS"), first=1, last=1, events=(event,))
    assert decode_hint(encode_hint(foreign)) == replace(foreign, events=None)
    for body in (
        *(b'{"tenant": "*", "gate": ["tenant", ""]}', b'{"tenant": "t", "gate": ["nothing", ""]}'),
        *(b'{"tenant": "t", "gate": ["tenant"]}', b'{"tenant": "t", "incident_id": ""}', b'{"tenant": "t"}'),
    ):
        assert decode_hint(body) is None
