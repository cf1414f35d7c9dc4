import pytest

from shared.errors import Refusal
from shared.operations.create_job import create_job
from shared.operations.dry_run import dry_run
from tests.jobs import envelope
from tests.operations.conftest import World


async def test_it_tells_the_route_and_the_directives_and_writes_nothing(world: World) -> None:
    """Tenant, lane, topic, idempotency verdict and a directive a step; no row, no orchestration."""
    told = await dry_run(world.context, envelope(tenant_id=" Tenant_A"), correlation_id="c")
    assert (told["tenant"], told["route"]["topic"]) == ("tenant_a", "global-bus-p15")
    assert told["idempotency"]["verdict"] == "NEW"
    assert [directive["stepId"] for directive in told["directives"]] == ["ocr", "embedding", "sis"]
    assert await world.index.tenants() == []
    assert world.orchestrations.started == []


async def test_it_knows_duplicates_and_conflicts(world: World) -> None:
    """The claim of an earlier job is found, with the job's id."""
    created = await create_job(world.context, world.orchestrations, envelope(idempotency_key="k"), correlation_id=None)
    job_id = created.stored.record.job.job_id
    same = await dry_run(world.context, envelope(idempotency_key="k"), correlation_id=None)
    other = await dry_run(world.context, envelope(idempotency_key="k", doc_id="d"), correlation_id=None)
    assert (same["idempotency"]["verdict"], same["idempotency"]["jobId"]) == ("DUPLICATE", job_id)
    assert other["idempotency"]["verdict"] == "CONFLICT"


async def test_it_refuses_what_a_post_refuses(world: World) -> None:
    """The checks are the real ones."""
    with pytest.raises(Refusal, match="no protocol"):
        await dry_run(world.context, envelope(request_type="NOTHING"), correlation_id=None)
