from dataclasses import replace

import pytest

from shared.operations.create_job import create_job
from shared.operations.dry_run import dry_run
from shared.refusals import LimitReached, ProtocolUnknown
from shared.responses.job import DryQuota
from tests.jobs import envelope
from tests.operations.conftest import World
from tests.operations.support import create_numbered, limited


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
    """What is not set is not looked up."""
    result = await dry_run(replace(world.context, index=_NoGate(world)), envelope(), correlation_id=None)  # type: ignore[arg-type]
    assert result.quota == DryQuota(verdict="ADMITTED", limit=None, tenant_limit=None, tenant_active=None)


class _NoGate:
    def __init__(self, world: World) -> None:
        self.read_claim = world.index.read_claim
