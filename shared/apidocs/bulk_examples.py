"""Examples of bulk operations, built by the code of the API's responses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shared.api.bulk import RelatedJob, bulk_response, item_response, preview
from shared.apidocs.json_schema import JsonObject, dumped
from shared.core.bulks import Bulk, BulkAction, BulkItem, BulkState, ItemState

_AT = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)
_OTHER = "job_0d3a9b5e4f7c8a2d1e0f9b8c7a656f1c"


def by_model(job_id: str) -> JsonObject:
    """Returns an example for each response about bulk operations and dependencies, by the name of its model."""
    bulk = Bulk(
        bulk_id="bulk_82304918799990f3a5b7c9d1e2f40",
        tenant="tenant_a",
        action=BulkAction.REDRIVE,
        filter={"tenant_id": "tenant_a", "status": "FAILED_FINAL"},
        reason="the service is repaired",
        actor="app:6f1c0d3a",
        created_at=_AT,
        look_at=_AT,
    )
    ended = replace(
        bulk,
        state=BulkState.DONE,
        listed=True,
        matched=2,
        done=1,
        refused=1,
        ended_at=_AT + timedelta(seconds=3),
    )
    tried = _AT + timedelta(seconds=2)
    items = [
        BulkItem(job_id=job_id, state=ItemState.DONE, new_job_id=_OTHER, tried_at=tried),
        BulkItem(job_id=_OTHER, state=ItemState.REFUSED, code="JOB_LIVE", tried_at=tried),
    ]
    waits = RelatedJob(jobId=_OTHER, status=None, error_code=None, redriven_by=None)
    return {
        "Bulk": dumped(bulk_response(ended)),
        "BulkPage": {"bulks": [dumped(bulk_response(ended))], "next": None},
        "BulkItemPage": {"items": [dumped(item_response(each)) for each in items], "next": None, "partial": False},
        "PurgePreview": {"dryRun": True, "tenant": "tenant_a", "living": 0, "jobs": 412},
        "BulkPreview": dumped(preview("tenant_a", "redrive", [job_id], False, 20)),
        "DependencyPage": {"jobId": job_id, "dependencies": [dumped(waits)], "dependants": [], "next": None},
    }
