"""The asynchronous client: `async with AsyncClient(url) as lucius: ...`.

It only sends and sleeps, as `lucius_client.client` does; a test holds the signatures and docstrings of both equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from datetime import date, datetime
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

import httpx

from lucius_client import calls, configuration, series
from lucius_client.calls import Call, EnvelopeLike, RuleNumbers, Submitted
from lucius_client.configuration import DEFAULT_URL, TIMEOUT_S, AsyncToken
from lucius_client.errors import BadAddress
from lucius_client.exchange import Flow, NoResponse, Pause, Request, Response
from lucius_client.models import (
    BatchOutcome,
    Bulk,
    BulkItem,
    BulkPreview,
    DeadLetter,
    DryRun,
    Event,
    Explanation,
    Incident,
    IncidentDetail,
    Job,
    JobLine,
    Live,
    Protocol,
    Quota,
    QuotaChange,
    QuotaLogEntry,
    Ready,
    Receipt,
    ReceiptSums,
    Reconciled,
    RejectedLine,
    RejectedMessage,
    RelatedJob,
    SeenSource,
    UsageReport,
    WaitingJob,
)
from lucius_client.results import Result, read_result
from lucius_client.retry import Retries, send
from lucius_client.series import Series

T = TypeVar("T")


class AsyncClient:
    """A client of one API.

    `url` is the root of the API. `token` is sent as a bearer token; a function is called for one before each request.
    `retries` bounds the repetitions of a request, `timeout_s` the seconds for connecting and between two received
    bytes. `transport` replaces the one of httpx, for tests and for proxies. Proxies named by the environment are not
    used.

    Every method raises `LuciusError`: a subclass of `Refused` for a problem, `Unreachable` without a response,
    `NotLucius` for a response of another form. The constructor raises `BadAddress`. An iterator sends its requests,
    and raises, while it is consumed.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: AsyncToken = None,
        retries: Retries | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._retries = retries or Retries()
        self._timeout_s = timeout_s
        try:
            self._http = httpx.AsyncClient(base_url=self.url, trust_env=False, transport=transport)
        except httpx.InvalidURL as error:
            raise BadAddress(f"{url}: {error}") from error

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def submit(self, envelope: EnvelopeLike) -> Submitted:
        """Create a job. An envelope without `idempotency_key` gets a random key; with None, its body is the key."""
        return await self._call(calls.submit(envelope))

    async def submit_many(self, envelopes: Iterable[EnvelopeLike], *, dry_run: bool = False) -> BatchOutcome:
        """Create up to 1000 jobs in one request of up to 1 MiB; each envelope has its own outcome."""
        return await self._call(calls.submit_many(envelopes, dry_run=dry_run))

    async def dry_run(self, envelope: EnvelopeLike) -> DryRun:
        """What a submit of the envelope would do; nothing is written."""
        return await self._call(calls.dry_run(envelope))

    async def job(self, job_id: str, *, as_of: int | None = None) -> Job:
        """A job with its steps; `as_of`: as it was after the event with that `seq`."""
        return await self._call(calls.job(job_id, as_of=as_of))

    def changes(self, job_id: str, *, timeout_s: float | None = None) -> AsyncIterator[Job]:
        """The job now and after each change, until it has ended. Raises WaitTimeout after `timeout_s` seconds."""
        return self._iterate(series.Changes(job_id, timeout_s, self._retries))

    async def wait(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """The job when it has ended, in any of the final states. Raises WaitTimeout after `timeout_s` seconds."""
        return [job async for job in self.changes(job_id, timeout_s=timeout_s)][-1]

    async def wait_admitted(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """The job when its gates have let it in, or it has ended. Raises WaitTimeout after `timeout_s` seconds."""
        changes = series.Changes(job_id, timeout_s, self._retries, admitted=True)
        return [job async for job in self._iterate(changes)][-1]

    def jobs(
        self,
        *,
        tenant_id: str | None = None,
        status: str | Iterable[str] | None = None,
        request_type: str | None = None,
        label: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[JobLine]:
        """Jobs, newest first. `label` is `key:value`; `since` and `until` (exclusive) bound the time of creation.

        `limit` is the maximum number of lines. Pages are fetched when they are needed. Raises ValueError for a time
        without time zone.
        """
        filters = series.job_filters(tenant_id, status, request_type, label, since, until)
        return self._iterate(series.jobs(filters, limit, self._retries))

    def events(self, job_id: str, *, limit: int | None = None) -> AsyncIterator[Event]:
        """The events of a job, in order."""
        return self._iterate(series.events(job_id, limit, self._retries))

    def dead_letters(
        self,
        *,
        tenant_id: str | None = None,
        request_type: str | None = None,
        label: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[DeadLetter]:
        """Jobs that ended FAILED_FINAL and that nobody has redriven or dismissed; the last that failed first.

        The filter is that of `jobs`: `label` is `key:value`; `since` and `until` (exclusive) bound the time of
        creation. Raises ValueError for a time without time zone.
        """
        filters = series.job_filters(tenant_id, None, request_type, label, since, until)
        return self._iterate(series.dead_letters(filters, limit, self._retries))

    def incidents(
        self,
        *,
        tenant_id: str | None = None,
        state: str | Iterable[str] | None = None,
        kind: str | Iterable[str] | None = None,
        request_type: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Incident]:
        """What a person has to look at, the last that was opened first; `state` is OPEN, RESOLVED, RETRIED, DISMISSED.

        `kind` is JOB, BREAKER or SERVICE; `since` and `until` (exclusive) bound the time of the opening. Raises
        ValueError for a time without time zone.
        """
        filters = series.incident_filters(tenant_id, state, kind, request_type, since, until)
        return self._iterate(series.incidents(filters, limit, self._retries))

    async def incident(self, incident_id: str) -> IncidentDetail:
        """An incident with its log."""
        return await self._call(calls.incident(incident_id))

    async def resolve_incident(self, incident_id: str, *, reason: str) -> IncidentDetail:
        """Say that what was to do is done; a repetition changes nothing. Raises Conflicting where it is settled."""
        return await self._call(calls.settle_incident(incident_id, "resolve", reason))

    async def retry_incident(self, incident_id: str, *, reason: str) -> IncidentDetail:
        """Redrive the job of an incident; `retried_by` is the new job, the same one in a repetition."""
        return await self._call(calls.settle_incident(incident_id, "retry", reason))

    async def dismiss_incident(self, incident_id: str, *, reason: str) -> IncidentDetail:
        """Put an incident aside; its job is no dead letter any more. A repetition changes nothing."""
        return await self._call(calls.settle_incident(incident_id, "dismiss", reason))

    async def dismiss_dead_letter(self, job_id: str, *, reason: str) -> Job:
        """Put a dead letter aside, with its incident if one is open; the job can still be redriven."""
        return await self._call(calls.dismiss_dead_letter(job_id, reason))

    def protocols(self) -> AsyncIterator[Protocol]:
        """The protocols that a job can request."""
        return self._iterate(series.protocols(self._retries))

    async def protocol(self, name: str) -> Protocol:
        """A protocol by its request type or its protocol id."""
        return await self._call(calls.protocol(name))

    async def explain(self, job_id: str) -> Explanation:
        """What a job waits for, until when, and what happens then."""
        return await self._call(calls.explain(job_id))

    async def receipt(self, job_id: str) -> Receipt:
        """How the time of a job is divided between queue, ACK, service, backoff, backlog and pauses."""
        return await self._call(calls.receipt(job_id))

    async def audit(self, job_id: str) -> dict[str, Any]:
        """The audit bundle of a job, to be verified offline by `lucius audit verify`."""
        return await self._call(calls.audit(job_id))

    async def result(self, job: str | Job, *, out: BinaryIO | None = None, credential: Any = None) -> Result:
        """The content of `final_output` of a job (a model or its id), read with the caller's own credential.

        `out`, a binary file, gets the content in pieces; without it `content` of the result has it, up to 64 MiB.
        `credential` is one of azure-identity, or a connection string for blobs of its account; None: Azurite's own key
        on this machine, else `DefaultAzureCredential`. It needs the extra `lucius-client[results]`. Raises NoResult
        where the job has not ended or did not succeed, ResultGone, ResultForbidden, ResultUnreadable, StoreUnreachable.
        """
        known = await self.job(job) if isinstance(job, str) else job
        return await asyncio.to_thread(read_result, known, out, credential)

    async def cancel(self, job_id: str, *, reason: str | None = None) -> Job:
        """End a job; attempts in flight are waited for (R11 of docs/lifecycle.md)."""
        return await self._call(calls.control(job_id, "cancel", reason))

    async def pause(self, job_id: str, *, reason: str | None = None) -> Job:
        """Start no further attempt of a job; attempts in flight are waited for (R11 of docs/lifecycle.md)."""
        return await self._call(calls.control(job_id, "pause", reason))

    async def resume(self, job_id: str, *, reason: str | None = None) -> Job:
        """Continue a paused job."""
        return await self._call(calls.control(job_id, "resume", reason))

    async def admit(self, job_id: str, *, reason: str) -> Job:
        """Let a job that waits go past its gates, once; for operators."""
        return await self._call(calls.control(job_id, "admit", reason))

    async def set_priority(self, job_id: str, priority: str, *, reason: str) -> Job:
        """Give a job that waits another priority, and so another place in line: low, normal, high or emergency."""
        return await self._call(calls.set_priority(job_id, priority, reason))

    async def redrive(self, job_id: str, *, reason: str | None = None, ignore_dependencies: bool = False) -> Job:
        """Create the job that takes a failed or cancelled job up again; a repetition returns the same new job."""
        return await self._call(calls.redrive(job_id, reason, ignore_dependencies=ignore_dependencies))

    async def redrive_tree(self, job_id: str, *, reason: str | None = None) -> Bulk:
        """Take a job up again, and then every job that failed because of it: a bulk, of which it is the first item."""
        return await self._call(calls.redrive_tree(job_id, reason))

    async def dependencies(self, job_id: str) -> list[RelatedJob]:
        """The jobs that a job depends on, with their states."""
        return (await self._call(calls.dependencies(job_id))).dependencies

    def dependants(self, job_id: str, *, limit: int | None = None) -> AsyncIterator[RelatedJob]:
        """The jobs that depend on a job; of one that did not succeed, those that waited for it."""
        return self._iterate(series.dependants(job_id, limit, self._retries))

    async def start_bulk(self, action: str, words: Mapping[str, Any], *, reason: str, key: str | None = None) -> Bulk:
        """Cancel, pause, resume or redrive all jobs that match the words of the filter of `jobs`, and are there now.

        `action` is `cancel`, `pause`, `resume` or `redrive`. The same `key` with the same body is the same bulk.
        """
        return await self._call(calls.start_bulk(action, words, reason=reason, key=key))

    async def preview_bulk(self, action: str, words: Mapping[str, Any]) -> BulkPreview:
        """Which jobs such a bulk would meet now; nothing is written."""
        return await self._call(calls.preview_bulk(action, words))

    async def bulk(self, bulk_id: str, *, tenant: str | None = None) -> Bulk:
        """A bulk with its counts. `tenant` is for operators of all tenants, here and below."""
        return await self._call(calls.bulk(bulk_id, tenant))

    def bulks(self, *, tenant: str | None = None, limit: int | None = None) -> AsyncIterator[Bulk]:
        """The bulks of a tenant, newest first."""
        return self._iterate(series.bulks(tenant, limit, self._retries))

    def bulk_items(
        self, bulk_id: str, *, tenant: str | None = None, outcome: str | None = None, limit: int | None = None
    ) -> AsyncIterator[BulkItem]:
        """What became of each job of a bulk; with `outcome` only those that are OPEN, DONE or REFUSED."""
        return self._iterate(series.bulk_items(bulk_id, tenant, outcome, limit, self._retries))

    async def cancel_bulk(self, bulk_id: str, *, tenant: str | None = None) -> Bulk:
        """Stop the rest of a bulk; what is done stays done."""
        return await self._call(calls.cancel_bulk(bulk_id, tenant))

    def receipts(
        self,
        *,
        tenant_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> AsyncIterator[ReceiptSums]:
        """What a tenant's jobs spent, in pages of up to 100 jobs, newest first: add them up.

        `since` and `until` (exclusive) bound the time of creation; `by` is `type`, `source` or `priority`.
        """
        query = {"tenant_id": tenant_id, "since": since, "until": until, "by": by, "limit": series.PAGE}
        return self._iterate(series.Sums(query, self._retries))

    def quotas(self, *, tenant: str | None = None, limit: int | None = None) -> AsyncIterator[Quota]:
        """The gates of a tenant, its own first; None: of the token's tenant, or for an operator of all tenants."""
        return self._iterate(series.quotas(tenant, limit, self._retries))

    async def quota(
        self,
        tenant: str | None = None,
        *,
        job_type: str | None = None,
        source: str | None = None,
        name: str | None = None,
    ) -> Quota:
        """The gate of a tenant, of one of its job types or of one of its sources, also where nothing is set for it.

        `name`: one over all tenants (`platform`, `mode:BURST`, `type:OCR`, `service:ocr`, `lane:3`).
        """
        return await self._call(calls.quota(tenant, job_type, source, name))

    async def set_quota(self, quota: Quota, numbers: RuleNumbers, *, reason: str, dry_run: bool = False) -> QuotaChange:
        """Merge `numbers` (`max_active`, `max_per_hour`, `burst`, `max_staged`, `emergency_max_active`) into the rule.

        Of a job type's gate also `breaker`, with `failure_rate`, `min_calls` and `cooldown_s`; `{}` is one as it comes.
        None takes a number out; what is not named stays. Raises RuleChanged where the gate was changed since `quota`
        was read. `dry_run` tells how many jobs would go in, and writes nothing.
        """
        return await self._call(calls.set_quota(quota, numbers, reason=reason, dry_run=dry_run))

    async def delete_quota(self, quota: Quota, *, reason: str, dry_run: bool = False) -> QuotaChange:
        """Take the rule of a gate away; a rule for every tenant then counts. Raises RuleChanged as `set_quota`."""
        return await self._call(calls.delete_quota(quota, reason=reason, dry_run=dry_run))

    async def reset_breaker(self, quota: Quota, *, reason: str) -> QuotaChange:
        """Close the breaker of a gate, and forget what it counted. Raises Conflicting where no rule gives it one."""
        return await self._call(calls.reset_breaker(quota, reason=reason))

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
        """Let nobody in until `resume_gate`, or `until`; jobs that run go on. Repeated, it changes nothing."""
        members = {"tenant": tenant, "job_type": job_type, "source": source, "name": name, "until": until}
        return await self._call(calls.limit("pause", reason=reason, **members))

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
        """Give a gate a rate until `resume_gate`, or `until`; the smaller of it and the rule's counts."""
        members = {"tenant": tenant, "job_type": job_type, "source": source, "name": name, "until": until}
        return await self._call(calls.limit("throttle", reason=reason, max_per_hour=max_per_hour, **members))

    async def resume_gate(
        self,
        tenant: str | None = None,
        *,
        reason: str,
        job_type: str | None = None,
        source: str | None = None,
        name: str | None = None,
    ) -> QuotaChange:
        """End the hold and the throttle of a gate."""
        members = {"tenant": tenant, "job_type": job_type, "source": source, "name": name, "reason": reason}
        return await self._call(calls.limit("resume", **members))

    def waiting(self, quota: Quota, *, limit: int | None = None) -> AsyncIterator[WaitingJob]:
        """Who waits for a gate, in order: at most the first thousand."""
        return self._iterate(series.waiting(quota, limit, self._retries))

    def quota_log(self, quota: Quota, *, limit: int | None = None) -> AsyncIterator[QuotaLogEntry]:
        """Every change of a gate, in order."""
        return self._iterate(series.quota_log(quota, limit, self._retries))

    async def usage(
        self, *, tenant: str | None = None, since: datetime | None = None, by: str | None = None
    ) -> UsageReport:
        """What the jobs of a tenant used of its gates, in whole hours from `since` (None: the last day) on.

        `by`: also sums for each `type`, `source` or `hour`.
        """
        return await self._call(calls.usage(tenant, since, by))

    def sources(self, *, tenant: str | None = None, limit: int | None = None) -> AsyncIterator[SeenSource]:
        """The sources that jobs of a tenant named, with the first and the last job of each."""
        return self._iterate(series.sources(tenant, limit, self._retries))

    def rejected(self, *, day: date | None = None, limit: int | None = None) -> AsyncIterator[RejectedLine]:
        """Messages that no job could take, newest first, of one UTC day; None: of today."""
        return self._iterate(series.rejected(day, limit, self._retries))

    async def rejected_message(self, rejected_id: str) -> RejectedMessage:
        """A rejected message with its body and with what would happen if it came now."""
        return await self._call(calls.rejected_message(rejected_id))

    async def redrive_rejected(self, rejected_id: str) -> RejectedMessage:
        """Apply a rejected message to its job again; `redriven_outcome` of the result is what came of it."""
        return await self._call(calls.redrive_rejected(rejected_id))

    async def reconcile(self, *, dry_run: bool = False) -> Reconciled:
        """Run the sweeper once; with `dry_run` it only lists what it would do."""
        return await self._call(calls.reconcile(dry_run=dry_run))

    async def live(self) -> Live:
        """Whether the API runs. Raises Unreachable where it does not."""
        return await self._call(calls.live())

    async def ready(self) -> Ready:
        """The state of each dependency. Raises Unavailable while one of them does not respond."""
        return await self._call(calls.ready())

    async def _call(self, call: Call[T]) -> T:
        return call.read(await self._run(send(call.request, self._retries)))

    async def _iterate(self, source: Series[T]) -> AsyncIterator[T]:
        while source.more:
            for each in await self._run(source.next()):
                yield each

    async def _run(self, flow: Flow[T]) -> T:
        outcome: Response | NoResponse | None = None
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    outcome = None
                else:
                    outcome = await self._send(step)
                step = flow.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, request: Request) -> Response | NoResponse:
        token = await configuration.token_of_async(self._token)
        try:
            response = await self._http.request(
                request.method,
                request.path,
                params=dict(request.query) or None,
                headers=configuration.headers_of(request, token),
                content=request.content,
                timeout=self._timeout_s + request.long_poll_s,
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise BadAddress(f"{self.url}: {error}") from error
        except httpx.TransportError as error:
            return NoResponse(str(error) or type(error).__name__)
        return Response(response.status_code, configuration.lower_names(response.headers), response.content)
