"""The log of a quota's changes, with actor and reason: numbered and hash-chained from the first entry on (R52)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter
from typing import Any

from shared.core.gates.rules import GateState
from shared.core.records.chained_log import Entry, chain_entry


@dataclass(frozen=True, kw_only=True)
class LogEntry(Entry):
    """A GATELOG row. Its `data` is `{"before": ..., "after": ...}`, or for JOB_ADMITTED `{"job_id", "after"}`."""

    gate_id: str


def append_entry(
    state: GateState, type_: str, *, actor: str, reason: str, at: datetime, data: Mapping[str, Any]
) -> tuple[GateState, LogEntry]:
    """Returns the state with the new head of its log, and the entry."""
    values = {
        "gate_id": state.gate.id,
        "type": type_,
        "actor": actor,
        "reason": reason,
        "at": at,
        "data": dict(data),
    }
    entry = LogEntry(**chain_entry(values, seq=state.log_seq, prev_hash=state.log_hash))
    return replace(state, log_seq=entry.seq, log_hash=entry.hash), entry


def group_entries(entries: Iterable[LogEntry]) -> Iterator[tuple[str, list[LogEntry]]]:
    """Yields each quota id with its entries, in order."""
    by_id = attrgetter("gate_id")
    return ((gate_id, [*found]) for gate_id, found in itertools.groupby(sorted(entries, key=by_id), by_id))
