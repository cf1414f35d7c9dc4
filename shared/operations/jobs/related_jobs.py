"""Lists the dependencies and dependants of a job, with their states (R53)."""

from __future__ import annotations

from collections.abc import Sequence

from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import DataLost, Undecodable, UnknownStatus
from shared.operations.jobs.list_jobs import Page
from shared.operations.jobs.read_history import find_job, read_for_list
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context

_AT_ONCE = 8
#: positions: a page first has the jobs that wait, then those that waited for a job that did not succeed
_WAITING, _FAILED = "w:", "f:"
Related = tuple[str, Job | None]


async def dependencies_of(context: Context, job: Job) -> list[Related]:
    """Returns the dependencies in the order of the request. Raises LedgerUnavailable."""
    return await _read(context, job.dependencies or ())


async def find_missing(context: Context, job: Job) -> list[Related]:
    """Returns the dependencies of a waiting job that have not ended. Raises LedgerUnavailable."""
    # an archived job has ended
    found = await run_concurrently(
        job.dependencies or (), lambda job_id: read_for_list(context.ledger, job_id), limit=_AT_ONCE
    )
    living = [each.record.job for each in found if each is not None and not each.record.job.status.terminal]
    return [(each.job_id, each) for each in living]


async def dependants_of(context: Context, job: Job, *, after: str | None, limit: int) -> Page[Related]:
    """Returns one page of dependants after the position `after`: first those that wait, then those that waited for the
    job when it ended without success. Raises LedgerUnavailable, and ValueError for an invalid position.
    """
    position = after or _WAITING
    if not position.startswith((_WAITING, _FAILED)):
        raise ValueError("invalid position")
    found: list[str] = []
    if position.startswith(_WAITING):
        past = position.removeprefix(_WAITING)
        found = [
            f"{_WAITING}{each}"
            for each in await context.index.list_dependants(job.tenant, job.job_id, limit=limit + 1, after=past)
        ]
        position = _FAILED
    if len(found) <= limit and job.status.terminal and job.status is not JobStatus.SUCCEEDED:
        past = position.removeprefix(_FAILED)
        found += [
            f"{_FAILED}{each}"
            for each in await context.index.list_failed_dependants(
                job.tenant, job.job_id, limit=limit + 1 - len(found), after=past
            )
        ]
    shown = found[:limit]
    lines = await _read(context, [each[len(_FAILED) :] for each in shown])
    return Page(lines, shown[-1] if len(found) > limit else None)


async def _read(context: Context, job_ids: Sequence[str]) -> list[Related]:
    async def one(job_id: str) -> Related:
        try:
            return job_id, await find_job(context, job_id)
        except (ArchiveGone, ArchiveInvalid, DataLost, Undecodable, UnknownStatus):
            return job_id, None

    return await run_concurrently(job_ids, one, limit=_AT_ONCE)
