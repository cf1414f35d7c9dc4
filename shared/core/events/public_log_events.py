"""The public events of entries in quota and incident logs (R78).

One literal table per log selects the events, as `shared.core.events.public_events` does for EVENT rows. The events
depend on the entry and on unchanging fields of the quota or incident. An event's id is `{key}:{number}:{n}`, with the
id of the quota or incident as the key. Events without a tenant go to the feed of `=platform`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from shared.core.events.event_types import PublicType
from shared.core.events.public_events import PublicEvent, make_cloud_event, omit_if_large, remove_none
from shared.core.gates.breaker import BreakerState
from shared.core.gates.changes import ChangeType
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import EVERY, Gate
from shared.core.incidents import Incident, IncidentEntry, IncidentKind
from shared.core.jobs.job import JsonValue
from shared.core.jobs.routing import PLATFORM
from shared.core.records.chained_log import Entry

_C, _P = ChangeType, PublicType

#: public types that an entry of a quota's log can produce, in order; None for no public event
GATE_LOG: Mapping[str, tuple[PublicType, ...] | None] = {
    # a change of the rule can remove the breaker
    _C.RULE_SET: (_P.QUOTA_CHANGED, _P.BREAKER_CLOSED),
    _C.RULE_DELETED: (_P.QUOTA_CHANGED, _P.BREAKER_CLOSED),
    _C.HELD: (_P.QUOTA_CHANGED,),
    _C.THROTTLED: (_P.QUOTA_CHANGED,),
    _C.RESUMED: (_P.QUOTA_CHANGED,),
    # `job.admitted` reports it
    _C.JOB_ADMITTED: None,
    _C.BREAKER_OPENED: (_P.BREAKER_OPENED,),
    # a half-open breaker admits a few jobs, so this is neither an opening nor a closing
    _C.BREAKER_HALF_OPEN: None,
    _C.BREAKER_CLOSED: (_P.BREAKER_CLOSED,),
    _C.BREAKER_RESET: (_P.BREAKER_CLOSED,),
}

#: public types that an entry of an incident's log produces, in order; None for no public event
INCIDENT_LOG: Mapping[str, tuple[PublicType, ...] | None] = {
    "OPENED": (_P.INCIDENT_OPENED,),
    "RESOLVED": (_P.INCIDENT_RESOLVED,),
    "RETRIED": (_P.INCIDENT_RESOLVED,),
    "DISMISSED": (_P.INCIDENT_RESOLVED,),
}


def feed_of(tenant: str | None) -> str:
    """Returns the tenant whose feed gets the events. For `*` and None, which are not tenants, returns `=platform`."""
    return PLATFORM if tenant is None or tenant == EVERY else tenant


def gate_events(entry: LogEntry, gate: Gate) -> tuple[PublicEvent, ...]:
    """Returns the public events of the entry in the quota's log, in order."""
    found = [each for each in GATE_LOG.get(entry.type) or () if each is not _P.BREAKER_CLOSED or _closes(entry)]
    return tuple(_gate_event(entry, gate, type_, n) for n, type_ in enumerate(found))


def incident_events(entry: IncidentEntry, incident: Incident) -> tuple[PublicEvent, ...]:
    """Returns the public events of the entry in the incident's log. The incident may be in any state."""
    found = INCIDENT_LOG.get(entry.type) or ()
    return tuple(_incident_event(entry, incident, type_, n) for n, type_ in enumerate(found))


def _gate_event(entry: LogEntry, gate: Gate, type_: PublicType, n: int) -> PublicEvent:
    log = f"/v1/quotas/{gate.id}/log?tenant={quote(gate.tenant, safe='')}"
    before, after = entry.data.get("before"), entry.data.get("after")
    payload: dict[str, JsonValue]
    if type_ is _P.QUOTA_CHANGED:
        payload = {"change": entry.type, "before": omit_if_large(before, log), "after": omit_if_large(after, log)}
    else:
        was, now = _breaker(before), _breaker(after)
        payload = {"status": now.get("state"), "from": was.get("state")}
        if type_ is _P.BREAKER_OPENED:
            payload |= {name: now.get(name) for name in ("until", "bad", "calls")}
    payload |= {
        "gate": {"id": gate.id, "kind": gate.kind.value, "name": gate.name},
        "reason": omit_if_large(entry.reason, log),
    }
    return _event(
        entry, gate.id, feed_of(gate.tenant), type_, n, {"jobType": gate.name_of("job_type"), "payload": payload}
    )


def _incident_event(entry: IncidentEntry, incident: Incident, type_: PublicType, n: int) -> PublicEvent:
    href = f"/v1/incidents/{quote(incident.id, safe='')}"
    about = {"id": incident.id, "kind": incident.kind.value, "subject": incident.subject, "code": incident.code}
    payload: dict[str, JsonValue] = {
        "status": entry.data.get("after"),
        "from": entry.data.get("before"),
        "incident": about,
        "detail": omit_if_large(incident.detail, href),
        "reason": omit_if_large(entry.reason, href),
        "retriedBy": entry.data.get("retried_by"),
    }
    data: dict[str, JsonValue] = {
        "jobId": incident.subject if incident.kind is IncidentKind.JOB else None,
        "jobType": incident.request_type,
        "payload": payload,
    }
    return _event(entry, incident.id, feed_of(incident.tenant), type_, n, data)


def _event(
    entry: Entry, key: str, tenant: str, type_: PublicType, n: int, about: Mapping[str, JsonValue]
) -> PublicEvent:
    payload = remove_none(about["payload"])
    data = {**about, "payload": payload, "provenance": {"actor": entry.actor}}
    return make_cloud_event(type_, f"{key}:{entry.seq}:{n}", key, entry.at, tenant, data, jobseq=entry.seq)


def _closes(entry: LogEntry) -> bool:
    """Returns `True` if the entry closes a breaker that was not closed."""
    was, now = (_breaker(entry.data.get(side)).get("state") for side in ("before", "after"))
    return was not in (None, BreakerState.CLOSED) and now == BreakerState.CLOSED


def _breaker(side: Any) -> Mapping[str, Any]:
    """Returns the breaker in `side`, which is the data before or after an entry."""
    found = side.get("breaker") if isinstance(side, Mapping) else None
    return found if isinstance(found, Mapping) else {}
