"""The content of a RESULT besides its status is stored with its step, shown, and verifiable like every other column
(R46).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared.api.audit import bundle
from shared.api.job import job_response
from shared.core.jobs.states import JobStatus, StepStatus
from shared.errors import ReplyUnfit
from shared.operations.jobs.replies.apply import parse_reply
from tests.audit_bundles import faults
from tests.jobs import RETENTION, body, planned, reply
from tests.operations.conftest import World
from tests.operations.support import dispatch, failed_at_embedding, history, redrive, service_sends, settle, submitted

PLACE = "https://account.blob.core.windows.net/results/job/text.json"
ARTIFACT = {
    "name": "text",
    "uri": "https://account.blob.core.windows.net/workspace/text.json",
    "media_type": "application/json",
    "size": 12,
    "sha256": "a" * 64,
}
CONTENT: dict[str, Any] = {
    "output_ref": {"uri": PLACE},
    "artifacts": [ARTIFACT, {"name": "log", "uri": "https://account.blob.core.windows.net/workspace/log"}],
    "input_digests": {"lease.pdf": "sha256:00"},
    "digests": ["sha256:11"],
    "metrics": {"pages": 3, "share": 0.5, "none": None},
    "reason": "all read",
}


async def at_work(world: World, **changes: Any) -> str:
    job_id = await submitted(world, request_type="OCR", payload={}, **changes)
    await dispatch(world, job_id)
    return job_id


async def shown(world: World, job_id: str) -> dict[str, Any]:
    """Returns the first step as the API has it, without null fields."""
    step = body(job_response(await world.job(job_id), RETENTION))["steps"][0]
    return {name: each for name, each in (step["result"] or {}).items() if each is not None}


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"])
async def test_all_of_it_is_kept_and_proved(world: World, status: str) -> None:
    """After any outcome of the attempt; a step without content has none."""
    job_id = await at_work(world)
    await service_sends(world, job_id, "RESULT", 1, status=status, **CONTENT)
    record, events = await history(world, job_id)
    assert record.steps[0].result == CONTENT
    without_null = [{name: each for name, each in one.items() if each is not None} for one in CONTENT["artifacts"]]
    seen = await shown(world, job_id)
    seen["artifacts"] = [{name: each for name, each in one.items() if each is not None} for one in seen["artifacts"]]
    assert seen == CONTENT | {"artifacts": without_null}
    given = json.loads(json.dumps(bundle(record, events, world.clock.now())))
    assert faults(given) == []
    given["steps"][0]["result"]["metrics"]["pages"] = 4
    assert faults(given)


async def test_the_next_attempt_begins_without_it(world: World) -> None:
    """The content of a failed attempt stays until the next one is recorded, and in its event."""
    job_id = await at_work(world)
    await service_sends(world, job_id, "RESULT", 1, status="FAILED_RETRY", metrics={"pages": 1})
    assert await shown(world, job_id) == {"metrics": {"pages": 1}}
    world.clock.advance(60)
    await dispatch(world, job_id)
    assert await shown(world, job_id) == {}
    _, events = await history(world, job_id)
    [event] = [each for each in events if each.type == "RESULT"]
    assert event.data["changes"]["steps"]["ocr"]["result"] == {"metrics": {"pages": 1}}


async def test_a_late_result_keeps_what_it_carried_in_its_event(world: World) -> None:
    """It changes no column, so its own row has it."""
    job_id = await at_work(world)
    await service_sends(world, job_id, "RESULT", 1)
    await service_sends(world, job_id, "RESULT", 2, **CONTENT, worker_id="ocr-7")
    record, events = await history(world, job_id)
    assert record.steps[0].result is None
    assert CONTENT.items() <= events[-1].data.items()
    assert events[-1].data["worker_id"] == "ocr-7"


async def test_the_place_that_the_last_step_names_is_the_jobs_output(world: World) -> None:
    """`output_ref` before `result_ref`; alone it is both."""
    job_id = await at_work(world)
    await service_sends(world, job_id, "RESULT", 1, output_ref=PLACE)
    record = await world.job(job_id)
    assert record.job.final_output == {"uri": PLACE}
    assert record.steps[0].result_ref != record.job.final_output
    job_id = await at_work(world, idempotency_key="another")
    await service_sends(world, job_id, "RESULT", 2, result_ref=None, output_ref=PLACE)
    record = await world.job(job_id)
    assert record.job.final_output == record.steps[0].result_ref == {"uri": PLACE}


async def test_a_redrive_carries_it(world: World) -> None:
    """A step that is not run again keeps the content of its RESULT, beside its `result_ref`."""
    old_id = await failed_at_embedding(world)
    old = await world.ledger.read(old_id)
    assert old is not None
    first = replace(old.record.steps[0], result={"metrics": {"pages": 3}})
    world.ledger.put(old.record.with_step(first))
    new = (await redrive(world, old_id)).stored.record
    assert (new.steps[0].carried, new.steps[0].result) == (True, {"metrics": {"pages": 3}})


async def test_an_artefact_elsewhere_is_refused_as_a_result_there_is(world: World) -> None:
    """The step fails with the reason, and its permitted artefacts stay readable."""
    world = elsewhere_refused(world)
    job_id = await at_work(world)
    wrong = {"name": "stolen", "uri": "https://evil.example/x"}
    await service_sends(world, job_id, "RESULT", 1, artifacts=[ARTIFACT, wrong])
    record = await world.job(job_id)
    assert (record.job.status, record.job.error_code) == (JobStatus.FAILED_FINAL, "RESULT_REF_REFUSED")
    assert (record.job.error_message or "").startswith("artifacts.1.uri ")
    assert (record.steps[0].result, record.steps[0].result_ref) == ({"artifacts": [ARTIFACT]}, None)


@pytest.mark.parametrize("name", ["result_ref", "output_ref"])
async def test_a_place_elsewhere_is_refused(world: World, name: str) -> None:
    """It becomes neither the next input nor the job's output."""
    world = elsewhere_refused(world)
    job_id = await at_work(world)
    await service_sends(world, job_id, "RESULT", 1, **{name: "https://evil.example/x"})
    record = await world.job(job_id)
    assert (record.job.error_code, record.job.final_output) == ("RESULT_REF_REFUSED", None)
    assert (record.steps[0].result, record.steps[0].result_ref) == (None, None)


async def test_a_failure_that_names_other_places_is_a_failure_without_them(world: World) -> None:
    """It keeps its own code and its remaining attempts, without the refused references."""
    world = elsewhere_refused(world)
    job_id = await at_work(world)
    wrong = {"name": "stolen", "uri": "https://evil.example/x"}
    error = {"code": "BUSY", "message": "later"}
    await service_sends(
        world, job_id, "RESULT", 1, status="FAILED_RETRY", error=error, artifacts=[wrong], output_ref=wrong["uri"]
    )
    step = (await world.job(job_id)).steps[0]
    assert (step.status, step.last_error_code, step.result) == (StepStatus.FAILED_RETRY, "BUSY", {"artifacts": []})


def elsewhere_refused(world: World) -> World:
    settings = replace(world.context.settings, allowed_ref_hosts=frozenset({"account.blob.core.windows.net"}))
    return replace(world, context=replace(world.context, settings=settings))


async def test_the_older_reason_is_the_message(world: World) -> None:
    """`failure_class` and `reason` of the older form; an error's own message comes first."""
    job_id = await at_work(world)
    await service_sends(
        world, job_id, "RESULT", 1, status="FAILED", failure_class="NON_RETRYABLE", reason="no page", result_ref=None
    )
    record = await world.job(job_id)
    assert (record.job.error_code, record.job.error_message) == ("FAILED_FINAL", "no page")
    assert record.steps[0].last_error_message == "no page"


async def test_a_service_names_who_works(world: World) -> None:
    """Under either spelling, in the events of its ACK, heartbeats and RESULT."""
    job_id = await at_work(world)
    await service_sends(world, job_id, "ACK", 1, workerId="ocr-1")
    world.clock.advance(400)
    await service_sends(world, job_id, "HEARTBEAT", 2, worker_id="ocr-1", taskRunnerId="runner-2")
    await service_sends(world, job_id, "RESULT", 3, task_runner_id="runner-2")
    _, events = await history(world, job_id)
    named = [(each.data.get("worker_id"), each.data.get("task_runner_id")) for each in events[2:]]
    assert named == [("ocr-1", None), ("ocr-1", "runner-2"), (None, "runner-2")]


def sent(type_: str = "RESULT", **members: Any) -> bytes:
    return json.dumps(reply(planned(), type_).model_dump(mode="json", exclude_none=True) | members).encode()


@pytest.mark.parametrize("name", ["timestamp", "correlation_id", "traceparent", "worker_id", "task_runner_id"])
@pytest.mark.parametrize("value", [1769508120, "yesterday", "2026-01-27T10:02:00", True, {"at": 1}, [], None])
def test_what_is_only_about_the_sender_costs_no_result(name: str, value: Any) -> None:
    """Malformed or missing, the RESULT is taken without it."""
    taken = parse_reply(sent(**{name: value}))
    assert taken.status == "SUCCEEDED"
    if not isinstance(value, str) or name == "timestamp":
        assert getattr(taken, name) is None


@pytest.mark.parametrize(
    "members",
    [
        {"artifacts": {}},
        {"artifacts": ["https://a/b"]},
        {"artifacts": [{"name": "text"}]},
        {"artifacts": [ARTIFACT | {"size": -1}]},
        {"artifacts": [ARTIFACT | {"size": False}]},
        {"artifacts": [ARTIFACT | {"size": "12"}]},
        {"artifacts": [ARTIFACT | {"sha256": "abc"}]},
        {"artifacts": [ARTIFACT] * 1001},
        {"metrics": []},
        {"reason": {}},
        {"output_ref": 7},
    ],
    ids=str,
)
def test_what_the_result_is_must_be_well_formed(members: dict[str, Any]) -> None:
    """A partly invalid result is parked with the name of the part, and nothing is lost."""
    with pytest.raises(ReplyUnfit) as unfit:
        parse_reply(sent(**members))
    assert (unfit.value.reason, unfit.value.detail.split(".")[0].split(":")[0]) == (
        "REPLY_INVALID",
        next(iter(members)),
    )


@pytest.mark.parametrize("type_", ["ACK", "HEARTBEAT"])
def test_only_a_result_carries_any_of_it(type_: str) -> None:
    """In another reply it is an unknown field, in any form."""
    taken = parse_reply(sent(type_, artifacts="?", metrics=1, output_ref=2, reason=3, error=4, result_ref=5))
    assert (taken.content, taken.result_ref, taken.error) == (None, None, None)


async def test_a_time_out_carries_nothing(world: World) -> None:
    job_id = await at_work(world)
    world.clock.advance(30)
    await settle(world, job_id)
    assert await shown(world, job_id) == {}
