"""Quotas, incidents, bulk operations and usage: a part of the asynchronous client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, TypeVar, Unpack

from lucius_client import calls, overview_calls, quota_calls, series, tenant_calls
from lucius_client.calls import Call
from lucius_client.filters import IncidentFilter
from lucius_client.models import (
    Bulk,
    BulkItem,
    BulkPreview,
    DashboardMetrics,
    Incident,
    IncidentDetail,
    PurgePreview,
    Quota,
    QuotaChange,
    QuotaLogEntry,
    Routing,
    SeenSource,
    UsageReport,
    WaitingJob,
)
from lucius_client.quota_calls import RuleNumbers
from lucius_client.retry import Retries
from lucius_client.series import Series

T = TypeVar("T")


class AsyncGovernance(ABC):
    """The methods of `lucius_client.async_client.AsyncClient` for quotas, incidents, bulk operations and usage."""

    _retries: Retries

    @abstractmethod
    async def _call(self, call: Call[T]) -> T: ...

    @abstractmethod
    def _iterate(self, source: Series[T]) -> AsyncIterator[T]: ...

    def incidents(self, *, limit: int | None = None, **filters: Unpack[IncidentFilter]) -> AsyncIterator[Incident]:
        """Lists incidents, most recent first. `state` is OPEN, RESOLVED, RETRIED or DISMISSED.

        `kind` is JOB, BREAKER, SERVICE or ROW. `since` and `until` (exclusive) limit the time of the opening. Raises
        ValueError for a time without time zone.
        """
        return self._iterate(series.incidents(filters, limit, self._retries))

    async def incident(self, incident_id: str) -> IncidentDetail:
        """Returns an incident with its log."""
        return await self._call(calls.incident(incident_id))

    async def resolve_incident(self, incident_id: str, *, reason: str) -> IncidentDetail:
        """Resolves an incident. Idempotent. Raises Conflicting if the incident was closed in another way."""
        return await self._call(calls.settle_incident(incident_id, "resolve", reason))

    async def retry_incident(self, incident_id: str, *, reason: str) -> IncidentDetail:
        """Redrives the job of an incident. Idempotent. Raises Conflicting if the incident has no job or was closed in
        another way. `retried_by` of the result is the id of the new job.
        """
        return await self._call(calls.settle_incident(incident_id, "retry", reason))

    async def dismiss_incident(self, incident_id: str, *, reason: str) -> IncidentDetail:
        """Dismisses an incident. Its job, if any, is then no longer a dead letter. Idempotent. Raises Conflicting if
        the incident was closed in another way.
        """
        return await self._call(calls.settle_incident(incident_id, "dismiss", reason))

    async def start_bulk(self, action: str, words: Mapping[str, Any], *, reason: str, key: str | None = None) -> Bulk:
        """Starts a bulk operation on the jobs that exist now and match `words` when LUCIUS lists these jobs, soon after
        the start. `words` has the filter of `jobs`.

        `action` is `cancel`, `pause`, `resume`, `redrive` or `replay`. Idempotent: the same `key` with the same body
        returns the same bulk operation. If `key` is None, the client sends a random key, for retries within this call.
        """
        return await self._call(calls.start_bulk(action, words, reason=reason, key=key))

    async def preview_bulk(self, action: str, words: Mapping[str, Any]) -> BulkPreview:
        """Returns the number of jobs that match `words` now, at most 1,000, and up to 20 of these jobs. Writes
        nothing.
        """
        return await self._call(calls.preview_bulk(action, words))

    async def bulk(self, bulk_id: str, *, tenant: str | None = None) -> Bulk:
        """Returns a bulk operation with its counts.

        Only callers of all tenants can name another `tenant`, here and in the other methods of bulk operations.
        """
        return await self._call(calls.bulk(bulk_id, tenant))

    def bulks(self, *, tenant: str | None = None, limit: int | None = None) -> AsyncIterator[Bulk]:
        """Lists the bulk operations of a tenant, newest first."""
        return self._iterate(series.bulks(tenant, limit, self._retries))

    def bulk_items(
        self, bulk_id: str, *, tenant: str | None = None, outcome: str | None = None, limit: int | None = None
    ) -> AsyncIterator[BulkItem]:
        """Lists the jobs of a bulk operation with their outcomes. `outcome` selects OPEN, DONE or REFUSED."""
        return self._iterate(series.bulk_items(bulk_id, tenant, outcome, limit, self._retries))

    async def cancel_bulk(self, bulk_id: str, *, tenant: str | None = None) -> Bulk:
        """Cancels a bulk operation. At most 20 running actions are completed, and completed actions remain."""
        return await self._call(calls.cancel_bulk(bulk_id, tenant))

    async def purge(self, tenant: str, *, reason: str) -> Bulk:
        """Deletes a tenant's data, as a bulk operation. Requires an operator. Some data stays, for example documents
        and results (docs/guides/audit.md).

        While a purge of the tenant runs, a call with the same reason returns the running purge. Raises Conflicting for
        another reason, and while the tenant has jobs that have not ended.
        """
        return await self._call(tenant_calls.purge(tenant, reason))

    async def preview_purge(self, tenant: str) -> PurgePreview:
        """Returns the number of jobs that a purge deletes, and the number of jobs that have not ended. Each number is
        at most 1,000. Deletes nothing.
        """
        return await self._call(tenant_calls.preview_purge(tenant))

    def quotas(self, *, tenant: str | None = None, limit: int | None = None) -> AsyncIterator[Quota]:
        """Lists the quotas of a tenant. The tenant's own quota comes first.

        If `tenant` is None, lists the quotas of the token's tenant. For callers who see all tenants, None means the
        quotas over all tenants, and those of each tenant with own settings.
        """
        return self._iterate(series.quotas(tenant, limit, self._retries))

    async def quota(
        self,
        tenant: str | None = None,
        *,
        job_type: str | None = None,
        source: str | None = None,
        name: str | None = None,
    ) -> Quota:
        """Returns the quota of a tenant, of one of its job types or of one of its sources, even if the quota has no
        settings.

        `name` is a quota over all tenants (`platform`, `mode:BURST`, `type:OCR`, `service:ocr`, `lane:3`).
        """
        return await self._call(quota_calls.quota(tenant, job_type, source, name))

    async def set_quota(self, quota: Quota, numbers: RuleNumbers, *, reason: str, dry_run: bool = False) -> QuotaChange:
        """Merges `numbers` into a quota's own limits: `max_active`, `max_per_hour`, `burst`, `max_staged`,
        `emergency_max_active`, `weight`. A quota with own limits ignores the limits for every tenant and the limits
        of the app's settings.

        A quota of a job type also has `breaker` with `failure_rate`, `min_calls`, `cooldown_s` and, over all tenants,
        `min_tenants`. For `breaker`, `{}` adds a breaker with the defaults, and does not change an existing breaker.
        None removes a limit, and other own limits keep their values.

        Raises RuleChanged if the quota changed since `quota` was read. With `dry_run`, writes nothing, and the result
        has the number of jobs that the change starts.
        """
        return await self._call(quota_calls.set_quota(quota, numbers, reason=reason, dry_run=dry_run))

    async def delete_quota(self, quota: Quota, *, reason: str, dry_run: bool = False) -> QuotaChange:
        """Deletes the limits of a quota. The limits for every tenant, or the limits in the app's settings, are then in
        effect. A hold or throttle stays.

        Raises RuleChanged as `set_quota` does, and NotFound if the quota has no limits of its own. With `dry_run`,
        writes nothing.
        """
        return await self._call(quota_calls.delete_quota(quota, reason=reason, dry_run=dry_run))

    async def reset_breaker(self, quota: Quota, *, reason: str) -> QuotaChange:
        """Closes a quota's circuit breaker and resets its counts. Raises Conflicting if the quota has no breaker."""
        return await self._call(quota_calls.reset_breaker(quota, reason=reason))

    async def hold_gate(
        self,
        tenant: str | None = None,
        *,
        reason: str,
        job_type: str | None = None,
        source: str | None = None,
        name: str | None = None,
        until: datetime | None = None,
    ) -> QuotaChange:
        """Holds a quota until `resume_gate` or `until`. No job starts, and running jobs continue. A hold of a service
        or lane stops new attempts of steps instead. Idempotent.

        If neither the call nor the token names a tenant, `job_type` names the quota of this job type over all tenants.
        `throttle_gate` and `resume_gate` use `job_type` in the same way.
        """
        members = {"tenant": tenant, "job_type": job_type, "source": source, "name": name, "until": until}
        return await self._call(quota_calls.limit("pause", reason=reason, **members))

    async def throttle_gate(
        self,
        tenant: str | None = None,
        *,
        max_per_hour: int,
        reason: str,
        job_type: str | None = None,
        source: str | None = None,
        name: str | None = None,
        until: datetime | None = None,
    ) -> QuotaChange:
        """Limits a quota's start rate until `resume_gate` or `until`. If the quota's own rate is lower, the lower rate
        is in effect. A service or lane cannot be throttled.
        """
        members = {"tenant": tenant, "job_type": job_type, "source": source, "name": name, "until": until}
        return await self._call(quota_calls.limit("throttle", reason=reason, max_per_hour=max_per_hour, **members))

    async def resume_gate(
        self,
        tenant: str | None = None,
        *,
        reason: str,
        job_type: str | None = None,
        source: str | None = None,
        name: str | None = None,
    ) -> QuotaChange:
        """Ends the hold and the throttle of a quota. A caller of one tenant ends only holds and throttles that callers
        of the tenant set. Raises Forbidden if only operators set them.
        """
        members = {"tenant": tenant, "job_type": job_type, "source": source, "name": name, "reason": reason}
        return await self._call(quota_calls.limit("resume", **members))

    def waiting(self, quota: Quota, *, limit: int | None = None) -> AsyncIterator[WaitingJob]:
        """Lists the jobs that wait for a quota, in order, at most the first 1,000. For a quota over all tenants, lists
        only jobs of tenants in `quota.shares`.
        """
        return self._iterate(series.waiting(quota, limit, self._retries))

    def quota_log(self, quota: Quota, *, limit: int | None = None) -> AsyncIterator[QuotaLogEntry]:
        """Lists the changes of a quota, in order."""
        return self._iterate(series.quota_log(quota, limit, self._retries))

    async def usage(
        self, *, tenant: str | None = None, since: datetime | None = None, by: str | None = None
    ) -> UsageReport:
        """Returns the usage of a tenant's quotas, in whole hours from `since`. Default: the last day.

        `by` adds sums for each `type`, `source` or `hour`.
        """
        return await self._call(calls.usage(tenant, since, by))

    async def dashboard_metrics(self, *, tenant: str | None = None) -> DashboardMetrics:
        """Returns the overview of a tenant. Default: the token's tenant, else all tenants.

        `health` names the worst problem in one sentence, or states that no problem exists. An item of `problems` can
        have the next command.
        """
        return await self._call(overview_calls.dashboard_metrics(tenant))

    async def routing(
        self, *, tenant: str | None = None, doc_id: str | None = None, mode: str | None = None
    ) -> Routing:
        """Returns the lane that a new job of this tenant and document gets now."""
        return await self._call(overview_calls.routing(tenant, doc_id, mode))

    def sources(self, *, tenant: str | None = None, limit: int | None = None) -> AsyncIterator[SeenSource]:
        """Lists the sources that a tenant's jobs named, with the first job of each source, and the hour of its last
        use.
        """
        return self._iterate(series.sources(tenant, limit, self._retries))
