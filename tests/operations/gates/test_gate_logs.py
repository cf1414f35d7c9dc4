"""A quota that its admission state has forgotten and that is used again: its log continues (R52, R79)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.access.caller import Caller
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.records.chained_log import entry_hash
from shared.operations.gates.platform_gates import read_platform_state
from shared.operations.quotas import quotas
from shared.ports.admissions import AdmissionWrite
from shared.refusals import RuleChanged
from shared.wiring import seen_by
from tests.operations.conftest import World
from tests.operations.support import limited
from tests.worlds.events import TENANT, Fed, logs, of, swept_at_the_hour
from tests.worlds.gates import (
    MIN_CALLS,
    OCR,
    OPERATOR,
    admission_of,
    breaker_of,
    ends,
    entries,
    posted,
    ruled,
    with_breaker,
)

EACH_TYPE = Gate(GateKind.TYPE, EVERY, EVERY)


@pytest.fixture(params=["with feeds", "without"])
async def fed(request: pytest.FixtureRequest, world: World) -> Fed:
    """Sets a rule at the gate and removes it, so that the gate is unset."""
    world = limited(world)
    fed = of(world)
    if request.param == "without":
        fed.world = world
    await ruled(fed.world, OCR, max_active=5)
    await quotas.delete_rule(fed.world.context, fed.world.orchestrations, OCR, OPERATOR, rule_seq=None)
    if fed.world.context.events is not None:
        await fed.taken()
        await swept_at_the_hour(fed)
    stored = world.index.admissions.admissions[TENANT]
    assert OCR.id not in stored.admission.gates
    return fed


async def goes_on(fed: Fed) -> None:
    """Chained, and in the feed."""
    log = await entries(fed.world, OCR)
    assert [each.seq for each in log] == [1, 2, 3]
    assert [each.prev_hash for each in log[1:]] == [each.hash for each in log[:-1]]
    assert log[-1].hash == entry_hash(vars(log[-1]))
    if fed.world.context.events is not None:
        await fed.taken()
        assert [each for each in await logs(fed) if each.startswith(OCR.id)] == [f"{OCR.id}:{n}:0" for n in (1, 2, 3)]


async def test_a_breaker_for_each_type_opens_at_it(fed: Fed) -> None:
    """Else the end of the job could never be written, and its place never be free."""
    await with_breaker(fed.world, EACH_TYPE)
    for job_id in await posted(fed.world, *range(MIN_CALLS)):
        await ends(fed.world, job_id)
    assert (await breaker_of(fed.world)).epoch == 1
    await goes_on(fed)


async def test_a_rule_is_set_after_a_rate_for_each_type_counted_at_it(fed: Fed) -> None:
    await ruled(fed.world, EACH_TYPE, max_per_hour=60)
    await posted(fed.world, 1)
    await quotas.preview_rule(fed.world.context, OCR, {"max_active": 7}, rule_seq=2)
    await ruled(fed.world, OCR, seq=2, max_active=7)
    await goes_on(fed)


OVER_ALL = [Gate.over_all(kind, name) for kind, name in ((GateKind.PLATFORM, ""), (GateKind.PLATFORM_TYPE, "OCR"))]
OVER_ALL += [Gate.over_all(GateKind.MODE, "BURST"), Gate.over_all(GateKind.LANE, "3")]


@pytest.mark.parametrize("gate", OVER_ALL, ids=lambda gate: gate.display_name)
@pytest.mark.parametrize("is_fed", [True, False], ids=["with feeds", "without"])
@pytest.mark.parametrize("sees_all", [True, False])
async def test_a_forgotten_quota_over_all_tenants_is_set_under_the_etag_that_was_read(
    world: World, gate: Gate, is_fed: bool, sees_all: bool
) -> None:
    """An operator read it, also one who may change quotas and not read all jobs."""
    fed = of(limited(world))
    world = fed.world if is_fed else world
    await quotas.hold(world.context, world.orchestrations, gate, OPERATOR, until=None)
    await quotas.resume(world.context, world.orchestrations, gate, OPERATOR)
    if is_fed:
        await fed.taken()
        await swept_at_the_hour(fed)
    stored = world.index.admissions.admissions[EVERY]
    assert gate.id not in stored.admission.gates
    operator = Caller(actor="op", scopes=frozenset(), tenant=None, sees_all=sees_all, moves_all=True)
    read = await read_platform_state(seen_by(operator, world.context, moving=False), gate, by_operator=True)
    previewed = await quotas.preview_rule(world.context, gate, {}, rule_seq=read.rule_seq)
    assert previewed.changed.before.rule_seq == read.rule_seq == 2
    with pytest.raises(RuleChanged):
        await quotas.preview_rule(world.context, gate, {}, rule_seq=0)


async def test_a_admission_that_does_not_know_the_head_of_a_log_goes_past_it(world: World) -> None:
    """As with a restored GATES row: jobs end, the breaker opens, and the log stays numbered and chained."""
    world = limited(world, overflow="stage")
    for number in (20, 21):
        await ruled(world, OCR, breaker={"min_calls": 2}, max_active=number)
    stored = world.index.admissions.admissions[TENANT]
    behind = stored.admission.with_state(replace(stored.admission.state(OCR), log_seq=1))
    await world.index.write_admission(AdmissionWrite(before=stored, after=behind))
    for job_id in await posted(world, 1, 2):
        await ends(world, job_id)
    log = await entries(world, OCR)
    assert [(each.seq, each.type) for each in log] == [(1, "RULE_SET"), (2, "RULE_SET"), (3, "BREAKER_OPENED")]
    assert log[2].prev_hash == log[1].hash
    assert (await admission_of(world)).active == 0
