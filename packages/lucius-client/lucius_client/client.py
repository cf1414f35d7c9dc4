"""The synchronous client: `with Client(url) as lucius: ...`.

It sends and sleeps, and decides nothing: requests are built in `lucius_client.calls`, repeated in `lucius_client.retry`
and strung together in `lucius_client.series`. `lucius_client.async_client` does the same on asyncio; a test holds the
signatures and docstrings of both equal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from types import TracebackType
from typing import Any, TypeVar

import httpx

from lucius_client import calls, configuration, series
from lucius_client.calls import Call, EnvelopeLike, Submitted
from lucius_client.configuration import DEFAULT_URL, TIMEOUT_S, Token
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


class Client:
    """One API. Every method raises `LuciusError`s alone: `Refused` (by kind and code), `Unreachable`, `NotLucius`.

    `token` goes out as a bearer token. `transport` is httpx's, for tests and for proxies of one's own.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        token: Token = None,
        retries: Retries | None = None,
        timeout_s: float = TIMEOUT_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._retries = retries or Retries()
        self._timeout_s = timeout_s
        try:
            self._http = httpx.Client(base_url=self.url, trust_env=False, transport=transport)
        except httpx.InvalidURL as error:
            raise BadAddress(f"{url}: {error}") from error

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def submit(self, envelope: EnvelopeLike) -> Submitted:
        """See `lucius_client.calls.submit` for the key."""
        return self._call(calls.submit(envelope))

    def submit_many(self, envelopes: Iterable[EnvelopeLike], *, dry_run: bool = False) -> BatchOutcome:
        """At most 1000 jobs and 1 MiB in one request."""
        return self._call(calls.submit_many(envelopes, dry_run=dry_run))

    def dry_run(self, envelope: EnvelopeLike) -> DryRun:
        """What a submit would do; nothing is written."""
        return self._call(calls.dry_run(envelope))

    def job(self, job_id: str, *, as_of: int | None = None) -> Job:
        """`as_of`: the job as that event left it."""
        return self._call(calls.job(job_id, as_of=as_of))

    def changes(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[Job]:
        """The job now, and each time that it has changed, until it has ended. Raises WaitTimeout."""
        return self._iterate(series.Changes(job_id, timeout_s, self._retries))

    def wait(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """The job once it has ended, however it ended. Raises WaitTimeout."""
        return list(self.changes(job_id, timeout_s=timeout_s))[-1]

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
    ) -> Iterator[JobLine]:
        """Newest first; `label` is `key:value`. Pages are fetched as they are needed."""
        filters = series.job_filters(tenant_id, status, request_type, label, since, until)
        return self._iterate(series.jobs(filters, limit, self._retries))

    def events(self, job_id: str, *, limit: int | None = None) -> Iterator[Event]:
        """All that happened to a job, in order."""
        return self._iterate(series.events(job_id, limit, self._retries))

    def dead_letters(self, *, tenant_id: str | None = None, limit: int | None = None) -> Iterator[DeadLetter]:
        """Jobs that failed for good, newest first."""
        return self._iterate(series.dead_letters(tenant_id, limit, self._retries))

    def protocols(self) -> Iterator[Protocol]:
        """What can be asked for."""
        return self._iterate(series.protocols(self._retries))

    def protocol(self, name: str) -> Protocol:
        """By request type or protocol id."""
        return self._call(calls.protocol(name))

    def explain(self, job_id: str) -> Explanation:
        """What the job waits for, until when, and what happens then."""
        return self._call(calls.explain(job_id))

    def receipt(self, job_id: str) -> Receipt:
        """Where its time went."""
        return self._call(calls.receipt(job_id))

    def audit(self, job_id: str) -> dict[str, Any]:
        """Its whole history as one document that proves itself."""
        return self._call(calls.audit(job_id))

    def cancel(self, job_id: str, *, reason: str | None = None) -> Job:
        return self._call(calls.control(job_id, "cancel", reason))

    def pause(self, job_id: str, *, reason: str | None = None) -> Job:
        return self._call(calls.control(job_id, "pause", reason))

    def resume(self, job_id: str, *, reason: str | None = None) -> Job:
        return self._call(calls.control(job_id, "resume", reason))

    def redrive(self, job_id: str, *, reason: str | None = None) -> Job:
        """The new job that takes a failed or cancelled one up again; asked again, the same one."""
        return self._call(calls.redrive(job_id, reason))

    def rejected(self, *, day: date | None = None, limit: int | None = None) -> Iterator[RejectedLine]:
        """Messages that no job could take, newest first; `day` is one of the UTC calendar, None: today's."""
        return self._iterate(series.rejected(day, limit, self._retries))

    def rejected_message(self, rejected_id: str) -> RejectedMessage:
        """With its body, and what would happen if it came now."""
        return self._call(calls.rejected_message(rejected_id))

    def redrive_rejected(self, rejected_id: str) -> RejectedMessage:
        return self._call(calls.redrive_rejected(rejected_id))

    def reconcile(self, *, dry_run: bool = False) -> Reconciled:
        """A pass of the sweeper, now."""
        return self._call(calls.reconcile(dry_run=dry_run))

    def live(self) -> Live:
        return self._call(calls.live())

    def ready(self) -> Ready:
        """Raises Unavailable where something that LUCIUS needs does not answer."""
        return self._call(calls.ready())

    def _call(self, call: Call[T]) -> T:
        return call.read(self._run(send(call.request, self._retries)))

    def _iterate(self, source: Series[T]) -> Iterator[T]:
        while source.more:
            yield from self._run(source.next())

    def _run(self, flow: Flow[T]) -> T:
        outcome: Response | NoResponse | None = None
        try:
            step = next(flow)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    outcome = None
                else:
                    outcome = self._send(step)
                step = flow.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, request: Request) -> Response | NoResponse:
        token = configuration.token_of(self._token)
        try:
            response = self._http.request(
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
