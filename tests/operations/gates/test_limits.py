import asyncio
import itertools
from dataclasses import replace

import pytest

from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.errors import LedgerRefused
from shared.operations.gates import freed
from shared.operations.gates.admission_turns import AdmittedJobs
from shared.operations.jobs.creation import Created
from shared.operations.process.parts import Process
from shared.operations.quotas import quotas
from shared.refusals import LimitReached
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import cancelled, create_numbered, dispatch, limited, service_sends
from tests.worlds.gates import OPERATOR


async def test_a_tenant_at_its_limit_is_refused_with_the_limits_name(world: World) -> None:
    """The error has the limit and when to try again; nothing is written; another tenant is not touched."""
    world = limited(world, max_inflight_per_tenant=1)
    await create_numbered(world, 1)
    with pytest.raises(LimitReached) as refused:
        await create_numbered(world, 2)
    assert refused.value.limit == "LUCIUS_MAX_INFLIGHT_PER_TENANT"
    assert int(refused.value.headers["Retry-After"]) > 0
    assert len(await world.index.list_jobs("tenant_a", after=None, limit=10)) == 1
    assert not (await create_numbered(world, 3, tenant_id="tenant_b")).replayed


@pytest.mark.parametrize(
    ("limits", "mode", "name"),
    [
        ({"max_inflight": 2}, "DEFAULT", "LUCIUS_MAX_INFLIGHT"),
        ({"max_inflight_burst": 2}, "BURST", "LUCIUS_MAX_INFLIGHT_BURST"),
    ],
)
async def test_a_limit_over_all_tenants_refuses_and_makes_room(
    world: World, limits: dict[str, int], mode: str, name: str
) -> None:
    """By the name of its setting; an end makes room, whether a sweep came by or not."""
    world = limited(world, **limits)
    first = (await create_numbered(world, 1, mode=mode)).stored.record.job.job_id
    await create_numbered(world, 2, mode=mode)
    with pytest.raises(LimitReached) as refused:
        await create_numbered(world, 3, mode=mode)
    assert refused.value.limit == name
    await dispatch(world, first)
    await service_sends(world, first, "RESULT", 1)
    assert not (await create_numbered(world, 3, mode=mode)).replayed


@pytest.mark.parametrize("fault", [LedgerRefused, asyncio.CancelledError])
async def test_a_creation_that_is_broken_off_frees_its_place(world: World, fault: type[BaseException]) -> None:
    """After any end of the reservation the slot is free for the next request."""
    world = limited(world, max_inflight=1)
    with failing(world.index, "reserve_together", error=fault), pytest.raises(fault):
        await create_numbered(world, 1)
    assert not (await create_numbered(world, 2)).replayed


async def test_a_limit_of_burst_lets_default_through(world: World) -> None:
    """The limit of one mode does not hold back the other."""
    world = limited(world, max_inflight_burst=1)
    await create_numbered(world, 1, mode="BURST")
    assert not (await create_numbered(world, 2, mode="DEFAULT")).replayed


@pytest.mark.parametrize(("limit", "mode"), [("max_inflight", "DEFAULT"), ("max_inflight_burst", "BURST")])
@pytest.mark.parametrize("processes", [1, 4])
async def test_fifty_posts_of_each_process_are_exact(world: World, limit: str, mode: str, processes: int) -> None:
    """Of one tenant and of many, at once: exactly the limit is admitted, from any process; the others are refused."""
    free = 20
    settings = replace(world.context.settings, **{limit: free})
    each = [
        replace(world, context=replace(world.context, settings=settings, process=Process())) for _ in range(processes)
    ]
    posts = [
        create_numbered(each[n % processes], n, mode=mode, tenant_id=f"tenant_{n % 5}") for n in range(50 * processes)
    ]
    answers = await asyncio.gather(*posts, return_exceptions=True)
    assert {type(answer) for answer in answers} == {Created, LimitReached}
    assert sum(isinstance(answer, Created) for answer in answers) == free


async def _dies(*_: object) -> AdmittedJobs:
    """The turn after an end, in a process that dies before it."""
    return AdmittedJobs()


async def test_a_request_takes_turns_before_it_is_refused(world: World) -> None:
    """Of 86 FREED rows only the last one makes room; the processes of these jobs died before their turns."""
    others = 85
    ids = itertools.count(1000)
    world = replace(world, context=replace(world.context, new_job_id=lambda: f"job_{next(ids)}"))
    for gate, number in (
        (Gate(GateKind.TENANT, "tenant_a"), {"max_staged": 1}),
        (Gate(GateKind.TYPE, "tenant_a", "OCR"), {"max_active": 1}),
    ):
        await quotas.set_rule(world.context, world.orchestrations, gate, number, OPERATOR, rule_seq=None)
    jobs = [
        (await create_numbered(world, number, request_type="EMBEDDING")).stored.record.job.job_id
        for number in range(others)
    ]
    await create_numbered(world, 1000)
    waits = (await create_numbered(world, 1001)).stored.record.job.job_id
    with pytest.raises(LimitReached, match="waiting jobs"):
        await create_numbered(world, 1002)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(freed, "take_turn_after_end", _dies)
        for job_id in (*jobs, waits):
            await cancelled(world, job_id)
    assert len(await world.index.admissions.list_freed("tenant_a", limit=1000)) == others + 1
    status = (await create_numbered(world, 2000)).stored.record.job.status
    assert status is JobStatus.THROTTLED
