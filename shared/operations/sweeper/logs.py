"""Compares the logs of quotas and incidents with the feeds, and sends lost hints again (R79).

Each sweep compares the quotas in the admission states that it read, the limits for every tenant, and the incidents that
were opened last. The first sweep of an hour also compares the admission states of sleeping tenants and each incident in
the list of open incidents. Sweeps delete closed incidents from that list (R64). A log is not read if the feed is known
to have it.

The first sweep of an hour also removes tenants without settings from the directory, such as a tenant whose hold has
expired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import timedelta

from shared import telemetry
from shared.core.events.hints import gate_hint, incident_hint
from shared.core.gates import changes
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.rules import EVERY, Directory, GateState
from shared.core.records.canonical import encode_key
from shared.operations.events.feed_comparison import is_log_behind
from shared.operations.gates.admission_turns import act_on_admission, read_directory
from shared.operations.gates.gated_tenants import is_needed, remove_unused_tenant
from shared.operations.incidents.row_incidents import report_row
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.sweeper.turns import from_anywhere
from shared.ports.admissions import AdmissionWrite, StoredAdmission
from shared.ports.incidents import IncidentRow
from shared.ports.sweeps import SweeperShare

#: maximum rows of a query
_PAGE = 1000
#: age of an open entry from which the first sweep of an hour reads its incident
_OPENING = timedelta(minutes=10)
#: age below which the hint of an entry can still arrive
_YOUNG = timedelta(minutes=1)


async def compare_logs(
    context: Context, share: SweeperShare, gates: Iterable[GateState], is_over: Callable[[], bool], *, whole: bool
) -> None:
    """Compares the logs with the feeds.

    `gates`: quotas as this sweep read them. `whole`: this sweep is the first of an hour. Without feeds, only such a
    sweep acts. Raises LedgerUnavailable.
    """
    if context.events is not None or whole:
        await _compare_gates(context, share, gates if context.events is not None else (), is_over, whole=whole)
    if share.number == 0 and (whole or context.events is not None):
        await compare_incidents(context, is_over, whole=whole)


async def _compare_gates(
    context: Context, share: SweeperShare, gates: Iterable[GateState], is_over: Callable[[], bool], *, whole: bool
) -> None:
    known = await read_directory(context)
    found: defaultdict[str, list[GateState]] = defaultdict(list)
    for state in gates:
        if state.gate.tenant != EVERY:
            found[state.gate.tenant].append(state)
    read = {tenant for tenant in known.tenants if whole and share.has(tenant)} | (
        {EVERY} if share.number == 0 and context.events is not None else set()
    )

    async def one(tenant: str) -> None:
        if is_over():
            return
        try:
            await _compare_admission(context, tenant, None if tenant in read else found[tenant], known)
        except Exception as fault:
            telemetry.record_fault(fault, "LOG_UNCOMPARED", tenant_id=tenant)
            await report_row(context, f"{encode_key(tenant)} GATES", fault)

    await run_concurrently(from_anywhere(sorted(read | found.keys()), context.random), one)


async def _compare_admission(
    context: Context, tenant: str, states: Iterable[GateState] | None, known: Directory
) -> None:
    """Compares the logs of a tenant's quotas. If `states` is None, reads the admission state, and removes an unused
    tenant from the directory.
    """
    admission: AdmissionState | None = None
    if states is None:
        stored = await context.admissions.read(tenant)
        admission = (
            stored.admission if stored is not None else AdmissionState(tenant=tenant, counted_at=context.clock.now())
        )
        states = admission.gates.values()
    idle: dict[str, int] = {}
    for state in states:
        is_fed = state.log_seq and not await is_log_behind(context, gate_hint(state.gate, (), last=state.log_seq))
        if is_fed and changes.is_idle(state, known, context.clock.now()):
            idle[state.gate.id] = state.log_seq
    if idle:
        admission = await _forget(context, tenant, idle)
    since = known.tenants.get(tenant)
    # a tenant that was just added is about to get a rule
    is_settled = since is not None and since + _YOUNG <= context.clock.now()
    if admission is not None and is_settled and not is_needed(context, admission):
        await remove_unused_tenant(context, admission)


async def _forget(context: Context, tenant: str, idle: dict[str, int]) -> AdmissionState:
    """Removes idle quotas from the admission state if their logs have no new entries. Returns the state. Raises
    Contended.
    """

    async def act(stored: StoredAdmission, known: Directory) -> AdmissionState:
        gates, now = stored.admission.gates, context.clock.now()
        gone = {id_ for id_, seq in idle.items() if id_ in gates and gates[id_].log_seq == seq}
        after = changes.remove_gates(stored.admission, {id_ for id_ in gone if changes.is_idle(gates[id_], known, now)})
        if len(after.gates) != len(gates):
            await context.index.write_admission(AdmissionWrite(before=stored, after=after))
        return after

    return await act_on_admission(context, tenant, act)


async def compare_incidents(context: Context, is_over: Callable[[], bool], *, whole: bool) -> int:
    """Deletes closed incidents from the list of open incidents after the feed has them. Returns the number of deleted
    incidents.

    `whole`: reads the whole list, and the incident of each entry that is closed or at least ten minutes old. Otherwise
    only the rows of the first page are read. Raises LedgerUnavailable.
    """
    gone, after, began = 0, None, context.clock.now()

    async def look(row: IncidentRow) -> None:
        try:
            await compare(row)
        except Exception as fault:
            telemetry.record_fault(fault, "LOG_UNCOMPARED", incident=row.incident.id)
            await report_row(context, f"INCIDENT:{row.incident.id}", fault)

    async def compare(row: IncidentRow) -> None:
        nonlocal gone
        listed = found = row.incident
        age = began - row.entered_at if row.entered_at is not None else _OPENING
        if age < _YOUNG:
            return
        if whole and (age >= _OPENING or not found.is_open):
            now = await context.incidents.read(listed.home, listed.id, listed.opened_at)
            if now is None:
                await context.incidents.leave_open(listed, etag=row.etag)
                gone += 1
                return
            found = now
        if not await is_log_behind(context, incident_hint(found)) and not found.is_open:
            # unless it was added again in the meantime
            await context.incidents.leave_open(listed, etag=row.etag)
            gone += 1

    while True:
        rows = await context.incidents.list_open(after=after, limit=_PAGE)
        await run_concurrently(rows, look)
        if len(rows) < _PAGE or not whole or is_over():
            return gone
        after = rows[-1].cursor
