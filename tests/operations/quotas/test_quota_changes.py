"""Changes of rules, holds and throttles: logged once, refused or found again, with any concurrent change (R52)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.core.records.chained_log import entry_hash
from shared.errors import Conflict, LedgerUnavailable
from shared.operations.gates.find_gate import find_gate
from shared.operations.gates.waiting import read_admission
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.quotas import quotas
from shared.refusals import GateNotFound, GateUnclear, QuotaForbidden, QuotaInvalid, RuleChanged, TooManyRules
from tests.contexts import changed
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile
from tests.operations.support import swept
from tests.worlds.gates import (
    OCR,
    OPERATOR,
    OWN,
    SCANNER,
    TENANT,
    created,
    entries,
    held,
    resumed,
    ruled,
    statuses,
    world,
)

__all__ = ["world"]  # a fixture


async def test_what_is_asked_for_again_leaves_no_trace(world: World) -> None:
    """The same rule, hold, throttle and resume twice: one entry in the log each, and `rule_seq` stays."""
    for _ in range(2):
        await ruled(world, seq=0, max_active=2)
        await held(world)
    assert [entry.type for entry in await entries(world)] == ["RULE_SET", "HELD"]
    assert (await resumed(world)).after.rule_seq == 3
    assert (await resumed(world)).after.rule_seq == 3


async def test_the_log_is_numbered_and_chained(world: World) -> None:
    """Also over a deletion and a new rule: operator, reason, before and after, and each entry's hash in the next."""
    await ruled(world, SCANNER, max_active=2)
    await quotas.delete_rule(world.context, world.orchestrations, SCANNER, OPERATOR, rule_seq=None)
    stored = world.index.admissions.admissions["tenant_a"]
    assert SCANNER.id not in stored.admission.gates
    changed = await ruled(world, SCANNER, seq=2, max_active=3)
    log = await entries(world, SCANNER)
    assert [(entry.seq, entry.type) for entry in log] == [(1, "RULE_SET"), (2, "RULE_DELETED"), (3, "RULE_SET")]
    assert [entry.prev_hash for entry in log] == ["", log[0].hash, log[1].hash]
    for entry in log:
        assert entry.hash == entry_hash(vars(entry))
    assert (log[1].data["before"]["rule"], log[1].data["after"]["rule"]) == ({"max_active": 2}, None)
    assert (changed.after.log_hash, log[0].actor, log[0].reason) == (log[2].hash, "app:1 (ops)", "month end")


REFUSED: dict[str, tuple[Gate, Mapping[str, int | None], int | None, type[Exception]]] = {
    "a stale ETag": (TENANT, {"max_active": 3}, 0, RuleChanged),
    "a burst without a rate": (TENANT, {"burst": 3}, 1, QuotaInvalid),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_refused_change_changes_nothing(world: World, name: str) -> None:
    """No row of admission state, log or directory."""
    gate, patch, seq, error = REFUSED[name]
    await ruled(world, max_active=2)
    before = (await world.context.admissions.read("tenant_a"), await world.context.admissions.directory())
    with pytest.raises(error):
        await ruled(world, gate, seq, **patch)
    assert (await world.context.admissions.read("tenant_a"), await world.context.admissions.directory()) == before


async def test_a_refusal_of_a_tenant_without_gates_opens_no_admission(world: World) -> None:
    """It stays out of the directory: its jobs cause no writes."""
    with pytest.raises(RuleChanged):
        await ruled(world, seq=7, max_active=2)
    with pytest.raises(GateNotFound):
        await quotas.delete_rule(world.context, world.orchestrations, TENANT, OPERATOR, rule_seq=None)
    assert await world.context.admissions.read("tenant_a") is None
    assert (await world.context.admissions.directory()).tenants == {}


async def test_a_gate_past_the_maximum_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred, and here four: a changed one of them is not refused; a deleted one makes room."""
    assert quotas.MAX_RULES == 100
    monkeypatch.setattr(quotas, "MAX_RULES", 4)
    gates = [Gate(GateKind.SOURCE, "tenant_a", f"s{number}") for number in range(5)]
    for gate in gates[:-1]:
        await held(world, gate)
    for act in (ruled(world, gates[-1], max_active=1), held(world, gates[-1])):
        with pytest.raises(TooManyRules):
            await act
    assert gates[-1].id not in (await read_admission(world.context, "tenant_a"))[0].gates
    await ruled(world, gates[0], max_active=1)
    await resumed(world, gates[1])
    await held(world, gates[-1])


async def test_a_tenants_own_callers_cannot_end_an_operators_hold(world: World) -> None:
    """The rules for each of them are those of `tests/core/gates/test_changes.py`."""
    await held(world)
    with pytest.raises(QuotaForbidden):
        await resumed(world, by=OWN)
    with pytest.raises(QuotaInvalid):
        await held(world, until=world.clock.now())


async def test_a_rule_for_every_tenant_that_never_got_to_the_directory_comes_by_repetition(world: World) -> None:
    """Killed between its admission state and the directory: the same request again publishes it, with no second
    entry.
    """
    default = Gate(GateKind.TENANT, EVERY)
    with failing(world.index.admissions, "put_default"), pytest.raises(LedgerUnavailable):
        await ruled(world, default, max_active=1)
    assert (await world.context.admissions.directory()).defaults == {}
    await ruled(world, default, max_active=1)
    assert len((await world.context.admissions.directory()).defaults) == len(await entries(world, default)) == 1


async def test_a_tenant_for_which_nothing_is_set_leaves_the_directory(world: World) -> None:
    """With the last rule, hold or throttle, unless a job waits; its jobs then cause the earlier writes only."""
    await ruled(world, max_active=1)
    await held(world, SCANNER)
    await quotas.delete_rule(world.context, world.orchestrations, TENANT, OPERATOR, rule_seq=None)
    assert [*(await world.context.admissions.directory()).tenants] == ["tenant_a"]
    await resumed(world, SCANNER)
    assert (await world.context.admissions.directory()).tenants == {}
    assert (await created(world, 1)) in [
        row.job_id for row in await world.index.list_active("tenant_a", after=None, limit=9)
    ]


@pytest.mark.parametrize("gate", [TENANT, SCANNER])
async def test_a_hold_that_ended_by_time_takes_its_tenant_out_of_the_directory(world: World, gate: Gate) -> None:
    """Within the hour, also of a tenant that sleeps; not while a job waits, nor where another hold was set since."""
    await quotas.hold(
        world.context, world.orchestrations, gate, OPERATOR, until=world.clock.now() + timedelta(minutes=30)
    )
    await hours(world, 0.4)
    assert [*(await world.context.admissions.directory()).tenants] == ["tenant_a"]
    await hours(world, 1.5)
    assert (await world.context.admissions.directory()).tenants == {}
    stored = world.index.admissions.admissions["tenant_a"]
    assert gate is TENANT or gate.id not in stored.admission.gates
    await held(world, gate)
    await hours(world, 2)
    assert [*(await world.context.admissions.directory()).tenants] == ["tenant_a"]
    assert len(await entries(world, gate)) == 2


async def hours(world: World, count: float) -> None:
    """A sweep each minute."""
    until = world.clock.now() + timedelta(hours=count)
    while world.clock.now() < until:
        world.clock.advance(60)
        await swept(world)


@pytest.mark.parametrize("late", ["before", "after"])
async def test_a_last_rule_goes_while_another_comes(world: World, late: str) -> None:
    """Race last-rule: a hold of another process is concurrent with the removal of the entry, and stays in force."""
    await ruled(world, max_active=1)
    other = replace(world, context=changed(world.context, gate_directory=GateDirectory()))
    meanwhile(world.index.admissions, "remove_tenant", lambda: held(other), after=late == "after")
    await quotas.delete_rule(world.context, world.orchestrations, TENANT, OPERATOR, rule_seq=None)
    assert [*(await world.context.admissions.directory()).tenants] == ["tenant_a"]
    assert await statuses(world, [await created(world, 1)]) == [JobStatus.THROTTLED]


async def test_a_write_that_went_through_unheard_is_its_own(world: World) -> None:
    """The SDK repeats a write whose response was lost: its conflict with itself is no stale ETag; one entry stays."""
    await ruled(world, max_active=1)
    with failing(world.index, "write_admission", error=Conflict, only=lambda write: write.log, after=True):
        changed = await ruled(world, seq=1, max_active=2)
        assert (changed.before is changed.after, changed.after.rule_seq, len(await entries(world))) == (False, 2, 2)
        gone = await quotas.delete_rule(world.context, world.orchestrations, TENANT, OPERATOR, rule_seq=2)
    assert gone.after.rule_seq == len(await entries(world)) == 3


async def test_two_changes_at_once_of_one_etag(world: World) -> None:
    """Race admission: one is written, the other finds another admission state at its next read, and is refused."""
    await ruled(world, max_active=1)
    answers = await asyncio.gather(*(ruled(world, seq=1, max_active=n) for n in (2, 3)), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["Changed", "RuleChanged"]


async def test_a_gate_is_found_by_its_names_or_its_id(world: World) -> None:
    """Names are normalised; a type that no protocol has, an id of nothing and two names are refused."""
    context = world.context
    assert await find_gate(context, " Tenant_A ", source=" SCANNER-7") == SCANNER
    for gate in (TENANT, OCR):
        assert await find_gate(context, "tenant_a", gate_id=gate.id) == gate
    with pytest.raises(GateNotFound):
        await find_gate(context, "tenant_a", gate_id=SCANNER.id)
    await held(world, SCANNER)
    assert await find_gate(context, "tenant_a", gate_id=SCANNER.id) == SCANNER
    for names in ({"job_type": "FAX"}, {"gate_id": "0" * 16}, {"gate_id": OCR.id, "source": "scanner-7"}):
        with pytest.raises(GateNotFound):
            await find_gate(context, "tenant_a", **names)
    with pytest.raises(GateUnclear):
        await find_gate(context, "tenant_a", job_type="OCR", source="s")
    for names in ({"tenant": " "}, {"tenant": "*", "source": "s"}):
        with pytest.raises(QuotaInvalid):
            await find_gate(context, **names)
