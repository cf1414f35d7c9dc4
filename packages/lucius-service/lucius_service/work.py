"""Executes the work of one attempt, on a thread or in a child process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from lucius_service.directive import Directive
from lucius_service.step import Outcome, Step, Task, Watch
from lucius_service.workspace_io import Workspace


@dataclass(frozen=True)
class Work:
    """The result of a successful step, with the data about its blobs for the RESULT."""

    result_ref: str
    metrics: dict[str, Any]
    #: `name, uri, media_type, size, sha256` of each artifact
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    input_digests: dict[str, str] = field(default_factory=dict)
    #: digests of the result, as in `result_ref`; empty if the step did not write it
    digests: dict[str, str] = field(default_factory=dict)


def work(step: Step, directive: Directive, workspace: Workspace, watch: Watch) -> Work:
    """Validates the payload and executes the step. Raises StepFailed, and any error of a bug in the step."""
    task = Task(directive, step.validate(directive.payload), workspace, watch)
    outcome: Outcome = step.execute(task)
    digest = task.written.get(outcome.result_ref)
    return Work(
        outcome.result_ref,
        outcome.metrics,
        [asdict(each) for each in task.artifacts],
        task.input_digests,
        {} if digest is None else {"result_ref": digest},
    )


class Worker(Protocol):
    """A runner of the work of attempts. Cancelling `run` kills a child process, but no thread."""

    async def start(self) -> None:
        """Prepares the step. Raises errors of the step, or SettingsError if a child process cannot be prepared."""

    async def run(self, directive: Directive, watch: Watch, stopping: asyncio.Event) -> Work:
        """Runs the work. `stopping` is set with `watch.cancelled`. Raises StepFailed, and any error of a bug in the
        step.
        """

    async def close(self) -> None:
        """Ends child processes. Threads end with the process."""


class ThreadWorker:
    """A worker that runs each attempt on its own thread. A thread cannot be killed, so work that does not stop
    continues to run.
    """

    def __init__(self, step: Step, workspace: Workspace) -> None:
        self._step = step
        self._workspace = workspace

    async def start(self) -> None:
        await asyncio.to_thread(self._step.prepare)

    async def run(self, directive: Directive, watch: Watch, stopping: asyncio.Event) -> Work:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Work] = loop.create_future()

        def settle(result: Work | None, error: BaseException | None) -> None:
            if done.done():
                return  # it was left running
            if result is not None:
                done.set_result(result)
            elif error is not None:
                done.set_exception(error)

        def body() -> None:
            result: Work | None = None
            error: BaseException | None = None
            try:
                result = work(self._step, directive, self._workspace, watch)
            except StopIteration as stopped:  # a future cannot hold it
                error = RuntimeError(repr(stopped))
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, error)

        context = contextvars.copy_context()
        name = f"{self._step.step_type.lower()}-{directive.jobId[:36]}"
        threading.Thread(target=lambda: context.run(body), name=name, daemon=True).start()
        return await done

    async def close(self) -> None:
        """Does nothing, since threads end with the process."""
