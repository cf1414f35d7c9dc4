"""Bodies that the app sends, against the schemas of its OpenAPI document."""

import pytest

from shared.api.audit import AuditBundle, bundle
from shared.api.dead_letter import DeadLetter
from shared.api.explain import Explanation, explain
from shared.api.job import (
    CallbackOutcome,
    Event,
    Job,
    JobLine,
    callback_outcome,
    event_response,
    job_response,
)
from shared.api.receipt import Receipt, receipt
from shared.core.filters import JobFilter
from shared.core.jobs.as_of import rebuild_as_of
from shared.operations.jobs.dead_letters import list_dead_letters
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.jobs.read_history import read_history
from tests.api.strict import misfits
from tests.jobs import RETENTION, body
from tests.operations.conftest import World, world
from tests.operations.support import MakeJob, eventful, failed_at_embedding, stopped

__all__ = ["world"]  # the fixture


@pytest.mark.parametrize("make_job", [eventful, stopped, failed_at_embedding])
async def test_a_job_at_every_moment_of_its_life_fits_the_schemas(world: World, make_job: MakeJob) -> None:
    """Job, events, explanation, receipt and audit bundle: as it is and as it was at each event."""
    job_id = await make_job(world)
    record, events = await read_history(world.context, job_id)
    now = world.context.clock.now()
    for seq in range(1, len(events) + 1):
        past = rebuild_as_of(record, events, seq)
        assert misfits(Job, body(job_response(past, RETENTION, as_of=events[seq - 1]))) == []
        assert misfits(Event, body(event_response(events[seq - 1]))) == []
        assert misfits(Explanation, body(explain(past, now))) == []
    assert misfits(Job, body(job_response(record, RETENTION))) == []
    assert misfits(Receipt, body(receipt(record, events, now))) == []
    assert misfits(AuditBundle, bundle(record, events, now)) == []
    assert misfits(CallbackOutcome, body(callback_outcome(record, applied=True, reason_code=None))) == []


async def test_lines_of_lists_fit_the_schemas(world: World) -> None:
    """Living and ended jobs, and a dead letter."""
    failed, ended = await failed_at_embedding(world), await eventful(world)
    whose = JobFilter(tenant_id="tenant_a")
    listed = (await list_jobs(world.context, whose, after=None, limit=10)).lines
    assert {failed, ended} == {line.jobId for line in listed}
    letters = (await list_dead_letters(world.context, whose, after=None, limit=10)).lines
    assert [letter.jobId for letter in letters] == [failed]
    assert [misfits(JobLine, body(line)) for line in listed] == [[]] * len(listed)
    assert [misfits(DeadLetter, body(letter)) for letter in letters] == [[]]
