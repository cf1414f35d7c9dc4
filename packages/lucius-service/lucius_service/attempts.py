"""Attempts from ACK to RESULT: the bounded queue, the heartbeats, the limits."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span

from lucius_service import replies, tracing
from lucius_service.directive import DIRECTIVE_TOPIC_PREFIX, Directive
from lucius_service.errors import CANCELLED, LIMIT_EXCEEDED, SERVICE_FAULT, FailedFinal, FailedRetry, StepFailed
from lucius_service.log_lines import attempt_ids
from lucius_service.replies import ReplySender
from lucius_service.results import ResultStore, check_places, publish_result
from lucius_service.work import Work, Worker
from lucius_service.workspace_io import Workspace

log = logging.getLogger(__name__)

#: seconds for the work to stop by itself once `cancelled` is set
STOP_GRACE_S = 2.0
#: maximum steps whose newest attempt is remembered, so that an older one is not worked on
MAX_REMEMBERED = 10_000
MAX_LOG_LINE = 2000


@dataclass(frozen=True)
class Limits:
    """Limits of the work: queue, concurrency and times."""

    #: maximum attempts that wait for a worker
    queue_size: int
    #: maximum attempts in progress
    workers: int
    #: seconds between heartbeats, if `heartbeat_by` returns none
    heartbeat_s: float
    #: maximum seconds of the work
    attempt_max_s: float
    #: maximum seconds without a report of the work; None means no limit
    silent_s: float | None
    #: returns the seconds between heartbeats for a payload
    heartbeat_by: Callable[[Any], float | None] | None = None

    def heartbeat_of(self, directive: Directive) -> float:
        """Returns the seconds between the heartbeats of an attempt."""
        by_payload = self.heartbeat_by(directive.payload) if self.heartbeat_by is not None else None
        return by_payload or self.heartbeat_s


@dataclass(eq=False)
class Attempt:
    """An attempt in flight in this process, and the `Watch` of the attempt's work."""

    directive: Directive
    #: set once the RESULT is published, or the attempt is abandoned or replaced by a newer one; only then its messages
    #: are settled
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    #: `True` if the shutdown came before the work began; its messages are abandoned, so that another process receives
    #: them
    abandoned: bool = False
    #: reason why the work need not continue; None if it continues
    stopped: StepFailed | None = None
    #: set with `stopped`
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    #: `True` once a newer attempt of its step has arrived, so that no reply of this one can count
    superseded: bool = False
    #: set to end the heartbeats
    stop_heartbeats: asyncio.Event = field(default_factory=asyncio.Event)
    #: task that sends the heartbeats; the RESULT waits for its end, so that no heartbeat follows it
    heartbeats: asyncio.Task[None] | None = None
    #: completed share of the work, 0 to 1
    progress: float = 0.0
    #: current activity of the work, for people
    note: str = "waiting"
    #: time of the last report of the work, by `time.monotonic`
    heard_at: float = 0.0
    #: span from arrival to end; parent of the spans of the replies and of the work
    span: Span = trace.INVALID_SPAN

    def report(self, progress: float, note: str) -> None:
        self.progress, self.note = min(max(progress, 0.0), 1.0), note
        self.still_working()

    def still_working(self) -> None:
        self.heard_at = time.monotonic()

    def log(self, line: str) -> None:
        self.still_working()
        log.info("%s: %s", self.directive.stepId, line[:MAX_LOG_LINE], extra=attempt_ids(self.directive))

    @property
    def cancelled(self) -> bool:
        return self.stopped is not None

    def stop(self, why: StepFailed) -> None:
        """Stops the work. The first call sets the reason `why`. Must be called on the event loop."""
        if self.stopped is None:
            self.stopped = why
            self.stopping.set()


class Attempts:
    """All attempts in flight in this process."""

    def __init__(
        self, worker: Worker, sender: ReplySender, workspace: Workspace, limits: Limits, result_name: str = ""
    ) -> None:
        """Sets the limits and parts. `lucius_service.step.Declared` describes `result_name`."""
        self._worker = worker
        self._sender = sender
        self._workspace = workspace
        self._store = ResultStore(workspace, result_name)
        self._limits = limits
        self._waiting: asyncio.Queue[Attempt] = asyncio.Queue()
        self._in_flight: dict[str, Attempt] = {}
        #: number of the newest attempt by job and step
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def is_full(self) -> bool:
        """Returns True if the queue is full. The service must then stop receiving. Each lane can exceed the limit by
        one message.
        """
        return self._waiting.qsize() >= self._limits.queue_size

    async def take(self, directive: Directive) -> Attempt:
        """Acknowledges the directive, queues its work and returns the attempt. For a duplicate, acknowledges the
        directive again and returns the attempt in flight.

        An attempt ends immediately, without a reply, if a newer attempt of the step is known. During a shutdown, the
        attempt is acknowledged and abandoned.
        """
        attempt = self._in_flight.get(directive.key)
        if attempt is not None:
            await self._acknowledge(attempt)
            return attempt
        span = tracing.start_processing_span(directive, f"{DIRECTIVE_TOPIC_PREFIX}{directive.lane}")
        attempt = Attempt(directive, span=span)
        if self._is_stale(directive):
            log.info("%s step %s: ended an attempt, because a newer attempt exists", directive.jobId, directive.stepId)
            self._end(attempt)
            return attempt
        self._in_flight[directive.key] = attempt
        await self._acknowledge(attempt)
        attempt.heartbeats = self._spawn(self._heartbeats(attempt))
        if self._stopping:
            self._abandon(attempt)
        else:
            self._waiting.put_nowait(attempt)
        return attempt

    def _is_stale(self, directive: Directive) -> bool:
        """Returns True if a newer attempt of the step is known. Otherwise, stops the work on older attempts."""
        step = (directive.jobId, directive.stepId)
        newest = self._newest.get(step, 0)
        if directive.attempt_no < newest:
            return True
        self._newest[step] = directive.attempt_no
        self._newest.move_to_end(step)
        if len(self._newest) > MAX_REMEMBERED:
            self._newest.popitem(last=False)
        for other in self._in_flight.values():
            its = other.directive
            if (its.jobId, its.stepId) == step and its.attempt_no < directive.attempt_no:
                other.superseded = True
                other.stop(FailedRetry(CANCELLED, "a newer attempt of the step has begun"))
        return False

    async def _acknowledge(self, attempt: Attempt) -> None:
        with trace.use_span(attempt.span):
            sent = await replies.publish(self._sender, attempt.directive, replies.ack(attempt.directive))
        if sent.stop is not None:
            attempt.stop(sent.stop)

    def start(self) -> None:
        """Starts the workers."""
        for _ in range(self._limits.workers):
            self._spawn(self._work())

    async def stop(self, grace_s: float) -> bool:
        """Abandons waiting attempts and waits for attempts in progress. Returns `False` if an attempt still runs after
        `grace_s`.
        """
        self._stopping = True
        while not self._waiting.empty():
            self._abandon(self._waiting.get_nowait())
        waits = [asyncio.create_task(attempt.ended.wait()) for attempt in self._in_flight.values()]
        _, unfinished = await asyncio.wait(waits, timeout=grace_s) if waits else (set(), set())
        for wait in unfinished:
            wait.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return not unfinished

    async def _work(self) -> None:
        while True:
            attempt = await self._waiting.get()
            directive = attempt.directive
            began = time.monotonic()
            result = await self._result(attempt)
            attempt.stop_heartbeats.set()
            if attempt.heartbeats is not None:
                await attempt.heartbeats
            if not attempt.superseded:
                with trace.use_span(attempt.span):
                    await replies.publish(self._sender, directive, result)
            if "error" in result:
                tracing.mark_failed(attempt.span, result["error"]["code"])
            log.info(
                "%s step %s attempt %d: %s%s in %.1f s",
                directive.jobId,
                directive.stepId,
                directive.attempt_no,
                result["status"],
                f" {result['error']['code']}" if "error" in result else "",
                time.monotonic() - began,
                extra=attempt_ids(directive),
            )
            self._end(attempt)

    async def _result(self, attempt: Attempt) -> dict[str, Any]:
        """Returns the RESULT of the work, or the stored RESULT if the attempt has already ended."""
        directive = attempt.directive
        attempt.report(0.0, "working")
        began = time.monotonic()
        try:
            stored = await asyncio.to_thread(self._store.find, directive)
            if stored is not None:
                log.info(
                    "%s step %s attempt %d: found the stored RESULT, which the service sends",
                    *(directive.jobId, directive.stepId, directive.attempt_no),
                    extra=attempt_ids(directive),
                )
                return stored
            check_places(directive, self._workspace)
            with tracing.execution_span(directive, attempt.span):
                done = await self._limited(attempt)
            result = replies.succeeded(directive, done)
            replies.check_size(result)
            result = await asyncio.to_thread(publish_result, directive, result, self._workspace)
        except StepFailed as fault:
            result = replies.failed(directive, attempt.stopped or fault)
        except Exception as error:
            log.exception(
                "%s step %s attempt %d failed",
                *(directive.jobId, directive.stepId, directive.attempt_no),
                extra=attempt_ids(directive),
            )
            what = f"the {directive.step_type} service failed ({type(error).__name__})"
            result = replies.failed(directive, attempt.stopped or FailedRetry(SERVICE_FAULT, what))
        result["metrics"] = result.get("metrics", {}) | {"duration_s": round(time.monotonic() - began, 3)}
        try:
            return await asyncio.to_thread(self._store.keep, directive, result)
        except Exception as error:
            # without the record, a redelivery repeats the work, which is allowed; the RESULT is published anyway. An
            # error here would end the worker, while the attempt's heartbeats continue
            log.warning(
                "%s step %s: could not store the RESULT; a redelivery repeats the work: %s",
                *(directive.jobId, directive.stepId, error),
                extra=attempt_ids(directive),
            )
            return result

    async def _limited(self, attempt: Attempt) -> Work:
        """Runs the work until the work ends or must stop. After a stop, the work has `STOP_GRACE_S` seconds to end.
        Raises errors of the work. Raises the reason of the stop if the work has not begun or does not end.
        """
        if attempt.stopped is not None:
            raise attempt.stopped
        began = time.monotonic()
        run = asyncio.create_task(self._worker.run(attempt.directive, attempt, attempt.stopping))
        stopping = asyncio.create_task(attempt.stopping.wait())
        try:
            while not run.done() and attempt.stopped is None:
                await asyncio.wait(
                    {run, stopping}, timeout=self._check_limits(attempt, began), return_when=asyncio.FIRST_COMPLETED
                )
            await asyncio.wait({run}, timeout=STOP_GRACE_S)
            if run.done():
                return run.result()
            assert attempt.stopped is not None
            raise attempt.stopped
        finally:
            stopping.cancel()
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)

    def _check_limits(self, attempt: Attempt, began: float) -> float:
        """Stops an attempt that has reached a limit. Otherwise, returns the seconds until the attempt can reach a
        limit.
        """
        limits, now = self._limits, time.monotonic()
        left_s = began + limits.attempt_max_s - now
        if left_s <= 0:
            attempt.stop(FailedFinal(LIMIT_EXCEEDED, f"the work took longer than {limits.attempt_max_s:g} s"))
        elif limits.silent_s is not None:
            heard_s = attempt.heard_at + limits.silent_s - now
            if heard_s <= 0:
                attempt.stop(FailedFinal(LIMIT_EXCEEDED, f"the work reported nothing for {limits.silent_s:g} s"))
            left_s = min(left_s, heard_s)
        return max(left_s, 0.0)

    async def _heartbeats(self, attempt: Attempt) -> None:
        """Sends heartbeats until the work ends or must stop, so that stuck work does not keep its lease."""
        every_s = self._limits.heartbeat_of(attempt.directive)
        while not attempt.stop_heartbeats.is_set():
            try:
                await asyncio.wait_for(attempt.stop_heartbeats.wait(), every_s)
            except TimeoutError:
                if attempt.stopped is not None:
                    continue
                directive = attempt.directive
                beat = replies.heartbeat(directive, attempt.progress, attempt.note)
                # one try, since the next heartbeat replaces a lost one
                with trace.use_span(attempt.span):
                    sent = await self._sender.send(directive, beat)
                if sent.stop is not None:
                    attempt.stop(sent.stop)

    def _abandon(self, attempt: Attempt) -> None:
        attempt.abandoned = True
        self._end(attempt)

    def _end(self, attempt: Attempt) -> None:
        attempt.stop_heartbeats.set()
        attempt.span.end()
        self._in_flight.pop(attempt.directive.key, None)
        attempt.ended.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
