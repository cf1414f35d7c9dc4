"""Changes a quota: its limits, a hold, a throttle, a resume, a reset of its breaker (R48, R52, R62).

Each change is one write of the tenant's admission state, with its log entry, under the state's ETag. Jobs that can
start because of the change are admitted immediately afterwards. The limits for every tenant are in the admission state
of tenant `*`, which has no jobs. The directory has the same limits, and all processes read the directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from shared import telemetry
from shared.core.gates import changes
from shared.core.gates.admission_state import AdmissionState, find_epoch
from shared.core.gates.changes import ChangeType, Patch
from shared.core.gates.log import LogEntry
from shared.core.gates.queue_position import MAX_POSITION, count_waiting
from shared.core.gates.rules import (
    ALLOCATED,
    EVERY,
    GUARDS,
    MAX_RULES,
    OVER_ALL,
    Directory,
    Gate,
    GateKind,
    GateState,
    Hold,
    Rule,
    Throttle,
)
from shared.core.incidents import IncidentKind
from shared.errors import BusUnavailable
from shared.operations.gates import admission_turns, guards, type_breakers
from shared.operations.gates.admission_turns import Uncounted
from shared.operations.gates.allocations import allocate_after_change
from shared.operations.gates.freed import take_turn
from shared.operations.gates.gate_logs import read_state
from shared.operations.gates.gated_tenants import enter_tenant, remove_unused_tenant
from shared.operations.gates.waiting import count_admissible, read_admission
from shared.operations.incidents.incidents import settle_incident
from shared.operations.jobs.admission import notify
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.process.log_hints import note_gate_log
from shared.operations.quotas.breaker_incidents import keep_incident
from shared.ports.admissions import AdmissionWrite, StoredAdmission
from shared.ports.durable import Orchestrations
from shared.refusals import GateNotFound, NoBreaker, QuotaInvalid, RuleChanged, TooManyRules

_MAX_CALLS = 1000


@dataclass(frozen=True, kw_only=True)
class By:
    """The caller that changes a quota, and the reason."""

    actor: str
    reason: str
    #: `True` for a tenant's own caller, which cannot loosen a hold or throttle of an operator
    own: bool = False


@dataclass(frozen=True)
class Changed:
    """A quota before and after a change, with the present admission state and directory."""

    before: GateState
    after: GateState
    admission: AdmissionState
    directory: Directory


@dataclass(frozen=True)
class Preview:
    """The effect of changed limits, counted up to 1,000 jobs. Counts are None for limits of tenant `*`."""

    changed: Changed
    #: number of waiting jobs that start immediately under the changed limits
    released: int | None
    #: number of jobs that continue to wait for this quota
    held_back: int | None


_Alter = Callable[[GateState, datetime], GateState]


async def set_rule(
    context: Context,
    orchestrations: Orchestrations,
    gate: Gate,
    patch: Patch,
    by: By,
    *,
    rule_seq: int | None,
) -> Changed:
    """Merges `patch` into the quota's own limits. `rule_seq`: number in the state that the caller read. None means any
    number.

    Raises QuotaInvalid, RuleChanged, TooManyRules, Contended, LedgerUnavailable, and BusUnavailable for a dispatch
    limit.
    """
    await guards.check_rule(context, gate, patch)

    def alter(state: GateState, now: datetime) -> GateState:
        after = changes.apply_patch(state, patch)
        if after is not state:
            # a repeated change whose response was lost is not outdated
            _check_seq(state, rule_seq)
        return after

    return await _change(context, orchestrations, gate, alter, ChangeType.RULE_SET, by)


async def preview_rule(context: Context, gate: Gate, patch: Patch | None, *, rule_seq: int | None) -> Preview:
    """Returns the effect of `set_rule`, or with `patch` None the effect of `delete_rule`. Writes nothing.

    Raises QuotaInvalid, RuleChanged, GateNotFound, TooManyRules, LedgerUnavailable, and BusUnavailable for a dispatch
    limit.
    """
    await guards.check_rule(context, gate, patch or {})
    admission, directory = await read_admission(context, gate.tenant, also=gate)
    before = await read_state(context, admission, gate)
    _check_seq(before, rule_seq)
    after = changes.apply_patch(before, patch) if patch is not None else _delete_rule(before)
    now = context.clock.now()
    _check_room(admission, after, now)
    changed = Changed(before, after, admission.with_state(after), _apply_default(directory, after))
    if gate.tenant == EVERY:
        return Preview(changed, None, None)
    released = await count_admissible(context, changed.admission, directory)
    return Preview(changed, released, min(MAX_POSITION, max(0, count_waiting(admission, gate) - released)))


async def delete_rule(
    context: Context, orchestrations: Orchestrations, gate: Gate, by: By, *, rule_seq: int | None
) -> Changed:
    """Removes the quota's own limits. For a tenant's quota, the limits for every tenant then apply.

    Raises GateNotFound if the quota has no limits of its own, RuleChanged, Contended, LedgerUnavailable.
    """

    def alter(state: GateState, now: datetime) -> GateState:
        _check_seq(state, rule_seq)
        return _delete_rule(state)

    return await _change(context, orchestrations, gate, alter, ChangeType.RULE_DELETED, by)


async def hold(
    context: Context, orchestrations: Orchestrations, gate: Gate, by: By, *, until: datetime | None
) -> Changed:
    """Holds the quota until a resume or until the time `until`. A held quota admits no job, and a held dispatch limit
    delays every step. Raises QuotaForbidden, QuotaInvalid, TooManyRules, Transient.
    """

    def alter(state: GateState, now: datetime) -> GateState:
        _check_ahead(until, now)
        return changes.apply_hold(
            state, Hold(reason=changes.shorten(by.reason), actor=by.actor, at=now, until=until, own=by.own), now
        )

    return await _change(context, orchestrations, gate, alter, ChangeType.HELD, by)


async def throttle(
    context: Context,
    orchestrations: Orchestrations,
    gate: Gate,
    by: By,
    *,
    max_per_hour: int,
    until: datetime | None,
) -> Changed:
    """Sets a second rate until a resume or until the time `until`. The smaller rate applies. Raises QuotaForbidden,
    QuotaInvalid, TooManyRules, Transient.
    """

    def alter(state: GateState, now: datetime) -> GateState:
        _check_ahead(until, now)
        guards.check_throttle(gate)
        asked = Throttle(
            max_per_hour=max_per_hour,
            reason=changes.shorten(by.reason),
            actor=by.actor,
            at=now,
            until=until,
            own=by.own,
        )
        return changes.apply_throttle(state, asked, now)

    return await _change(context, orchestrations, gate, alter, ChangeType.THROTTLED, by)


async def resume(context: Context, orchestrations: Orchestrations, gate: Gate, by: By) -> Changed:
    """Ends the quota's hold and throttle. A tenant's own caller ends only those that own callers of the tenant set.
    Raises QuotaForbidden, Transient.
    """

    def alter(state: GateState, now: datetime) -> GateState:
        return changes.apply_resume(state, now, own=by.own)

    return await _change(context, orchestrations, gate, alter, ChangeType.RESUMED, by)


async def reset_breaker(context: Context, orchestrations: Orchestrations, gate: Gate, by: By) -> Changed:
    """Closes the quota's breaker and drops the ended jobs that the breaker counted. A closed breaker stays as it is if
    it counts no job and has not opened since its last reset (R62). Raises NoBreaker, Transient.
    """
    directory, over_all = await admission_turns.read_directory(context), gate.kind is GateKind.PLATFORM_TYPE
    stored = await context.of_all_tenants.allocations.read(gate.id) if over_all else None

    def alter(state: GateState, now: datetime) -> GateState:
        rule = directory.find_rule(state)
        if rule is None or rule.breaker is None or (gate.tenant == EVERY and not over_all):
            raise NoBreaker(gate.display_name)
        if stored is None:
            return changes.apply_reset(state)
        found = replace(state, breaker=type_breakers.pick_latest(stored.record, state))
        return state if (after := changes.apply_reset(found)) is found else after

    changed = await _change(context, orchestrations, gate, alter, ChangeType.BREAKER_RESET, by)
    await keep_incident(context, changed.before)
    await settle_incident(context, IncidentKind.BREAKER, gate.id, f"reset by {by.actor}: {by.reason}")
    return changed


async def _change(
    context: Context, orchestrations: Orchestrations, gate: Gate, alter: _Alter, type_: ChangeType, by: By
) -> Changed:
    await admission_turns.read_directory(context)
    # without its counts, which may take a minute: only the write needs them
    stored = await context.admissions.read(gate.tenant)
    admission = (
        stored.admission if stored is not None else AdmissionState(tenant=gate.tenant, counted_at=context.clock.now())
    )
    before = await read_state(context, admission, gate)
    after = alter(before, context.clock.now())  # a refused change, or one without effect, leaves no trace
    if after is before:
        # if the writer of limits for every tenant died before it published them, a repeated request publishes them
        await _publish_default(context, after)
        return Changed(before, after, *await read_admission(context, gate.tenant))
    _check_room(admission, after, context.clock.now())
    await enter_tenant(context, gate.tenant)
    changed = await _write(context, gate, alter, type_, by)
    await _publish_default(context, changed.after)
    await remove_unused_tenant(context, changed.admission)
    if gate.kind in ALLOCATED:
        for tenant, entered in (await allocate_after_change(context, gate)).items():
            await notify(context, orchestrations, tenant, entered)
    if gate.tenant == EVERY:
        if gate.kind not in GUARDS:
            await _call_admissions(context)
    else:
        await _admit(context, orchestrations, gate.tenant)
    try:
        admission, directory = await read_admission(context, gate.tenant)
    except Exception as fault:
        # the change is in effect: the response has the earlier counts
        telemetry.record_fault(fault)
        return changed
    return replace(changed, admission=admission, directory=directory)


async def _admit(context: Context, orchestrations: Orchestrations, tenant: str) -> None:
    """Admits the jobs that can start because of a change. The change is in effect, so the sweeper repairs a fault."""
    with telemetry.tolerate(Exception, "DESK_UNSEEN", tenant_id=tenant):
        await notify(context, orchestrations, tenant, await take_turn(context, tenant))


async def _write(context: Context, gate: Gate, alter: _Alter, type_: ChangeType, by: By) -> Changed:
    """Writes the change. Raises TooManyRules, Contended, LedgerUnavailable, and errors of `alter`."""
    tried: list[tuple[Changed, LogEntry, AdmissionState]] = []

    async def act(stored: StoredAdmission, directory: Directory) -> Changed:
        now = context.clock.now()
        before = await read_state(context, stored.admission, gate)
        for changed, entry, _ in tried:
            if before.log_hash == entry.hash:
                # an earlier try of this write succeeded
                return changed
        after = alter(before, now)
        if after is before:
            return Changed(before, after, stored.admission, directory)
        _check_room(stored.admission, after, now)
        if gate.kind is GateKind.SOURCE and gate.id not in stored.admission.gates:
            # only sources with a quota are counted
            raise Uncounted(replace(stored, admission=stored.admission.with_state(before)))
        last_epoch = find_epoch(stored.admission, gate.name)
        after, entry = changes.record_change(
            before, after, directory, type_, actor=by.actor, reason=by.reason, at=now, last_epoch=last_epoch
        )
        admission = changes.apply_change(stored.admission, after, directory, now, is_fed=context.events is not None)
        changed = Changed(before, after, admission, directory)
        tried.append((changed, entry, stored.admission))
        await context.index.write_admission(AdmissionWrite(before=stored, after=admission, log=(entry,)))
        return changed

    written = await admission_turns.act_on_admission(context, gate.tenant, act)
    for changed, entry, admission in tried:
        if changed is written:
            note_gate_log(context.events, gate, [entry])
            if gate.tenant != EVERY:
                await admission_turns.request_due_allocations(context, admission, written.admission, written.directory)
    return written


async def _publish_default(context: Context, state: GateState) -> None:
    """Publishes the limits for every tenant, or the state of a quota over all tenants, in the directory."""
    gate = state.gate
    if gate.tenant != EVERY:
        return
    if gate.kind in OVER_ALL:
        await type_breakers.publish(context, state)
        return
    known = (await context.admissions.directory()).defaults.get((gate.kind, gate.name))
    if (known[0] if known is not None else None) != state.rule:
        await context.admissions.put_default(gate, state.rule, known[1] if known is not None else context.clock.now())
        context.process.gate_directory.forget()


async def _call_admissions(context: Context) -> None:
    """Requests a turn of each of the first 1,000 tenants that has waiting jobs. The sweeper takes the other turns."""

    async def one(tenant: str) -> None:
        try:
            stored = await context.admissions.read(tenant)
        except Exception as fault:
            # the sweeper takes the turn of this tenant
            telemetry.record_fault(fault)
            return
        if stored is not None and stored.admission.queues:
            await context.bus.admission_calls.call(tenant)

    with telemetry.tolerate(BusUnavailable):
        await run_concurrently((await context.index.tenants())[:_MAX_CALLS], one)


def _apply_default(directory: Directory, state: GateState) -> Directory:
    gate = state.gate
    if gate.tenant != EVERY:
        return directory
    if gate.kind in OVER_ALL:
        return replace(directory, over_all={**directory.over_all, gate.id: state})
    defaults: dict[tuple[GateKind, str], Rule] = dict(directory.defaults)
    defaults.pop((gate.kind, gate.name), None)
    if state.rule is not None:
        defaults[gate.kind, gate.name] = state.rule
    return replace(directory, defaults=defaults)


def _delete_rule(state: GateState) -> GateState:
    if state.rule is None:
        raise GateNotFound(f"{state.gate.display_name}; the quota has no own limits to delete")
    return replace(state, rule=None)


def _check_seq(state: GateState, rule_seq: int | None) -> None:
    if rule_seq is not None and rule_seq != state.rule_seq:
        raise RuleChanged


def _check_ahead(until: datetime | None, now: datetime) -> None:
    if until is not None and until <= now:
        raise QuotaInvalid(("until", f"must be in the future, not {until.isoformat()}"))


def _check_room(admission: AdmissionState, after: GateState, now: datetime) -> None:
    """Raises TooManyRules if the tenant's row has no room for the additional settings."""
    others = sum(changes.is_set(state, now) for id_, state in admission.gates.items() if id_ != after.gate.id)
    if changes.is_set(after, now) and others >= MAX_RULES:
        raise TooManyRules(MAX_RULES)
    size, before = changes.measure(after), changes.measure(admission.state(after.gate))
    if size > before:
        size += sum(changes.measure(state) for id_, state in admission.gates.items() if id_ != after.gate.id)
        if size > changes.MAX_BYTES:
            raise TooManyRules(f"{changes.MAX_BYTES // 1024} KiB")
