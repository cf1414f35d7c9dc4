"""The synchronous client: `with Client(url) as lucius: ...`.

The module only sends and sleeps. `lucius_client.calls` builds the requests, `lucius_client.retry` repeats requests, and
`lucius_client.series` connects the requests of a list or of a long poll. `lucius_client.async_client` does the same on
asyncio. A test checks that the signatures and docstrings of both modules are equal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from types import TracebackType
from typing import Any, BinaryIO, TypeVar, Unpack

import httpx

from lucius_client import calls, configuration, replay_calls, series
from lucius_client.calls import Call, EnvelopeLike, Submitted
from lucius_client.configuration import DEFAULT_URL, TIMEOUT_S, Token
from lucius_client.errors import BadAddress
from lucius_client.exchange import Flow, NoResponse, Pause, Request, Response
from lucius_client.filters import JobFilter
from lucius_client.governance import Governance
from lucius_client.job_stream import JobEvents
from lucius_client.models import (
    BatchOutcome,
    Bulk,
    Comparison,
    DeadLetter,
    DryRun,
    Event,
    Explanation,
    Job,
    JobLine,
    Live,
    Protocol,
    ProtocolVersions,
    Ready,
    Receipt,
    ReceiptSums,
    Reconciled,
    RejectedLine,
    RejectedMessage,
    RelatedJob,
    Replay,
)
from lucius_client.results import Result, read_result
from lucius_client.retry import Retries, send
from lucius_client.runs import Runs
from lucius_client.series import Series
from lucius_client.webhooks import Webhooks

T = TypeVar("T")


class Client(Governance, Runs, Webhooks):
    """A client of one API.

    `url` is the root of the API. `token` is the bearer token, or a function that returns the token before each request.
    `retries` limits the repetitions of a request. `timeout_s` limits the seconds for connecting and between two
    received bytes.

    `transport` replaces the transport of httpx, for tests and for proxies. The client ignores proxies that the
    environment names.

    Methods raise subclasses of `LuciusError`. An error of the API raises `Refused` or a subclass. A missing response
    raises `Unreachable`, and a response of another form raises `NotLucius`.

    The constructor or the first request raises `BadAddress` if `url` is not an HTTP URL. An iterator sends its
    requests, and raises errors, while the caller consumes the iterator.
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
        """Closes all connections."""
        self._http.close()

    def submit(self, envelope: EnvelopeLike, *, wait: int = 0) -> Submitted:
        """Creates a job. A job request without `idempotency_key` gets a random key. If `idempotency_key` is None, the
        key is the hash of the fields that the API compares (docs/reference/api.md).

        `wait` is the maximum number of seconds, up to 20, for which the API delays its response until the job has
        ended. `ended` of the result is the job, or None if the job did not end in time or the API has too many waiting
        requests. After None, `wait(job_id)` continues the wait.
        """
        return self._call(calls.submit(envelope, wait))

    def submit_many(self, envelopes: Iterable[EnvelopeLike], *, dry_run: bool = False) -> BatchOutcome:
        """Creates up to 1,000 jobs in one request of up to 1 MiB. Each job request has its own outcome. With `dry_run`,
        writes nothing.
        """
        return self._call(calls.submit_many(envelopes, dry_run=dry_run))

    def dry_run(self, envelope: EnvelopeLike) -> DryRun:
        """Returns the effect that a submit of the job request has now. Writes nothing."""
        return self._call(calls.dry_run(envelope))

    def job(self, job_id: str, *, as_of: int | None = None) -> Job:
        """Returns a job with its steps. With `as_of`, the `seq` of an event, returns the job after that event."""
        return self._call(calls.job(job_id, as_of=as_of))

    def changes(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[Job]:
        """Yields the job now and after each change until the job ends. Changes in quick succession can be one item.
        Raises WaitTimeout after `timeout_s` seconds. Default: no time limit.
        """
        return self._iterate(series.Changes(job_id, timeout_s, self._retries))

    def wait(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """Returns the job after the job has ended, in any terminal state. Raises WaitTimeout after `timeout_s` seconds.
        Default: no time limit.
        """
        changes = series.Changes(job_id, timeout_s, self._retries, until="ended")
        return list(self._iterate(changes))[-1]

    def wait_admitted(self, job_id: str, *, timeout_s: float | None = None) -> Job:
        """Returns the job after the job is admitted or has ended. Raises WaitTimeout after `timeout_s` seconds.
        Default: no time limit.
        """
        changes = series.Changes(job_id, timeout_s, self._retries, until="admitted")
        return list(self._iterate(changes))[-1]

    def jobs(self, *, limit: int | None = None, **filters: Unpack[JobFilter]) -> Iterator[JobLine]:
        """Lists jobs, newest first. `label` is `key:value`. `since` and `until` (exclusive) limit the time of creation.

        `limit` is the maximum number of jobs. Fetches pages on demand. Raises ValueError for a time without time zone.
        """
        return self._iterate(series.jobs(filters, limit, self._retries))

    def events(self, job_id: str, *, limit: int | None = None) -> Iterator[Event]:
        """Lists the events of a job, in order."""
        return self._iterate(series.events(job_id, limit, self._retries))

    def follow(self, job_id: str) -> Iterator[Event]:
        """Yields the events of a job from the first event on, as the events happen, until the job has ended."""
        return self._iterate(JobEvents(job_id, self._retries))

    def dead_letters(self, *, limit: int | None = None, **filters: Unpack[JobFilter]) -> Iterator[DeadLetter]:
        """Lists failed jobs that are neither redriven nor dismissed, most recent first.

        `label` is `key:value`. `since` and `until` (exclusive) limit the time of creation. Raises ValueError for a time
        without time zone.
        """
        return self._iterate(series.dead_letters(filters, limit, self._retries))

    def dismiss_dead_letter(self, job_id: str, *, reason: str) -> Job:
        """Dismisses a dead letter and its open incident. The job can still be redriven."""
        return self._call(calls.dismiss_dead_letter(job_id, reason))

    def protocols(self) -> Iterator[Protocol]:
        """Lists the protocols that a job can request."""
        return self._iterate(series.protocols(self._retries))

    def protocol(self, name: str) -> Protocol:
        """Returns a protocol by its job type or its protocol id."""
        return self._call(calls.protocol(name))

    def protocol_versions(self, name: str) -> ProtocolVersions:
        """Returns every version of a protocol that the app has ever loaded. Each version has its number of jobs
        that have not ended, which can be several minutes old.

        The number is None before the first sweep, and if the caller does not see all tenants.
        """
        return self._call(calls.protocol_versions(name))

    def explain(self, job_id: str) -> Explanation:
        """Explains a job's state. The result has the condition that the job waits for, the time limit of the wait, and
        the effect of the limit.
        """
        return self._call(calls.explain(job_id))

    def receipt(self, job_id: str) -> Receipt:
        """Returns a job's time by phase: queue, ACK, service, backoff, backlog, quotas, dependencies and pauses."""
        return self._call(calls.receipt(job_id))

    def audit(self, job_id: str) -> dict[str, Any]:
        """Returns the audit bundle of a job, which `lucius audit verify` verifies offline."""
        return self._call(calls.audit(job_id))

    def audit_heads(
        self, *, tenant: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[dict[str, Any]]:
        """Lists signed pages of heads for a window, as plain JSON. Each page has an `envelope`. Raises NotFound if the
        API signs no heads. Raises Conflicting if the window's heads are incomplete or no longer retained, or if the
        tenant has no heads.
        """
        return self._iterate(
            series.Pages("/v1/audit/heads", {"tenant": tenant, "since": since, "until": until}, self._retries)
        )

    def audit_anchors(
        self, *, tenant: str | None = None, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[dict[str, Any]]:
        """Lists pages of signed anchors, as plain JSON. Each page has `anchors`. An anchor is for one UTC day. Default:
        the last 31 days.

        Raises NotFound if the API signs no heads.
        """
        return self._iterate(
            series.Pages("/v1/audit/anchors", {"tenant": tenant, "since": since, "until": until}, self._retries)
        )

    def audit_keys(self) -> dict[str, Any]:
        """Returns the public keys of heads and anchors, as plain JSON, including retired keys. Raises NotFound if the
        API signs no heads.
        """
        return self._call(calls.audit_keys())

    def result(self, job: str | Job, *, out: BinaryIO | None = None, credential: Any = None) -> Result:
        """Reads the content of `final_output` of a job, with the caller's own credential. `job` is a model or an id.

        `out` is a binary file that gets the content in pieces. If `out` is None, `content` of the result has the
        content, up to 64 MiB. `credential` is a credential of azure-identity, or a connection string for the blobs of
        one account. If `credential` is None, the client uses Azurite's key for Azurite on this machine, else
        `DefaultAzureCredential`.

        Needs the extra `lucius-client[results]`. Raises NoResult if the job has not ended or did not succeed. Raises
        ResultGone, ResultForbidden, ResultUnreadable or StoreUnreachable if the content cannot be read.
        """
        return read_result(self.job(job) if isinstance(job, str) else job, out, credential)

    def cancel(self, job_id: str, *, reason: str | None = None) -> Job:
        """Cancels a job. LUCIUS waits for attempts in flight."""
        return self._call(calls.control(job_id, "cancel", reason))

    def pause(self, job_id: str, *, reason: str | None = None) -> Job:
        """Pauses a job. Attempts in flight finish, and no attempt starts."""
        return self._call(calls.control(job_id, "pause", reason))

    def resume(self, job_id: str, *, reason: str | None = None) -> Job:
        """Resumes a paused job, or withdraws the pause of a pausing job."""
        return self._call(calls.control(job_id, "resume", reason))

    def admit(self, job_id: str, *, reason: str) -> Job:
        """Admits a waiting job past its quotas, once. Requires an operator. Raises Conflicting if the job waits for
        other jobs, is paused or has ended.
        """
        return self._call(calls.control(job_id, "admit", reason))

    def set_priority(self, job_id: str, priority: str, *, reason: str) -> Job:
        """Sets the priority of a waiting job to low, normal, high or emergency. The priority changes the job's queue
        position.
        """
        return self._call(calls.set_priority(job_id, priority, reason))

    def redrive(self, job_id: str, *, reason: str | None = None, ignore_dependencies: bool = False) -> Job:
        """Redrives a failed or cancelled job as a new job. Idempotent: a repeated call returns the same new job."""
        return self._call(calls.redrive(job_id, reason, ignore_dependencies=ignore_dependencies))

    def redrive_tree(self, job_id: str, *, reason: str | None = None) -> Bulk:
        """Redrives a job and every job that failed because of that job, as a bulk operation. The first item is the job
        itself.
        """
        return self._call(calls.redrive_tree(job_id, reason))

    def replay(
        self, job_id: str, *, reason: str, mode: str = "rerun", priority: str | None = None, key: str | None = None
    ) -> Replay:
        """Runs an ended job again from its first step, as a new job. `mode` is `rerun` or `compare`.

        Idempotent: a call with the same `key`, or without `key` with the same arguments, returns the same new job.
        """
        return self._call(replay_calls.replay(job_id, reason, mode, priority, key))

    def comparison(self, job_id: str) -> Comparison:
        """Returns the comparison of each step of a replay with the same step of the original job, by digests."""
        return self._call(replay_calls.comparison(job_id))

    def dependencies(self, job_id: str) -> list[RelatedJob]:
        """Returns the dependencies of a job, with their states."""
        return self._call(calls.dependencies(job_id)).dependencies

    def dependants(self, job_id: str, *, limit: int | None = None) -> Iterator[RelatedJob]:
        """Lists the jobs that wait for a job. If the job did not succeed, lists the jobs that waited for the job."""
        return self._iterate(series.dependants(job_id, limit, self._retries))

    def receipts(
        self,
        *,
        tenant_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        by: str | None = None,
    ) -> Iterator[ReceiptSums]:
        """Yields sums of the time and attempts of a tenant's jobs that are not archived, newest first. Each page has up
        to 100 jobs.

        `since` and `until` (exclusive) limit the time of creation. `by` is `type`, `source` or `priority`. Callers
        without a tenant must set `tenant_id`.
        """
        query = {"tenant_id": tenant_id, "since": since, "until": until, "by": by, "limit": series.PAGE}
        return self._iterate(series.Sums(query, self._retries))

    def rejected(
        self, *, tenant: str | None = None, day: date | None = None, limit: int | None = None
    ) -> Iterator[RejectedLine]:
        """Lists messages that no job could accept, newest first. `day` selects the messages of that UTC day.

        Default: the last 90 days.
        """
        return self._iterate(series.rejected(tenant, day, limit, self._retries))

    def rejected_message(self, rejected_id: str) -> RejectedMessage:
        """Returns a rejected message with its body. `what_if` is the outcome that a redrive has now."""
        return self._call(calls.rejected_message(rejected_id))

    def redrive_rejected(self, rejected_id: str) -> RejectedMessage:
        """Applies a rejected message to its job again. `redriven_outcome` of the result is the outcome. Raises
        Conflicting if still no job can accept the message.
        """
        return self._call(calls.redrive_rejected(rejected_id))

    def reconcile(self, *, dry_run: bool = False) -> Reconciled:
        """Runs the sweeper once. With `dry_run`, lists the due actions and changes nothing."""
        return self._call(calls.reconcile(dry_run=dry_run))

    def live(self) -> Live:
        """Checks that the API runs. Raises Unreachable if the API does not respond."""
        return self._call(calls.live())

    def ready(self) -> Ready:
        """Returns the state of each dependency. Raises Unavailable if a dependency does not respond."""
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
