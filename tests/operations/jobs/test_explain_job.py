from datetime import timedelta

import pytest

from shared.api.explain import Explanation, explain
from shared.core.jobs.job import Record
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.backlog import directives_ahead
from shared.operations.jobs.read_history import last_transition
from tests.jobs import body
from tests.operations.conftest import World
from tests.operations.support import dispatch, service_sends, settle, submitted


async def explained(world: World, record: Record) -> Explanation:
    """The body of GET /v1/jobs/{jobId}/explain."""
    return explain(record, world.clock.now(), await last_transition(world.context, record))


async def test_the_row_that_brought_it_here_is_cited_past_all_late_replies(world: World) -> None:
    """After twenty late replies and more, the last transition is still the ACK, with its row and its sender."""
    job_id = await submitted(world)
    created = await explained(world, await world.job(job_id))
    assert created.brought_here is not None
    assert (created.brought_here.type, created.brought_here.rows) == ("JOB_CREATED", [])
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    for number in range(60):
        # twenty are recorded
        await service_sends(world, job_id, "RESULT", 2 + number, attempt_no=2 + number // 20, lease_id="another")
    record = await world.job(job_id)
    assert record.job.event_seq == 23
    explanation = await explained(world, record)
    came = explanation.brought_here
    assert came is not None
    assert (came.seq, came.type, came.actor, came.source) == (3, "ACK", "service:ocr", "bus")
    assert [body(row) for row in came.rows] == [
        {
            "machine": "step",
            "state": "INITIATED",
            "event": "ACK",
            "to": "PROCESSING",
            "source": "R5: a service acknowledged the attempt",
        },
        {
            "machine": "job",
            "state": "QUEUED",
            "event": "ACKED",
            "to": "IN_PROGRESS",
            "source": "R5: the first ACK, or another reply that arrived first",
        },
    ]
    assert "R5" not in explanation.text


async def test_each_possible_event_names_its_rows(world: World) -> None:
    """An event that would change a state lists its rows; another one has its reason, and no rows."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    explanation = await explained(world, await world.job(job_id))
    assert set(explanation.rows_if) < set(explanation.what_if)
    for name, rows in explanation.rows_if.items():
        step, job = (part.split(" ")[1] for part in explanation.what_if[name].split(", "))
        ends = {row.machine: row.to for row in rows}
        assert (ends.get("step", step), ends.get("job", job)) == (step, job), name
    assert explanation.what_if["dispatch"] == "REFUSED: RECORD_IN_INITIATED"
    assert explanation.what_if["deadline"] == "step FAILED_RETRY, job QUEUED"
    assert (await world.job(job_id)).job.status is JobStatus.QUEUED


async def test_our_own_backlog_is_named_as_the_gate(world: World) -> None:
    """While the lane is full the job waits for us, not for its service."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    assert (await explained(world, await world.job(job_id))).gate is None
    world.lanes.waiting_directives = [(f"{job_id}:ocr:1", world.clock.now())]
    world.clock.advance(30)
    await settle(world, job_id)
    assert (await explained(world, await world.job(job_id))).gate == "LANE_BACKLOG"


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0, "no directive is ahead of the job's directive"),
        (1, "one directive is ahead of the job's directive"),
        (31, "31 directives are ahead of the job's directive"),
        (32, "at least 32 directives are ahead of the job's directive"),
        (5000, "at least 32 directives are ahead of the job's directive"),
    ],
)
async def test_a_job_in_a_queue_shows_how_many_are_before_it(world: World, ahead: int, words: str) -> None:
    """A peek returns 32 messages; those behind them are not counted."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    record, sent_at = await world.job(job_id), world.clock.now()
    older = [(f"older_{number}:ocr:1", sent_at - timedelta(hours=1)) for number in range(ahead)]
    world.lanes.waiting_directives = [*older, (f"{job_id}:ocr:1", sent_at)]
    found = await directives_ahead(world.context, record)
    assert words in explain(record, world.clock.now(), directives_ahead=found).text
    world.lanes.waiting_directives = []
    assert await directives_ahead(world.context, record) is None
