"""Checks the dispatch limits of services and lanes before an attempt is recorded (R56).

A hold stops an attempt, and so does a reached `max_active`. The bus itself counts directives that wait or are in
progress, so LUCIUS stores no count that can drift. There is no queue: the orchestration of a stopped attempt checks the
limits again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shared import telemetry
from shared.core.gates.rules import GUARDS, Gate
from shared.core.jobs.job import Step
from shared.errors import CountsForbidden, LedgerUnavailable
from shared.operations.gates import admission_turns
from shared.operations.process.context import Context
from shared.operations.process.in_flight import InFlightCount
from shared.refusals import QuotaInvalid


@dataclass(frozen=True)
class ShutGuard:
    """A dispatch limit that stops an attempt."""

    gate: Gate
    #: text for the history of a tenant's job, without numbers or reasons of other tenants
    why: str


async def find_shut_guard(context: Context, step: Step) -> ShutGuard | None:
    """Returns the dispatch limit that stops the step's next attempt. If no limit stops the attempt, counts the attempt
    and returns None.

    Reads the bus only for limits with `max_active`. An unreadable bus stops no attempt: the directive then waits on the
    bus, and directives over the limit do less harm than a standstill. If the directory cannot be read, its last copy
    applies.
    """
    try:
        known, now = (await admission_turns.read_directory(context)).over_all, context.clock.now()
    except LedgerUnavailable as fault:
        telemetry.record_fault(fault)
        known, now = context.process.gate_directory.last_known.over_all, context.clock.now()
    limits: list[tuple[Gate, int]] = []
    for gate in list_guards(step):
        state = known.get(gate.id)
        if state is None:
            continue
        if state.hold is not None and state.hold.is_on(now):
            return ShutGuard(gate, f"dispatch limit {gate.display_name} is held")
        if state.max_active is not None:
            limits.append((gate, state.max_active))
    counts = [await _count(context, gate, step.lane) for gate, _ in limits]
    # no await from here on, so that no other attempt of this process comes in between
    for (gate, limit), count in zip(limits, counts, strict=True):
        if count.known is not None and count.known >= limit:
            return ShutGuard(gate, f"dispatch limit {gate.display_name} is reached")
    for count in counts:
        count.passed += 1
    return None


async def has_guard(context: Context, step: Step) -> bool:
    """Returns `True` if a dispatch limit of the step has, or may have, a hold or `max_active`. Does not read
    the bus.

    `find_shut_guard` then decides. Raises nothing.
    """
    try:
        known = (await admission_turns.read_directory(context)).over_all
    except LedgerUnavailable as fault:
        telemetry.record_fault(fault)
        return True
    return any(gate.id in known for gate in list_guards(step))


def list_guards(step: Step) -> Iterator[Gate]:
    """Yields the dispatch limits of an attempt of the step."""
    for kind in GUARDS:
        yield Gate.over_all(kind, str(getattr(step, kind.key)))


async def check_rule(context: Context, gate: Gate, patch: Mapping[str, int | None]) -> None:
    """Checks that the app can enforce the limits in `patch`, if the quota is a dispatch limit.

    Raises QuotaInvalid if a limit does not apply to a service or a lane, or if the app lacks the role to read counts.
    Raises BusUnavailable if reading the counts fails in another way.
    """
    if gate.kind not in GUARDS:
        return
    given = {name for name, number in patch.items() if number is not None}
    if wrong := sorted(given - gate.kind.limits):
        raise QuotaInvalid(*((name, "does not apply to a service or a lane") for name in wrong))
    if given:
        try:
            await context.bus.counts.in_flight(int(gate.name_of("lane") or 0), gate.name_of("service"))
        except CountsForbidden as forbidden:
            raise QuotaInvalid(("max_active", str(forbidden))) from None


def check_throttle(gate: Gate) -> None:
    """Raises QuotaInvalid if the quota is a dispatch limit, which has no rate."""
    if gate.kind in GUARDS:
        raise QuotaInvalid(("max_per_hour", "does not apply to a service or a lane"))


async def _count(context: Context, gate: Gate, lane: int) -> InFlightCount:
    return await context.process.in_flight.of(context.bus.counts, lane, gate.name_of("service"), context.clock.now())
