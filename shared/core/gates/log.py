"""What was changed at a gate, by whom and why: numbered and chained from the first entry on (R52)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from shared.core.canonical import jcs_digest
from shared.core.gates.rules import GateState


@dataclass(frozen=True, kw_only=True)
class LogEntry:
    """A GATELOG row."""

    gate_id: str
    #: from 1 on, without gaps
    seq: int
    type: str
    actor: str
    reason: str
    at: datetime
    #: what was changed: `{"before": ..., "after": ...}`
    data: Mapping[str, Any]
    prev_hash: str
    hash: str


def logged(
    state: GateState, type_: str, *, actor: str, reason: str, at: datetime, data: Mapping[str, Any]
) -> tuple[GateState, LogEntry]:
    """The state with the new head of its log, and the entry."""
    values: dict[str, Any] = {
        "gate_id": state.gate.id,
        "seq": state.log_seq + 1,
        "type": type_,
        "actor": actor,
        "reason": reason,
        "at": at,
        "data": dict(data),
        "prev_hash": state.log_hash,
    }
    entry = LogEntry(**values, hash=entry_hash(values))
    return replace(state, log_seq=entry.seq, log_hash=entry.hash), entry


def entry_hash(values: Mapping[str, Any]) -> str:
    """The chain link: SHA-256 over the canonical JSON (RFC 8785) of every field but `hash`."""
    plain = {name: value for name, value in values.items() if name != "hash"}
    plain["at"] = values["at"].astimezone(UTC).isoformat(timespec="microseconds")
    return jcs_digest(plain)
