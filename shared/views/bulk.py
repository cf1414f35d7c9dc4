"""The response models of bulks, and of jobs that depend on one another."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from shared.core import bulks as core
from shared.core.jobs.job import Job
from shared.responses.bulk import Bulk, BulkItem, BulkLinks, BulkPreview, RelatedJob


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
