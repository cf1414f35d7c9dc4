"""The row of a tenant's quotas stays below 1 MiB: an operator's change is refused before a job ever is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.tables.admissions import operations_of
from shared.core.gates.admission_state import WaitingQueue
from shared.core.gates.breaker import JobEnd
from shared.core.gates.changes import MAX_BYTES, MAX_REASON, measure
from shared.core.gates.queues import MAX_QUEUES
from shared.core.gates.rules import ALLOCATED, AdmissionBreaker, Gate, GateKind, QuotaShare, Rule
from shared.operations.quotas import quotas
from shared.operations.quotas.quotas import By
from shared.ports.admissions import AdmissionWrite
from shared.refusals import TooManyRules
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.support import create_numbered
from tests.worlds.gates import entries, held, world

__all__ = ["world"]  # a fixture

ROW = 1 << 20


def bytes_of(entity: Mapping[str, Any]) -> int:
    """As Azure counts an entity: names and texts in UTF-16, eight bytes for any other value."""
    return sum(
        8 + 2 * len(name) + (len(value.encode("utf-16-le")) + 4 if isinstance(value, str) else 8)
        for name, value in entity.items()
    )


async def test_a_long_reason_is_whole_in_the_log_alone(world: World) -> None:
    """A hold shows its first 200 characters; the same hold again changes nothing."""
    reason = "a" * 500 + "b" * 524
    by = By(actor="app:1 (ops)", reason=reason)
    for _ in range(2):
        hold = (await held(world, by=by)).after.hold
    assert hold is not None
    assert (len(hold.reason), hold.reason[-1]) == (MAX_REASON, "…")
    [entry] = await entries(world)
    assert entry.reason == reason
    assert entry.data["after"]["hold"]["reason"] == hold.reason


@pytest.mark.parametrize("character", ["x", "😀"])
async def test_the_row_of_a_tenant_has_room_for_every_job(world: World, character: str) -> None:
    """With the longest names and reasons an operator's change is refused; any that makes the row smaller is not."""
    by, until = By(actor="a" * 250, reason=character * 1024), world.clock.now() + timedelta(days=30)
    gates = [Gate(GateKind.SOURCE, "tenant_a", f"{number:03}{character * 253}") for number in range(100)]
    [first, *others] = gates
    await quotas.hold(world.context, world.orchestrations, first, by, until=until)
    state = (await quotas.throttle(world.context, world.orchestrations, first, by, max_per_hour=9, until=until)).after
    state = replace(state, rule=Rule(max_active=5, max_per_hour=100, burst=3), credit=10**15, credit_at=START)
    room = min(99, MAX_BYTES // measure(state))
    stored = world.index.admissions.admissions["tenant_a"]
    admission = replace(stored.admission, gates={gate.id: replace(state, gate=gate) for gate in gates[:room]})
    await world.index.write_admission(AdmissionWrite(before=stored, after=admission))
    assert (room == 99) is (character == "x")
    if room == 99:
        await held(world, others[-1], by=by, until=until)
    with pytest.raises(TooManyRules, match="100 quotas" if room == 99 else "400 KiB"):
        await held(world, by=by)
    await quotas.resume(world.context, world.orchestrations, first, by)
    stored = world.index.admissions.admissions["tenant_a"]
    admission = stored.admission
    # the most that jobs can add: every waiting queue, each source counted, and the ends that breakers keep
    sources = [state.gate.name for state in admission.gates.values() if state.gate.kind is GateKind.SOURCE]
    line = WaitingQueue(job_type="T" * 64, mode="BURST", source="", emergency=False, count=999, head=1 << 41)
    lines = {number: replace(line, source=sources[number % len(sources)]) for number in range(MAX_QUEUES)}
    ring = tuple(JobEnd(at=START + timedelta(microseconds=number), good=False, epoch=number) for number in range(50))
    shares = [
        QuotaShare(
            gate=Gate.over_all(kind, f"{number}{'T' * 60}"), slots=1, breaker=AdmissionBreaker(epoch=9, ring=ring)
        )
        for kind in ALLOCATED
        for number in range(3)
    ]
    full = replace(
        admission,
        queues=lines,
        active_by_source=dict.fromkeys(sources, 9),
        shares={each.gate.id: each for each in shares},
    )
    row = operations_of(AdmissionWrite(before=None, after=full))[0][1]
    assert bytes_of(row) < ROW, bytes_of(row)
    assert max(len(value) for value in row.values() if isinstance(value, str)) <= 32_768
    await create_numbered(world, 1, source=sources[-1])
