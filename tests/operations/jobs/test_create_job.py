from dataclasses import replace
from typing import Any

import pytest

from shared.core.jobs.states import JobStatus
from shared.core.registry import Registry
from shared.errors import LedgerUnavailable
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.creation import Created
from shared.refusals import DirectiveTooLarge, IdempotencyConflict, ProtocolUnknown, RequestInvalid
from tests.jobs import envelope, registry
from tests.operations.conftest import World
from tests.operations.faults import failing


async def create(world: World, **changes: Any) -> Created:
    return await create_job(world.context, world.orchestrations, envelope(**changes), correlation_id="corr-1")


async def test_a_request_becomes_rows_and_an_orchestration(world: World) -> None:
    """Claim, rows, start; the job is QUEUED with its steps PENDING."""
    created = await create(world)
    job = created.stored.record.job
    assert (created.replayed, job.status, job.correlation_id) == (False, JobStatus.QUEUED, "corr-1")
    assert world.orchestrations.started == [job.job_id]
    assert [step.step_id for step in created.stored.record.steps] == ["ocr", "embedding", "sis"]
    assert [event.type for event in await world.ledger.events(job.job_id)] == ["JOB_CREATED"]


async def test_the_same_request_is_the_same_job(world: World) -> None:
    """A duplicate creates nothing and names the first job and its time."""
    first = await create(world)
    world.clock.advance(60)
    second = await create(world)
    assert second.replayed
    assert second.stored.record == first.stored.record


async def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    """An idempotency key identifies one body."""
    first = await create(world, idempotency_key="k")
    with pytest.raises(IdempotencyConflict) as refused:
        await create(world, idempotency_key="k", doc_id="another")
    assert refused.value.members == {"jobId": first.stored.record.job.job_id}


async def test_a_creation_that_died_is_finished_by_the_next_post(world: World) -> None:
    """Killed after the claim: the next POST of the same body writes the rows and starts the orchestration."""
    with failing(world.ledger, "create"), pytest.raises(LedgerUnavailable):
        await create(world)
    assert world.orchestrations.started == []
    world.clock.advance(60)
    created = await create(world)
    job = created.stored.record.job
    assert created.replayed
    assert job.created_at < world.clock.now()
    assert world.orchestrations.started == [job.job_id]


async def test_an_expired_claim_makes_a_new_job(world: World) -> None:
    """Thirty days after the end the same request is a new job."""
    first = await create(world)
    job = replace(first.stored.record.job, status=JobStatus.SUCCEEDED, completed_at=world.clock.now())
    await world.index.close(job, claim_expires_at=world.clock.now())
    world.clock.advance(1)
    second = await create(world)
    assert not second.replayed
    assert second.stored.record.job.job_id != job.job_id


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"input_ref": "ftp://host/a"}, "input_ref.uri"),
        ({"output_ref": "https://user@host/a"}, "output_ref.uri"),
        ({"mode": "BURST"}, "doc_id"),
        ({"payload": {"ocr": 1, "sis": {"prompt_set": ["a"]}}}, "payload.ocr"),
        ({"payload": {"other": {}, "sis": {"prompt_set": ["a"]}}}, "payload.other"),
    ],
)
async def test_what_is_wrong_is_named_and_nothing_is_written(world: World, changes: dict[str, Any], path: str) -> None:
    """The error has the path of the invalid field; there is no row and no orchestration."""
    with pytest.raises(RequestInvalid) as refused:
        await create(world, **changes)
    assert path in [place for place, _ in refused.value.errors]
    assert await world.index.tenants() == []
    assert world.orchestrations.started == []


async def test_an_unknown_request_type_is_refused_with_the_known_ones(world: World) -> None:
    """The error lists every request type that has a protocol; no row, no orchestration."""
    with pytest.raises(ProtocolUnknown) as refused:
        await create(world, request_type="NOTHING")
    assert refused.value.members["known"] == world.context.registry.request_types
    assert "OCR_EMBEDDING_SIS" in refused.value.members["known"]
    assert await world.index.tenants() == []
    assert world.orchestrations.started == []


async def test_a_directive_too_large_for_the_bus_is_refused(world: World) -> None:
    """At POST, instead of a job that can never be dispatched."""
    with pytest.raises(DirectiveTooLarge, match="step sis"):
        await create(world, payload={"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["x" * 3000] * 100}})


async def test_a_flat_payload_serves_a_protocol_of_one_step(world: World) -> None:
    """`{...}` and `{"sis": {...}}` are the same parameters."""
    flat = await create(world, request_type="SIS", payload={"prompt_set": ["why?"]})
    keyed = await create(world, request_type="SIS", payload={"sis": {"prompt_set": ["why?"]}})
    assert flat.stored.record.steps[0].payload == keyed.stored.record.steps[0].payload == {"prompt_set": ["why?"]}


@pytest.mark.parametrize(
    ("hosts", "own", "refused"),
    [
        (set(), None, []),
        (set(), {"account.blob.core.windows.net"}, []),
        (set(), {"account.blob.core.windows.net/documents"}, ["output_ref.uri"]),
        (set(), {"elsewhere.example"}, ["input_ref.uri", "output_ref.uri"]),
        (set(), {""}, ["input_ref.uri", "output_ref.uri"]),
        ({"elsewhere.example"}, {"account.blob.core.windows.net"}, ["input_ref.uri", "output_ref.uri"]),
    ],
)
async def test_references_keep_the_policy_of_all_and_of_the_tenant(
    world: World, hosts: set[str], own: set[str] | None, refused: list[str]
) -> None:
    """Schemes, hosts and containers, for all tenants and, within those, for one tenant."""
    settings = replace(world.context.settings, allowed_ref_hosts=frozenset(hosts))
    mine = {"tenant_a": frozenset(own)} if own is not None else {}
    world = replace(world, context=replace(world.context, settings=settings, ref_hosts=mine))
    if not refused:
        await create(world, tenant_id=" TENANT_A ")
        return
    with pytest.raises(RequestInvalid) as error:
        await create(world, tenant_id=" TENANT_A ")
    assert [path for path, _ in error.value.errors] == refused
    list_of = "LUCIUS_ALLOWED_REF_HOSTS" if hosts else "lucius:tenants:tenant_a:ref_hosts of App Configuration"
    assert all(f"{list_of} does not allow" in why for _, why in error.value.errors)


async def test_a_tenant_that_is_too_long_as_a_key_is_refused_with_its_reason(world: World) -> None:
    """A key holds 512 characters, and each byte of a letter outside a-z takes three of them."""
    assert (await create(world, tenant_id="ß" * 85)).stored.record.job.tenant == "ß" * 85
    with pytest.raises(RequestInvalid) as refused:
        await create(world, tenant_id="ß" * 86)
    [(path, why)] = refused.value.errors
    assert path == "tenant_id"
    assert "must have at most 512 characters when encoded as a storage key, not 516" in why


def ramped(percent: float | None) -> Registry:
    """Versions 1 and 2 of the shipped protocol OCR."""
    first = registry().find("OCR")
    assert first is not None
    second = first.definition.model_copy(update={"version": 2, "ramp_percent": percent})
    return Registry([first, replace(first, definition=second)])


async def version_of(world: World, **changes: Any) -> int:
    return (await create(world, request_type="OCR", payload={}, **changes)).stored.record.job.protocol_version


async def test_a_job_keeps_the_version_that_the_ramp_gave_it(world: World) -> None:
    """Some follow each version; the same request again is its job, also after the ramp has ended."""
    world.context = replace(world.context, registry=ramped(50))
    before = {key: await version_of(world, idempotency_key=key) for key in map(str, range(20))}
    assert set(before.values()) == {1, 2}
    world.context = replace(world.context, registry=ramped(0))
    assert {key: await version_of(world, idempotency_key=key) for key in before} == before
    assert await version_of(world, idempotency_key="new") == 1


async def test_a_request_can_name_its_version(world: World) -> None:
    """It gets a loaded version at any ramp, and any other is an error; without the version it is another request."""
    world.context = replace(world.context, registry=ramped(0))
    assert await version_of(world) == 1
    assert await version_of(world, protocol_version=2) == 2
    with pytest.raises(RequestInvalid) as refused:
        await version_of(world, protocol_version=3)
    assert refused.value.errors == (("protocol_version", "must be a loaded version of OCR (1, 2), not 3"),)
