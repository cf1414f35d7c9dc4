"""Content of the workspace expires after LUCIUS_WORKSPACE_DAYS: shown with a job's output, and checked by a redrive
(R47).

Failures: a day is shown for content that the caller keeps, or of another step than the one that made it; the last day
moves on with a redrive; a redrive runs against a deleted result; a redrive that exists already is refused; a setting
without expiry refuses.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.access.references import Retention
from shared.api.job import job_response
from shared.core.jobs.job import Record
from shared.core.jobs.states import StepStatus
from shared.refusals import NotRedrivable
from tests.jobs import RETENTION, START, body
from tests.operations.conftest import World
from tests.operations.support import cancelled, dispatch, redrive, service_sends, submitted, swept

PLACE = "https://account.blob.core.windows.net/results/job/text.json"
DAY = 86_400


@pytest.fixture
def kept(world: World) -> World:
    """With a workspace beside the caller's containers, kept for the default of 30 days."""
    settings = replace(world.context.settings, workspace_uri=RETENTION.workspace_uri)
    return replace(world, context=replace(world.context, settings=settings))


def shown(record: Record, retention: Retention = RETENTION) -> Any:
    return body(job_response(record, retention))["final_output_expires_at"]


async def test_an_output_in_the_workspace_is_shown_with_its_last_day(world: World) -> None:
    """The days start at the RESULT; before the end of the job there is no last day."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    assert shown(await world.job(job_id)) is None
    world.clock.advance(3600)
    await service_sends(world, job_id, "RESULT", 1)
    record = await world.job(job_id)
    assert shown(record) == "2026-02-26T11:00:00Z"
    assert shown(record, replace(RETENTION, kept=None)) is None


async def test_an_output_at_the_callers_place_has_no_last_day(world: World) -> None:
    """Also where the place is the job's `output_ref`, since the RESULT named none."""
    for number, names in enumerate(({"output_ref": PLACE}, {"result_ref": None})):
        job_id = await submitted(world, request_type="OCR", payload={}, idempotency_key=f"{number}")
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", number, **names)
        record = await world.job(job_id)
        assert record.job.final_output is not None
        assert shown(record) is None


async def failed(world: World, **changes: Any) -> str:
    """OCR's result lies in its workspace, and EMBEDDING failed."""
    job_id = await submitted(world, **changes)
    await dispatch(world, job_id)
    made = (await world.job(job_id)).steps[0].workspace_ref
    await service_sends(world, job_id, "RESULT", 1, result_ref={"uri": f"{(made or {})['uri']}text.json"})
    await dispatch(world, job_id, "embedding")
    await service_sends(world, job_id, "RESULT", 2, step_id="embedding", status="FAILED_FINAL", result_ref=None)
    return job_id


async def refusal(world: World, job_id: str) -> str:
    with pytest.raises(NotRedrivable) as refused:
        await redrive(world, job_id)
    assert refused.value.code == "RESULT_EXPIRED"
    return str(refused.value)


async def test_a_result_that_may_be_gone_is_not_carried(kept: World) -> None:
    """From its last day on; nothing is written, neither a claim nor a job."""
    old_id = await failed(kept)
    kept.clock.advance(30 * DAY)
    assert "step ocr was retained until 2026-02-26" in await refusal(kept, old_id)
    assert list(kept.ledger.jobs) == [old_id]
    assert (await kept.job(old_id)).job.redriven_by is None
    kept.clock.advance(-1)
    assert not (await redrive(kept, old_id)).replayed


async def test_a_redrive_that_is_there_is_still_answered(kept: World) -> None:
    """The caller repeats its request when the time is over."""
    old_id = await failed(kept)
    new_id = (await redrive(kept, old_id)).stored.record.job.job_id
    kept.clock.advance(60 * DAY)
    again = await redrive(kept, old_id)
    assert (again.stored.record.job.job_id, again.replayed) == (new_id, True)


async def test_a_redrive_does_not_make_a_result_younger(kept: World) -> None:
    """It counts from when it was made, over any number of redrives."""
    old_id = await failed(kept)
    kept.clock.advance(20 * DAY)
    new_id = (await redrive(kept, old_id)).stored.record.job.job_id
    await cancelled(kept, new_id)
    kept.clock.advance(11 * DAY)
    await refusal(kept, new_id)


async def test_what_does_not_expire_is_carried_at_any_age(kept: World) -> None:
    """Outputs without an expiry, outputs at the caller's location, or no carried outputs."""
    old_id = await failed(kept)
    untouched = await submitted(kept, idempotency_key="never began")
    await cancelled(kept, untouched)
    elsewhere = await submitted(kept, idempotency_key="elsewhere")
    await dispatch(kept, elsewhere)
    await service_sends(kept, elsewhere, "RESULT", 9, result_ref=None, output_ref=PLACE)
    await cancelled(kept, elsewhere)
    kept.clock.advance(400 * DAY)
    # the attempt that the RESULT recorded was not sent, and ends with its lease
    await swept(kept)
    assert (await redrive(kept, elsewhere)).stored.record.steps[0].carried
    settings = replace(kept.context.settings, workspace_kept=None)
    assert (
        (await redrive(replace(kept, context=replace(kept.context, settings=settings)), old_id))
        .stored.record.steps[0]
        .carried
    )
    new = (await redrive(kept, untouched)).stored.record
    assert {step.status for step in new.steps} == {StepStatus.PENDING}


@pytest.mark.parametrize(
    ("uri", "expires"),
    [
        ("https://stdoc.blob.core.windows.net/workspace/lucius/a/x", True),
        ("https://STDOC.blob.core.windows.net:443/workspace/x", True),
        ("abfss://workspace@stdoc.dfs.core.windows.net/lucius/a/x", True),
        ("https://stdoc.blob.core.windows.net/workspaces/x", False),
        ("https://stdoc.blob.core.windows.net/results/workspace/x", False),
        ("https://other.blob.core.windows.net/workspace/x", False),
        ("s3://workspace/x", False),
    ],
)
def test_the_workspace_is_known_by_every_name(uri: str, expires: bool) -> None:
    """Blob and dfs endpoint lead to the same data; another container or account is another owner's."""
    retention = Retention("https://stdoc.blob.core.windows.net/workspace", timedelta(days=1))
    assert retention.end(uri, START) == (START + timedelta(days=1) if expires else None)
