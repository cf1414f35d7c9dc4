"""Durable Functions in virtual time: each orchestration is a task with the steps of `orchestrations/step.py`."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from shared.core.jobs import durable_names
from shared.core.jobs.verdict import NOTHING_SHOWN, Shown, VerdictKind
from shared.errors import InstanceEnded, InstanceNotFound
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.settle_step import settle_step
from shared.operations.process.context import Context
from shared.ports.durable import Instance, InstanceState
from tape.scheduler import Scheduler


class Process(Protocol):
    """The parts of the app that an activity uses."""

    scheduler: Scheduler
    context: Context
    sent: Counter[str]

    @property
    def orchestrations(self) -> Orchestrations:
        """The durable client."""

    def note_raised(self, name: str, error: Exception) -> None:
        """A function raised."""


class Orchestrations:
    """See `shared.ports.durable.Orchestrations`."""

    def __init__(self, app: Process) -> None:
        self._app = app
        self._instances: dict[str, _Instance] = {}
        self._lost = False

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        if "_rescued_" in instance_id and not self._lost:
            # the first start is lost on its way: the sweeper makes up for it
            self._lost = True
        elif instance_id not in self._instances:
            self._app.sent[plan["job_id"]] += 1
            one = self._instances[instance_id] = _Instance(self._app, instance_id, plan)
            self._app.scheduler.spawn(one.run())

    async def look_up(self, instance_id: str) -> Instance:
        if (one := self._instances.get(instance_id)) is None:
            return Instance(InstanceState.NOT_FOUND)
        return Instance(InstanceState.ENDED if one.ended else InstanceState.ALIVE, one.shown)

    async def terminate(self, instance_id: str, reason: str) -> None:
        return

    async def purge(self, instance_id: str) -> bool:
        if (one := self._instances.get(instance_id)) is not None and not one.ended:
            return False
        self._instances.pop(instance_id, None)
        return True

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        if (one := self._instances.get(instance_id)) is None:
            raise InstanceNotFound(instance_id)
        if one.ended:
            raise InstanceEnded(instance_id)
        one.hear(name, data)


class _Instance:
    """One orchestration."""

    def __init__(self, app: Process, instance_id: str, plan: dict[str, Any]) -> None:
        self._app, self._id, self._plan = app, instance_id, plan
        self._events: dict[str, dict[str, Any]] = {}
        self._waits: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        self._look_no = 1
        self.shown = NOTHING_SHOWN
        self.ended = False

    def hear(self, name: str, data: dict[str, Any]) -> None:
        self._events[name] = data
        for wake in self._waits.pop(name, []):
            wake()

    async def run(self) -> None:
        for step_id in self._plan["steps"]:
            if not await self._step(step_id):
                break
        self.ended = True

    async def _step(self, step_id: str) -> bool:
        """Runs a step. Returns whether the next step follows."""
        verdict = await self._ask(dispatch_step, step_id)
        while True:
            kind, attempt_no = VerdictKind(verdict["verdict"]), verdict.get("attempt_no", 0)
            self.shown = Shown(step_id, attempt_no, kind.value, self._look_no)
            if kind in (VerdictKind.END, VerdictKind.SKIP):
                return kind is VerdictKind.SKIP
            result = durable_names.result_event(step_id, attempt_no)
            names = [
                result,
                durable_names.ack_event(step_id, attempt_no),
                durable_names.result_event(step_id, attempt_no + 1),
            ]
            if kind is VerdictKind.PARK:
                names = [durable_names.resume_event(verdict["park_no"])]
            heard, data = await self._wait(names, verdict.get("until"))
            if data.get("next") == "END":
                return False
            if heard == result and data.get("next") == "NEXT":
                return True
            if heard == names[-1] or (heard is None and kind in (VerdictKind.BACKOFF, VerdictKind.GATED)):
                verdict = await self._ask(dispatch_step, step_id)
            elif heard in names and data.get("until"):
                verdict = {"verdict": VerdictKind.AWAIT_RESULT, "attempt_no": attempt_no, "until": data["until"]}
            else:
                verdict = await self._ask(settle_step, step_id, attempt_no=attempt_no)

    async def _ask(self, activity: Callable[..., Awaitable[Any]], step_id: str, **fields: Any) -> dict[str, Any]:
        job_id, app = self._plan["job_id"], self._app
        while True:
            try:
                found = await activity(
                    app.context, app.orchestrations, job_id=job_id, instance_id=self._id, step_id=step_id, **fields
                )
                return dict(found.to_json())
            except Exception as error:
                app.note_raised(f"{activity.__name__} of {job_id}", error)
            await app.scheduler.pause(5)

    async def _wait(self, names: Sequence[str], until: str | None) -> tuple[str | None, dict[str, Any]]:
        """Returns the event that came first, with its data; None: the time came first, or a wake-up of the sweeper."""
        scheduler = self._app.scheduler
        look = durable_names.look_event(self._look_no)
        due = datetime.fromisoformat(until) + timedelta(seconds=1) if until else None
        while True:
            for name in (*names, look):
                if name in self._events:
                    self._look_no += name == look
                    return (None if name == look else name), self._events.pop(name)
            if due is not None and scheduler.now >= due:
                return None, {}
            woken = asyncio.get_running_loop().create_future()
            wake = lambda woken=woken: woken.done() or woken.set_result(None)  # noqa: E731
            for name in (*names, look):
                self._waits[name].append(wake)
            if due is not None:
                scheduler.at(due, wake)
            await woken
