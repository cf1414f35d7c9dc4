from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.filters import JobFilter
from shared.core.jobs.states import JobStatus
from shared.errors import Contended, LedgerUnavailable
from shared.operations.jobs import list_jobs as lists
from shared.operations.jobs.dead_letters import dismiss_dead_letter, list_dead_letters
from shared.operations.jobs.settle_step import settle_step
from shared.operations.sweeper.sweep import sweep
from shared.refusals import ControlNotPossible, JobNotFound
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import by, dispatch, redrive, service_sends, submitted

TENANT_A = JobFilter(tenant_id="tenant_a")


async def several(world: World, count: int, **changes: Any) -> list[str]:
    """Jobs a minute apart, the newest last."""
    ids = []
    for _ in range(count):
        world.clock.advance(60)
        ids.append(await submitted(world, idempotency_key=world.clock.now().isoformat(), **changes))
    return ids


async def failed(world: World, *job_ids: str) -> None:
    """A second apart, the last one last."""
    for job_id in job_ids:
        world.clock.advance(1)
        await dispatch(world, job_id)
        error = {"code": "PDF_ENCRYPTED", "message": "locked"}
        await service_sends(world, job_id, "RESULT", 1, status="FAILED_FINAL", error=error, result_ref=None)


async def listed(world: World, job_filter: JobFilter = TENANT_A, limit: int = 10) -> list[str]:
    """Of every page in turn; only a partial one is short."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = await list_dead_letters(world.context, job_filter, after=after, limit=limit)
        assert page.after is None or page.partial or len(page.lines) == limit
        found += [line.jobId for line in page.lines]
        if (after := page.after) is None:
            return found


async def test_dead_letters_say_where_and_why(world: World) -> None:
    """Jobs that are FAILED_FINAL with their code, the failed step and its attempts; no others."""
    first, alive, second = await several(world, 3)
    await failed(world, first)
    await dispatch(world, second)
    await service_sends(world, second, "RESULT", 1)
    await dispatch(world, second, "embedding")
    for _ in range(3):
        step = (await world.job(second)).steps[1]
        world.clock.advance(30)
        where = {"job_id": second, "instance_id": second, "step_id": "embedding"}
        await settle_step(world.context, world.orchestrations, **where, attempt_no=step.attempt_no)
        world.clock.advance(2000)
        await dispatch(world, second, "embedding")
    page = await list_dead_letters(world.context, JobFilter(), after=None, limit=10)
    assert page.after is None
    lines = [(line.jobId, line.error_code, line.failed_step_id, line.attempts_total) for line in page.lines]
    assert lines == [(second, "ATTEMPTS_EXHAUSTED", "embedding", 4), (first, "PDF_ENCRYPTED", "ocr", 1)]
    assert page.lines[0].last_error_code == "ACK_TIMEOUT"
    assert alive not in {line.jobId for line in page.lines}


async def test_they_are_in_the_order_of_their_ends_of_all_tenants(world: World) -> None:
    """The last that failed first; an operator of all tenants gets them merged, page by page."""
    ids = []
    for number in range(6):
        ids += await several(world, 1, tenant_id=f"tenant_{number % 3}")
    order = [ids[number] for number in (4, 0, 5, 2, 1, 3)]
    await failed(world, *order)
    assert await listed(world, JobFilter(), limit=4) == order[::-1]
    assert await listed(world, JobFilter(tenant_id="tenant_1")) == [ids[1], ids[4]]


async def test_the_filter_of_lists_is_theirs_too(world: World) -> None:
    """By type, label and time of creation; a state that no dead letter has finds none."""
    red = await several(world, 2, labels={"team": "red"})
    [ocr] = await several(world, 1, request_type="OCR", payload={})
    created_at = world.clock.now()
    await failed(world, *red, ocr)
    assert await listed(world, replace(TENANT_A, label=("team", "red")), limit=1) == red[::-1]
    assert await listed(world, replace(TENANT_A, request_type="OCR")) == [ocr]
    assert await listed(world, replace(TENANT_A, since=created_at)) == [ocr]
    assert await listed(world, replace(TENANT_A, until=created_at)) == red[::-1]
    assert await listed(world, replace(TENANT_A, statuses=frozenset({JobStatus.FAILED_FINAL}))) == [ocr, *red[::-1]]
    assert await listed(world, replace(TENANT_A, statuses=frozenset({JobStatus.CANCELLED}))) == []


async def test_a_redrive_takes_the_job_off(world: World) -> None:
    """Its new job is in the old one's `redriven_by`; when that fails, it is its own dead letter."""
    old, other = await several(world, 2)
    await failed(world, old, other)
    new = (await redrive(world, old)).stored.record.job.job_id
    assert await listed(world) == [other]
    await failed(world, new)
    assert await listed(world) == [new, other]


@pytest.mark.parametrize("late", ["a second redrive", "the sweeper"])
async def test_a_redrive_that_died_is_not_listed_and_finished_later(world: World, late: str) -> None:
    """Killed between the old job's mark and its DEAD row: no page shows it, and the next step deletes the row."""
    old, other = await several(world, 2)
    await failed(world, old, other)
    with failing(world.index, "end_dead_letter"), pytest.raises(LedgerUnavailable):
        await redrive(world, old)
    assert (await world.job(old)).job.redriven_by is not None
    assert await listed(world, limit=1) == [other]
    assert len(await world.index.dead_letters("tenant_a", after=None, limit=10)) == 2
    if late == "the sweeper":
        world.clock.advance(90)
        await sweep(world.context, world.orchestrations)
    else:
        await redrive(world, old)
    assert [row.job_id for row in await world.index.dead_letters("tenant_a", after=None, limit=10)] == [other]


async def test_a_page_reads_few_rows_more_than_it_shows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter with few matches is answered in pages, each with a continuation."""
    monkeypatch.setattr(lists, "MAX_READ_MORE", 4)
    monkeypatch.setattr(lists, "_LEAST_LOOK", 1)
    [red] = await several(world, 1, labels={"team": "red"})
    await failed(world, red, *await several(world, 12))
    first = await list_dead_letters(world.context, replace(TENANT_A, label=("team", "red")), after=None, limit=5)
    assert (first.lines, first.partial) == ([], True)
    assert first.after is not None
    assert await listed(world, replace(TENANT_A, label=("team", "red"))) == [red]
    whole = await list_dead_letters(world.context, TENANT_A, after=None, limit=20)
    assert (len(whole.lines), whole.after, whole.partial) == (13, None, False)


async def test_a_dismissal_takes_the_job_off_and_leaves_it_as_it_is(world: World) -> None:
    """Its row has the dismissal, its history and state stay, a repetition has no effect, and it can be redriven."""
    first, second = await several(world, 2)
    await failed(world, first, second)
    before = await world.job(first)
    for _ in range(2):
        assert (await dismiss_dead_letter(world.context, first, by("known"))).job_id == first
    assert await world.job(first) == before
    assert await listed(world) == [second]
    await redrive(world, first)
    assert await listed(world) == [second]
    with pytest.raises(ControlNotPossible, match="not redriven is a dead letter"):
        await dismiss_dead_letter(world.context, first, by("known"))


async def test_what_is_no_dead_letter_cannot_be_dismissed(world: World) -> None:
    """An active job and an unknown one; a job whose end is not in the lists yet is refused for now."""
    alive, dying = await several(world, 2)
    with pytest.raises(ControlNotPossible):
        await dismiss_dead_letter(world.context, alive, by())
    with pytest.raises(JobNotFound):
        await dismiss_dead_letter(world.context, "job_none", by())

    with failing(world.index, "close"), pytest.raises(LedgerUnavailable):
        await failed(world, dying)
    with pytest.raises(Contended):
        await dismiss_dead_letter(world.context, dying, by())


async def test_an_unreadable_job_hides_no_other(world: World) -> None:
    """A DEAD row without its job is passed over, and the page filled with the next."""
    lost, kept = await several(world, 2)
    await failed(world, kept, lost)
    world.ledger.take(lost)
    assert await listed(world, limit=1) == [kept]
    assert world.clock.now() > (await world.job(kept)).job.created_at + timedelta(seconds=1)
