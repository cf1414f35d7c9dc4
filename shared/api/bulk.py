"""Bulk operations, and jobs that depend on one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import Field

from shared.api.response import Cursor, ErrorCode, Instant, JobId, JobStatusName, Partial, Response
from shared.core import bulks as core
from shared.core.jobs.job import Job

BulkId = Annotated[str, Field(pattern="^bulk_[0-9]{13}[0-9a-f]{16}$", examples=["bulk_82304918799990f3a5b7c9d1e2f40"])]


BulkActionName = Literal["cancel", "pause", "resume", "redrive"]


BulkStateName = Literal["RUNNING", "DONE", "CANCELLED"]


OutcomeName = Literal["OPEN", "DONE", "REFUSED"]


class BulkLinks(Response):
    """Paths of this API about the bulk."""

    self: str
    items: str
    cancel: str
    """For POST."""


class Bulk(Response):
    """One control or redrive of many jobs: `done`, `refused` and `open` add up to `matched` at every read."""

    bulkId: BulkId
    tenant: str
    action: BulkActionName
    filter: dict[str, Any]
    """As it was asked for; its jobs are those that were there before the bulk."""
    root: JobId | None
    """The job whose tree of dependants is redriven, itself first; null: the jobs of the filter."""
    reason: str | None
    actor: str
    state: BulkStateName
    """CANCELLED: nothing more is begun, and what is open stays so."""
    listed: bool
    """Every job of the filter has been found; until then `matched` grows. Jobs below a root are found as it goes on."""
    matched: int
    done: int
    refused: int
    """Refused for good, or still refused for now 7 days after `created_at`; the item has the problem's code."""
    open: int
    """Not tried yet, or refused for now and tried again until 7 days after `created_at`."""
    created_at: Instant
    ended_at: Instant | None
    links: BulkLinks


class BulkPage(Response):
    """Bulks of a tenant, newest first."""

    bulks: list[Bulk]
    next: Cursor


class BulkItem(Response):
    """What became of one job of a bulk."""

    jobId: JobId
    outcome: OutcomeName
    code: Annotated[str | None, Field(examples=["JOB_TERMINAL"])]
    """The code of the problem with which it was refused, for good or, where it is OPEN, the last time."""
    newJobId: JobId | None
    """Of a redrive: the job that takes it up."""
    tried_at: Instant | None
    """When it was tried last."""


class BulkItemPage(Response):
    """Items of a bulk, in the order of their jobs' ids."""

    items: list[BulkItem]
    next: Cursor
    partial: Partial


class BulkPreview(Response):
    """A bulk that nobody made: the jobs that it would meet now."""

    dryRun: Literal[True] = True
    tenant: str
    action: BulkActionName
    matched: int
    """Counted to 1,000."""
    more: bool
    """There may be more than that."""
    first: list[JobId]
    """The first of them, newest first."""


class RelatedJob(Response):
    """A job that another one depends on, or that depends on it."""

    jobId: JobId
    status: JobStatusName | None
    """Null: it is not there any more."""
    error_code: ErrorCode
    redriven_by: JobId | None
    """The job that took it up again."""


class DependencyPage(Response):
    """The jobs that a job depends on, all of them on each page, and those that depend on it, in pages."""

    jobId: JobId
    dependencies: list[RelatedJob]
    dependants: list[RelatedJob]
    """Those that wait for it; where it did not succeed, those that waited for it."""
    next: Cursor


def bulk_response(bulk: core.Bulk) -> Bulk:
    path, tenant = f"/v1/bulk/{bulk.bulk_id}", f"?tenant={quote(bulk.tenant, safe='')}"
    links = BulkLinks(self=path + tenant, items=f"{path}/items{tenant}", cancel=f"{path}:cancel{tenant}")
    return Bulk.of(
        bulk,
        bulkId=bulk.bulk_id,
        action=bulk.action.value,
        filter=dict(bulk.filter),
        state=bulk.state.value,
        links=links,
    )


def item_response(item: core.BulkItem) -> BulkItem:
    return BulkItem.of(item, jobId=item.job_id, outcome=item.state.value, newJobId=item.new_job_id)


def preview(tenant: str, action: str, found: Sequence[str], more: bool, shown: int) -> BulkPreview:
    members = {"tenant": tenant, "action": action, "matched": len(found), "more": more, "first": list(found[:shown])}
    return BulkPreview.model_validate({"dryRun": True, **members})


def related_job(job_id: str, job: Job | None) -> RelatedJob:
    """`job`: None where it is not there any more."""
    if job is None:
        return RelatedJob(jobId=job_id, status=None, error_code=None, redriven_by=None)
    return RelatedJob.of(job, jobId=job_id)
