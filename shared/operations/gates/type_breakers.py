"""Changes the breaker of a job type over all tenants (R61, R62): in the admission state of `*`, the allocation record
and the directory.

An allocation first writes a change to the admission state of `*`, under its ETag and with the quota's log entries. So
openings and resets have one order. The allocation record has the ended jobs that the breaker counts. The later state of
the breaker in the allocation record and the admission state of `*` applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.core.gates import changes
from shared.core.gates.allocation import AllocationRecord
from shared.core.gates.breaker import Breaker, pick_later
from shared.core.gates.demand import Demand
from shared.core.gates.ends import change_breaker
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import EVERY, Directory, GateKind, GateState
from shared.core.gates.type_breaker import apply_ends
from shared.errors import Conflict
from shared.operations.gates import admission_turns
from shared.operations.gates.freed import log_opened_breakers
from shared.operations.gates.gate_logs import continue_log
from shared.operations.process.context import Context
from shared.operations.process.log_hints import note_admission_log
from shared.ports.admissions import AdmissionWrite, StoredAdmission


async def record_ends(
    context: Context,
    directory: Directory,
    record: AllocationRecord,
    state: GateState,
    demands: Sequence[Demand],
    opened: list[GateState],
) -> AllocationRecord:
    """Returns the allocation record, with its breaker after counting the ended jobs in `demands`. `demands`: of tenants
    in the record and of new tenants.

    Writes and publishes a change first. Adds the quota to `opened` if its breaker opened. Raises Conflict if another
    process changed the breaker, and other LuciusErrors.
    """
    gate = state.gate
    rule = state.rule.breaker if state.rule is not None else None
    if gate.kind is not GateKind.PLATFORM_TYPE or (rule is None and record.breaker is None and state.breaker is None):
        return record
    stored = await context.admissions.read(EVERY)
    written = stored.admission.state(gate) if stored is not None else GateState(gate=gate)
    before = pick_latest(record, written)
    rings = {demand.tenant: demand.share.breaker.ring for demand in demands}
    has_waiting = any(demand.has_waiting for demand in demands)
    steps = apply_ends(before, rule, rings, context.clock.now(), has_waiting=has_waiting)
    if _get_stage(steps[-1]) != _get_stage(written.breaker or Breaker()):
        epoch = (written.breaker or Breaker()).epoch
        written = await _write(context, written, steps)
        if written.breaker is not None and written.breaker.epoch > epoch:
            opened.append(written)
    if directory.over_all[gate.id] != _strip_ends(written):
        # the last writer died, or published an earlier state late
        await publish(context, written)
    return replace(record, breaker=steps[-1])


def pick_latest(record: AllocationRecord | None, state: GateState) -> Breaker:
    """Returns the later breaker state: the allocation record's, or that in the admission state of `*`."""
    return pick_later((record.breaker if record is not None else None) or Breaker(), state.breaker or Breaker())


def _get_stage(breaker: Breaker) -> tuple[str, int]:
    return breaker.state, breaker.epoch


async def _write(context: Context, seen: GateState, steps: Sequence[Breaker]) -> GateState:
    async def act(stored: StoredAdmission, directory: Directory) -> GateState | None:
        state = stored.admission.state(seen.gate)
        if _get_stage(state.breaker or Breaker()) != _get_stage(seen.breaker or Breaker()):
            # not an error here, since another try would find the same
            return None
        entries: tuple[LogEntry, ...] = ()
        for step in steps:
            state, log = change_breaker(state, step, context.clock.now())
            entries += log
        after, entries = await continue_log(context, stored.admission, stored.admission.with_state(state), entries)
        write = AdmissionWrite(before=stored, after=after, log=entries)
        await context.index.write_admission(write)
        note_admission_log(context.events, write)
        return after.state(seen.gate)

    written = await admission_turns.act_on_admission(context, EVERY, act)
    if written is None:
        raise Conflict
    if written.breaker is not None and written.breaker.epoch > (seen.breaker or Breaker()).epoch:
        log_opened_breakers((written,))
    return written


async def publish(context: Context, state: GateState) -> None:
    """Publishes a quota over all tenants, with its breaker's state, in the directory. Raises LedgerUnavailable."""
    known = (await context.admissions.directory()).over_all.get(state.gate.id)
    in_effect = _strip_ends(state) if changes.is_set(state, context.clock.now()) else None
    if (known[0] if known is not None else None) != in_effect:
        # jobs were not counted while the quota had no `max_active`
        is_older = known is not None and (known[0].max_active is not None or state.max_active is None)
        since = known[1] if known is not None and is_older else context.clock.now()
        await context.admissions.put_over_all(state.gate, in_effect, since)
        context.process.gate_directory.forget()


def _strip_ends(state: GateState) -> GateState:
    """Returns the state without the breaker's ended jobs, which the allocation record has."""
    return state if state.breaker is None else replace(state, breaker=replace(state.breaker, ring=()))


async def read_breaker(context: Context, state: GateState) -> GateState:
    """Returns the quota with the later state of its breaker, as `pick_latest`. Raises LedgerUnavailable."""
    if state.gate.kind is not GateKind.PLATFORM_TYPE:
        return state
    stored = await context.of_all_tenants.allocations.read(state.gate.id)
    if stored is None or stored.record.breaker is None:
        return state
    return replace(state, breaker=pick_latest(stored.record, state))
