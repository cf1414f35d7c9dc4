"""A RESULT refers to locations that the tenant's references may name, or the step fails permanently with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.jobs.states import JobStatus, StepStatus
from shared.errors import ConfigurationUnavailable
from tests.operations.conftest import World
from tests.operations.support import dispatch, service_sends, submitted


def allowing(world: World, *hosts: str, known: bool = True) -> World:
    settings = replace(world.context.settings, allowed_ref_hosts=frozenset(hosts))
    ref_hosts = world.context.ref_hosts if known else None
    return replace(world, context=replace(world.context, settings=settings, ref_hosts=ref_hosts))


async def at_work(world: World) -> tuple[str, str]:
    """Returns a job whose only attempt is sent, and its folder of the workspace."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    ref = (await world.job(job_id)).steps[0].workspace_ref
    assert ref is not None
    return job_id, ref["uri"]


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/answers.json",
        "http://169.254.169.254/metadata",
        "javascript:alert(1)",
        "{workspace}../../../tenant_b/job_1/OCR/1/text.json",
        "{workspace}text.json?sig=secret",
    ],
)
async def test_a_result_elsewhere_fails_its_step(world: World, uri: str) -> None:
    """It becomes neither the next input nor the job's output, and the caller reads why."""
    job_id, workspace = await at_work(world)
    strict = allowing(world, "results.example")
    await service_sends(strict, job_id, "RESULT", 1, result_ref={"uri": uri.format(workspace=workspace)})
    record = await world.job(job_id)
    [step] = record.steps
    assert (record.job.status, record.job.error_code) == (JobStatus.FAILED_FINAL, "RESULT_REF_REFUSED")
    assert (step.status, step.result_ref, record.job.final_output) == (StepStatus.FAILED_FINAL, None, None)
    assert (record.job.error_message or "").startswith("result_ref.uri ")


@pytest.mark.parametrize("name", ["result_ref", "output_ref"])
async def test_a_result_with_a_credential_fails_its_step(world: World, name: str) -> None:
    """A further member would be shown with the job, as its URI is; one without a credential is passed on."""
    job_id, workspace = await at_work(world)
    ref = {"uri": f"{workspace}text.json", "etag": "1", "sas": "S3CRET"}
    await service_sends(world, job_id, "RESULT", 1, **{"result_ref": {"uri": ref["uri"]}, name: ref})
    record = await world.job(job_id)
    assert (record.job.status, record.job.error_code) == (JobStatus.FAILED_FINAL, "RESULT_REF_REFUSED")
    assert (record.job.error_message or "").startswith(f"{name}.sas must not contain a credential")
    assert "S3CRET" not in repr(record)
    other = await submitted(world, request_type="OCR", payload={}, idempotency_key="2")
    await dispatch(world, other)
    plain = {"uri": f"{workspace}".replace(job_id, other) + "text.json", "etag": "1"}
    await service_sends(world, other, "RESULT", 2, result_ref=plain)
    assert (await world.job(other)).job.final_output == plain


@pytest.mark.parametrize("uri", ["{workspace}text.json", "https://results.example/text.json"])
async def test_a_result_where_it_may_be(world: World, uri: str) -> None:
    """In the attempt's own folder under any lists, or in a location that they permit."""
    job_id, workspace = await at_work(world)
    strict = allowing(world, "results.example")
    await service_sends(strict, job_id, "RESULT", 1, result_ref={"uri": uri.format(workspace=workspace)})
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED


async def test_a_store_that_was_never_read_holds_up_results_elsewhere_only(world: World) -> None:
    """A RESULT in its workspace is taken at once; another waits in its function, and on the bus."""
    job_id, workspace = await at_work(world)
    blind = allowing(world, known=False)
    with pytest.raises(ConfigurationUnavailable):
        await service_sends(blind, job_id, "RESULT", 1, result_ref={"uri": "https://results.example/text.json"})
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED
    await service_sends(blind, job_id, "RESULT", 2, result_ref={"uri": f"{workspace}text.json"})
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED
