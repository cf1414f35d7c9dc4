"""The lane of a step's directives, chosen once when the job is created (R22)."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.contracts.envelope import Envelope

#: prefix of the names of directive topics, followed by the lane's number
DIRECTIVE_TOPIC_PREFIX = "global-bus-p"
#: queue of calls to check a tenant's admission state, allocate a quota, or work on a bulk operation
ADMISSION_QUEUE = "lucius-admission"
#: queue of hints about public events to write into a tenant's feed
HINTS_QUEUE = "lucius-hints"
#: queue of the tries of webhook deliveries
WEBHOOKS_QUEUE = "lucius-webhooks"
#: stands for a tenant in rows and events that belong to none; no tenant can have this name
PLATFORM = "=platform"
#: topic with the public events of all tenants, for subscribers
EVENTS_TOPIC = "lucius-events"


@dataclass(frozen=True)
class LaneDecision:
    """The lane of a job. `lane` is the number of the directive topic and of the reply topic."""

    lane: int
    routing_key_used: str
    resolved_mode: str
    decision_source: str
    decision_reason: str


@dataclass(frozen=True)
class Modes:
    """Modes from the configuration store."""

    #: mode by normalised tenant
    tenants: Mapping[str, str] = field(default_factory=dict)
    #: default mode; None means the setting's
    default: str | None = None


def normalise(text: str) -> str:
    """Trims the text and converts it to lower case, the form in which tenants and documents are compared (R22)."""
    return text.strip().lower()


def lane_of(routing_key: str, lanes: int) -> int:
    """Returns the CRC32 of the key's UTF-8 bytes, modulo the number of lanes."""
    return zlib.crc32(routing_key.encode("utf-8")) % lanes


def decide_lane(envelope: Envelope, *, default_mode: str, lanes: int, modes: Modes | None = None) -> LaneDecision:
    """Decides the lane of every step of a job. Raises ValueError if BURST lacks its `doc_id`."""
    return decide_lane_of(
        envelope.tenant_id, envelope.doc_id, envelope.mode, default_mode=default_mode, lanes=lanes, modes=modes
    )


def decide_lane_of(
    tenant_id: str, doc_id: str | None, mode: str | None, *, default_mode: str, lanes: int, modes: Modes | None
) -> LaneDecision:
    """Decides the lane from the fields of a job request. `mode` is None if the request names no mode. Raises ValueError
    as `decide_lane` does.
    """
    tenant = normalise(tenant_id)
    if mode is not None:
        source, reason = "REQUEST", "the request has this mode"
    elif modes is not None and (named := modes.tenants.get(tenant)) is not None:
        mode = named
        source, reason = "TENANT_CONFIG", "the request has no mode; the tenant's configured mode applies"
    else:
        mode = (modes.default if modes is not None else None) or default_mode
        source, reason = "GLOBAL_CONFIG", "the request has no mode; the configured default mode applies"
    if mode == "BURST":
        if doc_id is None:
            raise ValueError("mode BURST requires doc_id, from which LUCIUS computes the lane")
        key = tenant + normalise(doc_id)
    else:
        key = tenant
    return LaneDecision(lane_of(key, lanes), key, mode, source, reason)
