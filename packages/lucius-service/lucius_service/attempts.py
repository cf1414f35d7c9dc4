"""One attempt from its ACK to its RESULT: the bounded queue, the workers, the heartbeats."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span

from lucius_service import replies, tracing
from lucius_service.directive import DIRECTIVE_TOPIC_PREFIX, Directive
from lucius_service.errors import SERVICE_FAULT, FailedRetry, StepFailed
from lucius_service.log_lines import attempt_ids
from lucius_service.replies import ReplyPublisher
from lucius_service.results import ResultStore, check_places, publish_result
from lucius_service.step import Step, Task
from lucius_service.workspace_io import Workspace

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Attempt:
    """One attempt in flight in this process."""

    directive: Directive
    #: set once the RESULT is published, or the attempt is abandoned; its messages are settled after that, never before
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    #: the shutdown came before the work began; its messages are abandoned, so that another process receives them
    abandoned: bool = False
    #: set to end the heartbeats
    stop_heartbeats: asyncio.Event = field(default_factory=asyncio.Event)
    #: sends the heartbeats; the RESULT waits for its end, so that no heartbeat follows the RESULT
    heartbeats: asyncio.Task[None] | None = None
    #: share of the work that is done, 0 to 1
    progress: float = 0.0
    #: what the work does now, for people
    note: str = "waiting"
    #: from arrival to end; parent of the spans of the replies and of the work
    span: Span = trace.INVALID_SPAN

    def report(self, progress: float, note: str) -> None:
        """Sets what the next heartbeat carries."""
        self.progress, self.note = min(max(progress, 0.0), 1.0), note


class Attempts:
    """All attempts in flight in this process, and the threads that work on them."""

    def __init__(
        self,
        step: Step,
        publisher: ReplyPublisher,
        workspace: Workspace,
        *,
        queue_size: int,
        workers: int,
        heartbeat_s: float,
    ) -> None:
        self._step = step
        self._publisher = publisher
        self._workspace = workspace
        self._store = ResultStore(workspace)
        self._queue_size = queue_size
        self._heartbeat_s = heartbeat_s
        self._waiting: asyncio.Queue[Attempt] = asyncio.Queue()
        self._in_flight: dict[str, Attempt] = {}
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=step.step_type.lower())
        self._workers = workers
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def is_full(self) -> bool:
        """The queue is full: receive no more. Each lane may exceed it by the one message it was waiting for."""
        return self._waiting.qsize() >= self._queue_size

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    async def take(self, directive: Directive) -> Attempt:
        """Acknowledges the directive and queues its work. A duplicate of one in flight gets that attempt."""
        attempt = self._in_flight.get(directive.key)
        if attempt is None:
            span = tracing.start_processing_span(directive, f"{DIRECTIVE_TOPIC_PREFIX}{directive.lane}")
            attempt = Attempt(directive, span=span)
            self._in_flight[directive.key] = attempt
            await self._acknowledge(attempt)
            attempt.heartbeats = self._spawn(self._heartbeats(attempt))
            if self._stopping:
                await self._abandon(attempt)
            else:
                self._waiting.put_nowait(attempt)
        else:
            await self._acknowledge(attempt)
        return attempt

    async def _acknowledge(self, attempt: Attempt) -> None:
        with trace.use_span(attempt.span):
            await self._publisher.publish(attempt.directive.lane, replies.ack(attempt.directive))

    def start(self) -> None:
        """Starts the workers."""
        for _ in range(self._workers):
            self._spawn(self._work())

    async def stop(self, grace_s: float) -> bool:
        """Abandons the attempts that have not begun and waits for the rest. False: one still runs after `grace_s`."""
        self._stopping = True
        while not self._waiting.empty():
            await self._abandon(self._waiting.get_nowait())
        waits = [asyncio.create_task(attempt.ended.wait()) for attempt in self._in_flight.values()]
        _, unfinished = await asyncio.wait(waits, timeout=grace_s) if waits else (set(), set())
        for wait in unfinished:
            wait.cancel()
        finished = not unfinished
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=finished, cancel_futures=True)
        return finished

    async def _work(self) -> None:
        while True:
            attempt = await self._waiting.get()
            directive = attempt.directive
            began = time.monotonic()
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self._threads, self._result, attempt)
            attempt.stop_heartbeats.set()
            if attempt.heartbeats is not None:
                await attempt.heartbeats
            with trace.use_span(attempt.span):
                await self._publisher.publish(directive.lane, result)
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

    def _result(self, attempt: Attempt) -> dict[str, Any]:
        """Does the work on a worker thread and gives its RESULT; the stored RESULT where the attempt ended before."""
        directive = attempt.directive
        attempt.report(0.0, "working")
        began = time.monotonic()
        try:
            stored = self._store.find(directive)
            if stored is not None:
                log.info(
                    "%s step %s attempt %d ended before",
                    *(directive.jobId, directive.stepId, directive.attempt_no),
                    extra=attempt_ids(directive),
                )
                return stored
            check_places(directive, self._workspace)
            payload = self._step.validate(directive.payload)
            with tracing.execution_span(directive, attempt.span):
                outcome = self._step.execute(Task(directive, payload, self._workspace, attempt.report))
            result = publish_result(directive, replies.succeeded(directive, outcome), self._workspace)
        except StepFailed as fault:
            result = replies.failed(directive, fault)
        except Exception as error:
            log.exception(
                "%s step %s attempt %d",
                *(directive.jobId, directive.stepId, directive.attempt_no),
                extra=attempt_ids(directive),
            )
            what = f"the {self._step.step_type} service failed ({type(error).__name__})"
            result = replies.failed(directive, FailedRetry(SERVICE_FAULT, what))
        result["metrics"] = result.get("metrics", {}) | {"duration_s": round(time.monotonic() - began, 3)}
        try:
            return self._store.keep(directive, result)
        except (StepFailed, ValueError) as error:
            # without the record a redelivery repeats the work, which is allowed; the RESULT is published all the same
            log.warning(
                "%s step %s: RESULT not recorded: %s",
                *(directive.jobId, directive.stepId, error),
                extra=attempt_ids(directive),
            )
            return result

    async def _heartbeats(self, attempt: Attempt) -> None:
        while not attempt.stop_heartbeats.is_set():
            try:
                await asyncio.wait_for(attempt.stop_heartbeats.wait(), self._heartbeat_s)
            except TimeoutError:
                directive = attempt.directive
                beat = replies.heartbeat(directive, attempt.progress, attempt.note)
                # one try: a lost heartbeat is followed by the next
                with trace.use_span(attempt.span):
                    await self._publisher.try_publish(directive.lane, beat)

    async def _abandon(self, attempt: Attempt) -> None:
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
