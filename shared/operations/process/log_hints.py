"""Sends hints of log entries of quotas and incidents after a commit (R78, R79)."""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.events.hints import gate_hint, incident_hint
from shared.core.gates.log import LogEntry, group_entries
from shared.core.gates.rules import Gate
from shared.core.incidents import Incident, IncidentEntry, Settlement, apply_settlement
from shared.operations.process.parts import Events
from shared.ports.admissions import AdmissionWrite


def note_admission_log(events: Events | None, write: AdmissionWrite) -> None:
    """Sends the hints of the entries that a write of an admission state added to the logs of its quotas."""
    for gate_id, entries in group_entries(write.log):
        if (state := write.after.gates.get(gate_id)) is not None:
            note_gate_log(events, state.gate, entries)


def note_gate_log(events: Events | None, gate: Gate, entries: Sequence[LogEntry]) -> None:
    """Sends the hint of committed entries of one quota's log."""
    if events is not None and entries:
        events.hinting.note_hint(gate_hint(gate, sorted(entries, key=lambda entry: entry.seq)))


def note_incident(events: Events | None, incident: Incident, *entries: IncidentEntry) -> None:
    """Sends the hint of committed entries of an incident's log. Without entries, the feed writer reads the log."""
    if events is not None:
        events.hinting.note_hint(incident_hint(incident, entries))


def note_settled(events: Events | None, before: Incident, after: Incident, settlement: Settlement) -> None:
    """Sends the hint of an incident that `settlement` or a concurrent call closed."""
    found = apply_settlement(before, settlement)
    note_incident(events, after, *([found[1]] if found is not None and found[0] == after else []))
