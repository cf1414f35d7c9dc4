"""Hints at the logs of gates and incidents: after a commit, and again where the feed is behind a log (R78, R79)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from shared.core.gates.log import LogEntry
from shared.core.gates.rules import Gate
from shared.core.hints import Hint, gate_hint, incident_hint
from shared.core.incidents import Incident, IncidentEntry, Settlement, settled
from shared.operations.context import Context
from shared.ports.desks import DeskWrite


def note_desk_log(context: Context, write: DeskWrite) -> None:
    """What a desk's write that went through added to the logs of its gates."""
    for gate_id, entries in itertools.groupby(sorted(write.log, key=lambda entry: entry.gate_id), _gate_id):
        if (state := write.after.gates.get(gate_id)) is not None:
            note_gate_log(context, state.gate, [*entries])


def note_gate_log(context: Context, gate: Gate, entries: Sequence[LogEntry]) -> None:
    """Entries of one gate's log that were committed."""
    if context.hinting is not None and entries:
        context.hinting.note_hint(gate_hint(gate, sorted(entries, key=lambda entry: entry.seq)))


def note_incident(context: Context, incident: Incident, *entries: IncidentEntry) -> None:
    """Entries of an incident's log that were committed; without any, the log is read."""
    if context.hinting is not None:
        context.hinting.note_hint(incident_hint(incident, entries))


def note_settled(context: Context, before: Incident, after: Incident, settlement: Settlement) -> None:
    """An incident that was settled, by `settlement` or by another one meanwhile."""
    found = settled(before, settlement)
    note_incident(context, after, *([found[1]] if found is not None and found[0] == after else []))


async def is_behind(context: Context, hint: Hint) -> bool:
    """Whether the feed has not all of the log up to `hint.last`; then it is hinted at.

    Nothing is read of a log of which this process knows that the feed has it. Raises LedgerUnavailable.
    """
    if context.feed is None or context.hinting is None or not hint.last:
        return False
    if context.compared_logs.has(hint.tenant, hint.key, hint.last):
        return False
    seen = await context.feed.seen(hint.tenant, hint.key)
    context.compared_logs.remember(hint.tenant, hint.key, seen)
    if seen >= hint.last:
        return False
    await context.hinting.send_hint(hint)
    return True


def _gate_id(entry: LogEntry) -> str:
    return entry.gate_id
