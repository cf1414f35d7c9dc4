"""Bulk operations, and dependencies of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import Field

from shared.api.response import Cursor, ErrorCode, Instant, JobId, JobStatusName, Partial, Response
from shared.core import bulks as core
from shared.core.jobs.job import Job

BulkId = Annotated[str, Field(pattern="^bulk_[0-9]{13}[0-9a-f]{16}$", examples=["bulk_82304918799990f3a5b7c9d1e2f40"])]

BulkActionName = Literal["cancel", "pause", "resume", "redrive", "replay"]

#: action of an existing bulk operation, including a purge, which another route creates
AnyActionName = Literal["cancel", "pause", "resume", "redrive", "replay", "purge"]

BulkStateName = Literal["RUNNING", "DONE", "CANCELLED"]

OutcomeName = Literal["OPEN", "DONE", "REFUSED"]


class BulkLinks(Response):
    """Paths of the bulk operation."""

    self: str
    items: str
    cancel: str
    """Path of the cancellation, which requires POST."""


class Bulk(Response):
    """A bulk operation. `done`, `refused` and `open` always add up to `matched`."""

    bulkId: BulkId
    tenant: str
    action: AnyActionName
    filter: dict[str, Any]
    """Filter as requested. Matches jobs that existed before the bulk operation."""
    root: JobId | None
    """Id of the job that is redriven first, before its failed dependants. Null if the bulk operation has a filter or
    is a purge."""
    reason: str | None
    actor: str
    state: BulkStateName
    """State of the bulk operation. After CANCELLED at most 20 running actions are completed, and other open items stay
    open."""
    listed: bool
    """`true` if all jobs of the filter are found. Until then `matched` grows. With `root` always `true`,
    although LUCIUS finds the failed dependants while the bulk operation runs."""
    matched: int
    done: int
    refused: int
    """Number of items that were refused permanently, or were still refused temporarily 7 days after `created_at`.
    `code` of each of these items has the reason. For a purge, number of jobs that the purge did not delete."""
    open: int
    """Number of items that were not tried yet, or were refused temporarily. A RUNNING bulk operation tries these items
    until 7 days after `created_at`. For a purge, number of jobs whose deletion LUCIUS retries."""
    created_at: Instant
    ended_at: Instant | None
    links: BulkLinks


class BulkPage(Response):
    """Bulk operations of a tenant, newest first."""

    bulks: list[Bulk]
    next: Cursor


class BulkItem(Response):
    """Result for one job of a bulk operation."""

    jobId: JobId
    outcome: OutcomeName
    code: Annotated[str | None, Field(examples=["JOB_TERMINAL"])]
    """Error code of a refused item, or of the last attempt of an OPEN item."""
    newJobId: JobId | None
    """Redrives and replays only. Id of the new job."""
    tried_at: Instant | None
    """Time of the last attempt."""


class BulkItemPage(Response):
    """Items of a bulk operation, in the order of their job ids."""

    items: list[BulkItem]
    next: Cursor
    partial: Partial


class BulkPreview(Response):
    """Preview of a bulk operation: the jobs that match now."""

    dryRun: Literal[True] = True
    tenant: str
    action: BulkActionName
    matched: int
    """Number of matching jobs, at most 1,000."""
    more: bool
    """`true` if LUCIUS stopped the count before the last job. `matched` is then a minimum."""
    first: list[JobId]
    """Up to 20 matching jobs, newest first."""


class RelatedJob(Response):
    """A dependency or a dependant of a job."""

    jobId: JobId
    status: JobStatusName | None
    """Status of the job. Null if the job no longer exists or cannot be read."""
    error_code: ErrorCode
    redriven_by: JobId | None
    """Id of the new job that redrives this job."""


class DependencyPage(Response):
    """All dependencies of a job, and a page of the jobs that depend on the job."""

    jobId: JobId
    dependencies: list[RelatedJob]
    dependants: list[RelatedJob]
    """Jobs that wait for the job. If the job ended without success, also the jobs that waited for the job."""
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
    """Makes a related job. `job` is None if the related job no longer exists or cannot be read."""
    if job is None:
        return RelatedJob(jobId=job_id, status=None, error_code=None, redriven_by=None)
    return RelatedJob.of(job, jobId=job_id)
