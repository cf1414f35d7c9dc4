"""Continues the logs of quotas. An admission state drops an idle quota, while the quota's log stays (R52, R79)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.log import LogEntry, append_entry, group_entries
from shared.core.gates.rules import Gate, GateKind, GateState
from shared.operations.process.context import Context

_PAGE = 1000


async def read_state(context: Context, admission: AdmissionState, gate: Gate) -> GateState:
    """Returns the quota's state. For a quota that the admission state dropped, the state has the head of the stored
    log. Raises LedgerUnavailable.
    """
    state = admission.state(gate)
    # a forgotten quota that counts a job again has a state without a log
    if state.log_seq or gate.kind is GateKind.TENANT:
        return state
    last = await _read_last(context, gate, after=0)
    # a change adds at most one entry, so no older ETag can match
    return state if last is None else replace(state, rule_seq=last.seq, log_seq=last.seq, log_hash=last.hash)


async def _read_last(context: Context, gate: Gate, *, after: int) -> LogEntry | None:
    """Reads the log's last entry after number `after`, in a logarithmic number of reads. Returns None if there is no
    such entry. Raises LedgerUnavailable.
    """

    async def past(number: int, limit: int) -> list[LogEntry]:
        return await context.admissions.log(gate.tenant, gate.id, after=number, limit=limit)

    page = await past(after, _PAGE)
    if len(page) < _PAGE:
        return page[-1] if page else None
    last, step = page[-1], _PAGE
    while found := await past(last.seq + step - 1, 1):
        last, step = found[0], step * 2
    # numbers have no gaps, so the last one is less than `step` away
    while step > _PAGE:
        step //= 2
        if found := await past(last.seq + step - 1, 1):
            last = found[0]
    rest = await past(last.seq, _PAGE)
    return rest[-1] if rest else last


async def continue_log(
    context: Context, before: AdmissionState, after: AdmissionState, log: Sequence[LogEntry], *, is_behind: bool = False
) -> tuple[AdmissionState, tuple[LogEntry, ...]]:
    """Returns `after` and its new entries. New entries of a quota that `before` does not have continue the quota's
    stored log.

    Reads only for the first entry of a quota, or if `is_behind`. `is_behind`: a new entry already existed, so the head
    of the log in the admission state can be outdated. Raises LedgerUnavailable.
    """
    found: list[LogEntry] = []
    for gate_id, entries in group_entries(log):
        if (entries[0].seq == 1 or is_behind) and gate_id in after.gates:
            state = after.gates[gate_id]
            known = await read_state(context, before, state.gate)
            last = await _read_last(context, state.gate, after=entries[0].seq - 1) if is_behind else None
            if last is not None:
                known = replace(known, rule_seq=max(known.rule_seq, last.seq), log_seq=last.seq, log_hash=last.hash)
            if last is not None or (entries[0].seq == 1 and known.log_seq):
                first, entries = entries, []
                for entry in first:
                    known, again = append_entry(
                        known, entry.type, actor=entry.actor, reason=entry.reason, at=entry.at, data=entry.data
                    )
                    entries.append(again)
                state = replace(state, rule_seq=known.rule_seq, log_seq=known.log_seq, log_hash=known.log_hash)
                after = after.with_state(state)
        found += entries
    return after, tuple(found)
