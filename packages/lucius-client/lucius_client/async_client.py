"""The asynchronous client: `async with AsyncClient(url) as lucius: ...`.

It sends and sleeps, and decides nothing, as `lucius_client.client` does. A test holds the signatures and docstrings of
both equal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from datetime import date, datetime
from types import TracebackType
from typing import Any, TypeVar

import httpx

from lucius_client import calls, configuration, series
from lucius_client.calls import Call, EnvelopeLike, Submitted
from lucius_client.configuration import DEFAULT_URL, TIMEOUT_S, AsyncToken
from lucius_client.errors import BadAddress
from lucius_client.exchange import Flow, NoResponse, Pause, Request, Response
from lucius_client.models import (
    BatchOutcome,
    DeadLetter,
    DryRun,
    Event,
    Explanation,
    Job,
    JobLine,
    Live,
    Protocol,
    Ready,
    Receipt,
    Reconciled,
    RejectedLine,
    RejectedMessage,
)
from lucius_client.retry import Retries, send
from lucius_client.series import Series

T = TypeVar("T")


class AsyncClient:
    """One API. Every method raises `LuciusError`s alone: `Refused` (by kind and code), `Unreachable`, `NotLucius`.

    `token` goes out as a bearer token. `transport` is httpx's, for tests and for proxies of one's own.
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
        await self._http.aclose()

    async def submit(self, envelope: EnvelopeLike) -> Submitted:
        """See `lucius_client.calls.submit` for the key."""
        return await self._call(calls.submit(envelope))

    async def submit_many(self, envelopes: Iterable[EnvelopeLike], *, dry_run: bool = False) -> BatchOutcome:
        """At most 1000 jobs and 1 MiB in one request."""
        return await self._call(calls.submit_many(envelopes, dry_run=dry_run))

    async def dry_run(self, envelope: EnvelopeLike) -> DryRun:
        """What a submit would do; nothing is written."""
        return await self._call(calls.dry_run(envelope))

    async def job(self, job_id: str, *, as_of: int | None = None) -> Job:
        """`as_of`: the job as that event left it."""
        return await self._call(calls.job(job_id, as_of=as_of))

    def changes(self, job_id: str, *, timeout_s: float | None = None) -> AsyncIterator[Job]:
        """The job now, and each time that it has changed, until it has ended. Raises WaitTimeout."""
        return self._iterate(series.Changes(job_id, timeout_s, self._retries))

    async def wait(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """The job once it has ended, however it ended. Raises WaitTimeout."""
        return [job async for job in self.changes(job_id, timeout_s=timeout_s)][-1]

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
        """Newest first; `label` is `key:value`. Pages are fetched as they are needed."""
        filters = series.job_filters(tenant_id, status, request_type, label, since, until)
        return self._iterate(series.jobs(filters, limit, self._retries))

    def events(self, job_id: str, *, limit: int | None = None) -> AsyncIterator[Event]:
        """All that happened to a job, in order."""
        return self._iterate(series.events(job_id, limit, self._retries))

    def dead_letters(self, *, tenant_id: str | None = None, limit: int | None = None) -> AsyncIterator[DeadLetter]:
        """Jobs that failed for good, newest first."""
        return self._iterate(series.dead_letters(tenant_id, limit, self._retries))

    def protocols(self) -> AsyncIterator[Protocol]:
        """What can be asked for."""
        return self._iterate(series.protocols(self._retries))

    async def protocol(self, name: str) -> Protocol:
        """By request type or protocol id."""
        return await self._call(calls.protocol(name))

    async def explain(self, job_id: str) -> Explanation:
        """What the job waits for, until when, and what happens then."""
        return await self._call(calls.explain(job_id))

    async def receipt(self, job_id: str) -> Receipt:
        """Where its time went."""
        return await self._call(calls.receipt(job_id))

    async def audit(self, job_id: str) -> dict[str, Any]:
        """Its whole history as one document that proves itself."""
        return await self._call(calls.audit(job_id))

    async def cancel(self, job_id: str, *, reason: str | None = None) -> Job:
        return await self._call(calls.control(job_id, "cancel", reason))

    async def pause(self, job_id: str, *, reason: str | None = None) -> Job:
        return await self._call(calls.control(job_id, "pause", reason))

    async def resume(self, job_id: str, *, reason: str | None = None) -> Job:
        return await self._call(calls.control(job_id, "resume", reason))

    async def redrive(self, job_id: str, *, reason: str | None = None) -> Job:
        """The new job that takes a failed or cancelled one up again; asked again, the same one."""
        return await self._call(calls.redrive(job_id, reason))

    def rejected(self, *, day: date | None = None, limit: int | None = None) -> AsyncIterator[RejectedLine]:
        """Messages that no job could take, newest first; `day` is one of the UTC calendar, None: today's."""
        return self._iterate(series.rejected(day, limit, self._retries))

    async def rejected_message(self, rejected_id: str) -> RejectedMessage:
        """With its body, and what would happen if it came now."""
        return await self._call(calls.rejected_message(rejected_id))

    async def redrive_rejected(self, rejected_id: str) -> RejectedMessage:
        return await self._call(calls.redrive_rejected(rejected_id))

    async def reconcile(self, *, dry_run: bool = False) -> Reconciled:
        """A pass of the sweeper, now."""
        return await self._call(calls.reconcile(dry_run=dry_run))

    async def live(self) -> Live:
        return await self._call(calls.live())

    async def ready(self) -> Ready:
        """Raises Unavailable where something that LUCIUS needs does not answer."""
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
