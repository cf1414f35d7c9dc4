import asyncio
import contextlib
from collections import Counter
from dataclasses import replace

import pytest

from shared.access.caller import Caller
from shared.api.job_requests import DryQuota
from shared.core.gates.rules import Gate, GateKind
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.dry_run import dry_run
from shared.operations.process.submissions import AT_ONCE, MAX_WAITING
from shared.refusals import LimitReached, Overloaded, ProtocolUnknown
from shared.wiring import seen_by
from tests.jobs import envelope
from tests.operations.conftest import World
from tests.operations.support import cancelled, create_numbered, limited
from tests.worlds.gates import OCR_OF_ALL, PLATFORM, allocation_record, created, ruled, served


async def test_it_has_the_route_and_the_directives_and_writes_nothing(world: World) -> None:
    """Tenant, lane, topic, idempotency verdict and a directive a step; no row, no orchestration."""
    result = await dry_run(world.context, envelope(tenant_id=" Tenant_A"), correlation_id="c")
    assert (result.tenant, result.route.topic) == ("tenant_a", "global-bus-p15")
    assert result.idempotency.verdict == "NEW"
    assert [directive["stepId"] for directive in result.directives] == ["ocr", "embedding", "sis"]
    assert await world.index.tenants() == []
    assert world.orchestrations.started == []


async def test_it_knows_duplicates_and_conflicts(world: World) -> None:
    """The claim of an earlier job is found, with the job's id."""
    created = await create_job(world.context, world.orchestrations, envelope(idempotency_key="k"), correlation_id=None)
    job_id = created.stored.record.job.job_id
    same = await dry_run(world.context, envelope(idempotency_key="k"), correlation_id=None)
    other = await dry_run(world.context, envelope(idempotency_key="k", doc_id="d"), correlation_id=None)
    assert (same.idempotency.verdict, same.idempotency.jobId) == ("DUPLICATE", job_id)
    assert other.idempotency.verdict == "CONFLICT"


async def test_it_refuses_what_a_post_refuses(world: World) -> None:
    """The checks are the real ones."""
    with pytest.raises(ProtocolUnknown):
        await dry_run(world.context, envelope(request_type="NOTHING"), correlation_id=None)


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        ({"max_inflight_per_tenant": 2}, "LUCIUS_MAX_INFLIGHT_PER_TENANT"),
        ({"max_inflight": 2}, "LUCIUS_MAX_INFLIGHT"),
        ({"max_inflight_burst": 2}, "LUCIUS_MAX_INFLIGHT_BURST"),
    ],
)
async def test_it_names_the_limit_that_would_refuse(world: World, limits: dict[str, int], limit: str) -> None:
    """Admitted up to the limit, then refused by name; a duplicate never is; and nothing is counted for asking."""
    world = limited(world, **limits)

    async def quota(number: int) -> tuple[str, str | None]:
        request = envelope(doc_id=f"doc-{number}", request_type="OCR", payload={}, mode="BURST")
        quota = (await dry_run(world.context, request, correlation_id=None)).quota
        return quota.verdict, quota.limit

    for number in range(2):
        for _ in range(3):
            assert await quota(number) == ("ADMITTED", None)
        await create_numbered(world, number, mode="BURST")
    assert await quota(2) == ("REFUSED", limit)
    with pytest.raises(LimitReached) as refused:
        await create_numbered(world, 2, mode="BURST")
    assert refused.value.limit == limit
    assert await quota(1) == ("ADMITTED", None)


async def test_without_limits_a_quota_costs_no_read(world: World) -> None:
    result = await dry_run(replace(world.context, index=_NoGate(world)), envelope(), correlation_id=None)  # type: ignore[arg-type]
    assert result.quota == DryQuota(verdict="ADMITTED", limit=None, tenant_limit=None, tenant_active=None)


class _NoGate:
    def __init__(self, world: World) -> None:
        self.read_claim = world.index.read_claim


CALLER = Caller(actor="user:x", scopes=frozenset(), tenant="asking")


async def test_its_reads_do_not_grow_with_the_tenants(world: World) -> None:
    """Three quotas over all tenants: one row each, with the jobs of 1 tenant as with those of 15; for a caller of one
    tenant as for one of all.
    """
    world = limited(world)
    for gate in (PLATFORM, Gate.over_all(GateKind.MODE, "BURST"), OCR_OF_ALL):
        await ruled(world, gate, max_active=1000)
    context, accounts = world.context, [world.index._rows.account, world.context.allocations._gates.account]  # type: ignore[attr-defined]
    request = envelope(tenant_id="asking", request_type="OCR", payload={}, mode="BURST", doc_id="d")
    costs: list[Counter[str]] = []
    for tenants in (range(1), range(1, 15)):
        for number in tenants:
            await created(world, number, f"tenant_{number}", mode="BURST")
        # the first one opens the tenant's admission state
        for seen in (context, context, seen_by(CALLER, context, moving=True)):
            for account in accounts:
                account.calls.clear()
            assert (await dry_run(seen, request, correlation_id=None)).quota.verdict == "ADMITTED"
            costs.append(sum((account.calls for account in accounts), Counter[str]()))
    assert costs[1] == costs[2] == costs[4] == costs[5]
    assert costs[1]["books"] == 3
    assert costs[1].total() <= 7


async def test_an_idle_share_is_not_taken_for_a_full_quota(world: World) -> None:
    """All slots are lent to the first tenant, which uses one: a job of another tenant would start."""
    await ruled(limited(world), PLATFORM, max_active=3)
    await created(world, 0, "busy")
    assert (await allocation_record(world)).granted == 3
    assert await _verdict(world, "other") == "ADMITTED"
    await created(world, 1, "other")
    await created(world, 2, "third")
    assert [await _verdict(world, tenant) for tenant in ("busy", "other", "fourth")] == ["STAGED"] * 3
    assert (await create_numbered(world, 3, tenant_id="fourth")).stored.record.job.is_staged


async def test_those_that_wait_come_first(world: World) -> None:
    """A slot that a division lent to a queued job is used."""
    world = limited(world)
    await ruled(world, PLATFORM, max_active=2)
    jobs = [await created(world, number, "busy") for number in range(6)]
    await served(world)
    await cancelled(world, jobs[0])
    await served(world)
    assert await _verdict(world, "other") == "STAGED"


async def _verdict(world: World, tenant: str) -> str:
    request = envelope(tenant_id=tenant, request_type="OCR", payload={}, doc_id="asks")
    return (await dry_run(world.context, request, correlation_id=None)).quota.verdict


async def test_it_takes_a_turn_as_a_request_does(world: World) -> None:
    """If the process has its maximum of requests, a dry run waits, and past the waiting maximum it is refused."""
    async with contextlib.AsyncExitStack() as held:
        for _ in range(AT_ONCE):
            await held.enter_async_context(world.context.process.submissions.turn("other"))
        asked = [asyncio.ensure_future(dry_run(world.context, envelope(), correlation_id=None)) for _ in range(200)]
        for _ in range(5):
            await asyncio.sleep(0)
        waiting = [each for each in asked if not each.done()]
        assert {type(each.exception()) for each in asked if each.done()} == {Overloaded}
        assert len(waiting) == MAX_WAITING // 2
    assert {(await each).quota.verdict for each in waiting} == {"ADMITTED"}


async def test_a_job_with_dependencies_never_waits_for_a_quota_first(world: World) -> None:
    """LUCIUS checks its quotas after the dependencies have ended."""
    world = limited(world)
    await ruled(world, PLATFORM, max_active=1)
    first = await created(world, 0, "busy")
    request = {"tenant_id": "busy", "request_type": "OCR", "payload": {}, "doc_id": "asks"}
    verdicts = [
        (await dry_run(world.context, envelope(**request, **more), correlation_id=None)).quota.verdict
        for more in ({}, {"dependencies": [first]})
    ]
    assert verdicts == ["STAGED", "ADMITTED"]
