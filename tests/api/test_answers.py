from typing import Any

import pytest

from shared.core.as_of import as_of
from shared.errors import LedgerUnavailable, Refusal
from shared.operations.create_job import create_job
from shared.operations.dry_run import dry_run
from shared.operations.list_jobs import JobFilter, list_dead_letters, list_jobs
from shared.operations.read_history import read_history
from shared.operations.rejected_messages import read_rejected, what_if
from shared.responses.history import AuditBundle, Event, Explanation, Receipt
from shared.responses.job import BatchOutcome, CallbackOutcome, DeadLetter, DryRun, Job, JobLine
from shared.responses.protocol import Protocol
from shared.responses.rejected import RejectedLine, RejectedMessage
from shared.views.audit import bundle
from shared.views.explain import explain
from shared.views.job import callback_view, event_view, job_view, rejected_view
from shared.views.receipt import receipt
from tests.api.strict import misfits
from tests.jobs import envelope, registry
from tests.operations.conftest import World, world
from tests.operations.test_history import Told, eventful, stopped
from tests.operations.test_redrive_job import failed_at_embedding, redrive
from tests.operations.test_rejected_messages import early
from tests.operations.test_rejected_messages import redrive as redrive_message
from triggers.http.batch import lines_of, outcomes
from triggers.protocols_http import protocol_view

__all__ = ["world"]  # the fixture


@pytest.mark.parametrize("told", [eventful, stopped, failed_at_embedding])
async def test_a_job_at_every_moment_of_its_life_is_as_the_models_say(world: World, told: Told) -> None:
    """Job, events, explanation, receipt and audit bundle: as it is and as it was at each event."""
    job_id = await told(world)
    record, events = await read_history(world.context, job_id)
    now = world.context.clock.now()
    for seq in range(1, len(events) + 1):
        past = as_of(record, events, seq)
        assert misfits(Job, {**job_view(past), "as_of": event_view(events[seq - 1])}) == []
        assert misfits(Event, event_view(events[seq - 1])) == []
        assert misfits(Explanation, explain(past, now)) == []
    assert misfits(Job, job_view(record)) == []
    assert misfits(Receipt, receipt(record, events, now)) == []
    assert misfits(AuditBundle, bundle(record, events, now)) == []
    assert misfits(CallbackOutcome, callback_view(record, applied=True, why=None)) == []


async def test_lines_of_lists_are_as_the_models_say(world: World) -> None:
    """Living and ended jobs, dead letters before and after their redrive."""
    failed, ended = await failed_at_embedding(world), await eventful(world)
    await redrive(world, failed)
    listed, _ = await list_jobs(world.context, JobFilter(tenant_id="tenant_a"), after=None, limit=10)
    assert {failed, ended} < {line["jobId"] for line in listed}
    letters, _ = await list_dead_letters(world.context, tenant_id="tenant_a", after=None, limit=10)
    assert [letter["jobId"] for letter in letters] == [failed]
    assert [misfits(JobLine, line) for line in listed] == [[]] * len(listed)
    assert [misfits(DeadLetter, letter) for letter in letters] == [[]]


async def test_rejected_messages_are_as_the_models_say(world: World) -> None:
    """In a list and whole, before and after a redrive."""
    _, id_ = await early(world)
    message = await read_rejected(world.context, id_)
    kind, why = await what_if(world.context, message)
    assert misfits(RejectedLine, rejected_view(message, body=False)) == []
    shown = {**rejected_view(message, body=True), "what_if": {"outcome": kind, "why": why}}
    assert misfits(RejectedMessage, shown) == []
    assert misfits(RejectedMessage, rejected_view(await redrive_message(world, id_), body=True)) == []


async def test_a_dry_run_is_as_the_model_says(world: World) -> None:
    """New, and the duplicate of a job."""
    wanted = envelope(request_type="OCR", payload={})
    assert misfits(DryRun, await dry_run(world.context, wanted, correlation_id="c")) == []
    await create_job(world.context, world.orchestrations, wanted, correlation_id="c")
    assert misfits(DryRun, await dry_run(world.context, wanted, correlation_id="c")) == []


@pytest.mark.parametrize("protocol", list(registry()), ids=lambda protocol: protocol.definition.protocol_id)
def test_the_shipped_protocols_are_as_the_model_says(protocol: Any) -> None:
    """With their schemas inside."""
    assert misfits(Protocol, protocol_view(protocol)) == []


async def test_a_batch_is_as_the_model_says() -> None:
    """Each kind of line: created, replayed, checked, refused, failed."""

    async def submit(line: bytes) -> dict[str, Any]:
        if line == b"refuse":
            raise Refusal(409, "IDEMPOTENCY_CONFLICT", "another body", errors=[("a.b", "is wrong")], jobId="job_1")
        if line == b"away":
            raise LedgerUnavailable
        links = dict.fromkeys(("self", "steps", "events", "cancel"), "/v1")
        return {"status": 202, "jobId": "job_1", "links": links, "replayed": line == b"again"}

    assert misfits(BatchOutcome, await outcomes(lines_of(b"new\nrefuse\naway\nagain"), submit, "corr-1")) == []


async def test_what_a_model_does_not_know_is_found(world: World) -> None:
    """A member too many or too few is a misfit: this suite can fail."""
    job_id = await failed_at_embedding(world)
    shown = job_view(await world.job(job_id))
    assert misfits(Job, shown | {"secret": 1}) != []
    del shown["steps"][0]["lane"]
    assert misfits(Job, shown) != []
