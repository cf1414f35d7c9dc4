"""The extension's side of a replay: the finished actions of an orchestrator, and the new decisions.

The out-of-process shim of the Durable extension gets the orchestrator's whole action list. The shim awaits the actions
one after another while it plays the history (sources: OutOfProcOrchestrationShim of the extension,
TaskOrchestrationContext of DurableTask.Core).

The orchestrator's code has played the same history before. If the code and the shim disagree about finished actions, an
instance hangs on Azure. `Outcome.stall` reports such an instance.
"""

from __future__ import annotations

import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from functions_emulator.durable.actions import (
    Action,
    Await,
    CallActivity,
    CallEntity,
    CallHttp,
    CallSubOrchestration,
    ContinueAsNew,
    CreateTimer,
    Reply,
    SignalEntity,
    WaitForEvent,
    WhenAll,
    WhenAny,
)
from functions_emulator.durable.clock import parse_stamp
from functions_emulator.durable.decisions import (
    Decision,
    ScheduleActivity,
    ScheduleSubOrchestration,
    ScheduleTimer,
    SendOperation,
)
from functions_emulator.durable.events import Event, Kind
from functions_emulator.durable.http_polls import DEFAULT_POLL_INTERVAL, next_poll
from functions_emulator.durable.stalls import Stall, describe_stall

#: name of the activity that the extension runs for `call_http`
HTTP_ACTIVITY = "BuiltIn::HttpActivity"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one episode."""

    #: new decisions, in the order of their ids
    decisions: tuple[Decision, ...]
    #: `True` if every action was awaited and nothing is open, so that a completion can take effect
    finished: bool
    continue_as_new: ContinueAsNew | None
    #: events after `continue_as_new`, for the next execution
    carried_over: tuple[Event, ...]
    suspended: bool
    #: text with which the instance fails, for any return value of its code; `None` if it does not fail
    failure: str | None
    stall: Stall | None
    #: descriptions of the events, timers and calls that the instance waits for
    waiting_for: tuple[str, ...]


class Replay:
    """A replay of a history over an action list.

    `check` returns the reason why an action cannot be scheduled, or `None`.

    The extension treats a call of an unknown function as ended. CallDurableTaskFunctionAsync of
    DurableOrchestrationContext throws within the task of the call, before the call gets an id. ProcessAsyncActionsV2 of
    OutOfProcOrchestrationShim ignores the error of a task. A signal to an unknown entity throws to
    ProcessAsyncActionsV2 itself, which ends the replay.
    """

    def __init__(
        self,
        reply: Reply,
        execution_id: str,
        check: Callable[[Action], str | None],
        poll_interval: timedelta = DEFAULT_POLL_INTERVAL,
    ) -> None:
        self._reply = reply
        self._poll_interval = poll_interval
        self._actions = reply.actions
        self._execution_id = execution_id
        self._check = check
        self._position = 0
        self._current: Await | None = None
        self._latest: Await | None = None
        self._refusal: str | None = None
        self._next_id = 0
        self._now: datetime | None = None
        self._now_text = ""
        self._unscheduled: dict[int, Decision] = {}
        self._open: dict[int, Await] = {}
        self._waiters: dict[str, list[Await]] = defaultdict(list)
        self._buffered: dict[str, deque[Event]] = defaultdict(deque)
        self._suspended = False
        self._queued: list[Event] = []
        self._failure: str | None = None
        self._continue_as_new: ContinueAsNew | None = None
        self._carried_over: list[Event] = []

    def run(self, history: Sequence[Event]) -> Outcome:
        """Plays the history, up to a failure. Must be called once."""
        for event in history:
            self._play(event)
            if self._failure is not None:
                break
        blocked = self._current if self._current is not None and not self._current.done else None
        if self._failure is None and not self._open:
            self._failure = self._refusal
        stall = None
        if not self._suspended and self._failure is None and self._refusal is None:
            stall = describe_stall(self._reply, blocked, self._latest, self._position, self._open, self._waiters)
        return Outcome(
            decisions=() if self._suspended else tuple(self._unscheduled.values()),
            finished=blocked is None and not self._open,
            continue_as_new=self._continue_as_new,
            carried_over=tuple(self._carried_over),
            suspended=self._suspended,
            failure=self._failure,
            stall=stall,
            waiting_for=self._waits(),
        )

    def _waits(self) -> tuple[str, ...]:
        events = [f"event {name}" for name, waiters in self._waiters.items() if waiters]
        return (*events, *(_describe_open(task_id, node) for task_id, node in self._open.items()))

    def _play(self, event: Event) -> None:
        kind = event.kind
        if kind is Kind.ORCHESTRATOR_STARTED:
            self._now_text, self._now = event.at, None
        elif kind is Kind.EXECUTION_STARTED:
            self._advance()
        elif kind is Kind.EXECUTION_SUSPENDED:
            self._suspended = True
        elif kind is Kind.EXECUTION_RESUMED:
            self._suspended = False
            queued, self._queued = self._queued, []
            for waiting in queued:
                self._play(waiting)
        elif kind in _RESULTS:
            if self._suspended:
                self._queued.append(event)
            else:
                self._take_result(event)
        elif kind in _DECISION_OF:
            self._confirm(event)

    def _take_result(self, event: Event) -> None:
        if event.kind is Kind.EVENT_RAISED:
            self._take_event(event)
        else:
            task_id = event.data["TimerId" if event.kind is Kind.TIMER_FIRED else "TaskScheduledId"]
            node = self._open.pop(task_id, None)
            if node is None:
                return  # a cancelled timer, or a repeated result
            self._resolve(node, event)
        self._advance()

    def _take_event(self, event: Event) -> None:
        name = str(event.data["Name"]).lower()
        waiters = self._waiters.get(name)
        if waiters:
            self._complete(waiters.pop())
        elif self._continue_as_new is not None:
            self._carried_over.append(event)
        else:
            self._buffered[name].append(event)

    def _confirm(self, event: Event) -> None:
        """Removes a decision that the history has already. Reports changed code if this replay lacks the decision."""
        decision = self._unscheduled.pop(event.event_id, None)
        recorded = event.data.get("Name")
        if decision is None or not isinstance(decision, _DECISION_OF[event.kind]):
            self._failure = (
                f"Non-Deterministic workflow detected: the history has {event.kind.name} with id {event.event_id}"
                f"{f' and name {recorded!r}' if recorded else ''}, which the code does not schedule in this replay. "
                "Was the orchestrator changed while the instance was running?"
            )
        elif isinstance(decision, ScheduleActivity | ScheduleSubOrchestration) and decision.name != recorded:
            self._failure = (
                f"Non-Deterministic workflow detected: id {event.event_id} was {recorded!r} in the history "
                f"and is {decision.name!r} in this replay. Was the orchestrator changed while the instance was running?"
            )

    def _advance(self) -> None:
        while self._position < len(self._actions) and self._refusal is None:
            if self._current is None:
                self._current = self._latest = self._invoke(self._actions[self._position], None)
            if not self._current.done:
                return
            self._position += 1
            self._current = None

    def _invoke(self, action: Action, parent: Await | None) -> Await:
        node = Await(action, parent, problem=self._check(action))
        match action:
            case SignalEntity() if node.problem is not None:
                self._refusal = node.problem
            case _ if node.problem is not None:
                node.done = True
            case CallActivity() | CallSubOrchestration() | CallHttp():
                self._call(node)
            case CreateTimer(fire_at, cancelled):
                task_id = self._take_id()
                self._unscheduled[task_id] = ScheduleTimer(task_id, fire_at)
                if cancelled:
                    node.done = True
                else:
                    self._open[task_id] = node
            case WaitForEvent(name):
                early = self._buffered.get(name.lower())
                if early:
                    early.popleft()
                    node.done = True
                else:
                    self._waiters[name.lower()].append(node)
            case SignalEntity(entity, operation, text):
                self._send(entity, operation, text, signal=True)
                node.done = True
            case CallEntity(entity, operation, text):
                self._waiters[self._send(entity, operation, text, signal=False)].append(node)
            case ContinueAsNew():
                self._continue_as_new = action
                node.done = True
            case WhenAny(children) | WhenAll(children):
                node.children = [self._invoke(child, node) for child in children]
                self._complete_if_met(node)
        return node

    def _call(self, node: Await) -> None:
        action = node.action
        node.attempts += 1
        task_id = self._take_id()
        self._open[task_id] = node
        if isinstance(action, CallActivity):
            self._unscheduled[task_id] = ScheduleActivity(task_id, action.name, action.input)
        elif isinstance(action, CallHttp):
            self._unscheduled[task_id] = ScheduleActivity(task_id, HTTP_ACTIVITY, node.poll or action.request)
        elif isinstance(action, CallSubOrchestration):
            instance_id = action.instance_id or f"{self._execution_id}:{task_id}"
            self._unscheduled[task_id] = ScheduleSubOrchestration(
                task_id, action.name, action.input, instance_id, action.version
            )

    def _send(self, entity: str, operation: str, text: str | None, *, signal: bool) -> str:
        task_id = self._take_id()
        request = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._execution_id}/{task_id}"))
        self._unscheduled[task_id] = SendOperation(task_id, entity, operation, text, signal, request)
        return request

    def _resolve(self, node: Await, event: Event) -> None:
        """Completes an open call, or starts its retry or its next HTTP poll.

        Retries and polls are timers and calls of the extension; the code notices only their ids.
        """
        action = node.action
        retry = action.retry if isinstance(action, CallActivity | CallSubOrchestration | CallHttp) else None
        if node.in_backoff:
            node.in_backoff = False
            if node.poll is not None or (retry is not None and node.attempts < retry.max_attempts):
                self._call(node)
            else:
                self._complete(node)
        elif event.kind in _FAILURES and retry is not None and node.poll is None:
            # After the last attempt too the extension makes a timer, which fires immediately.
            self._back_off(node, retry.delay(node.attempts))
        elif isinstance(action, CallHttp) and action.polls and event.kind is Kind.TASK_COMPLETED:
            poll = next_poll(action.request, event.data["Result"], self._poll_interval)
            if poll is None:
                self._complete(node)
            else:
                node.poll, wait = poll
                self._back_off(node, wait)
        else:
            self._complete(node)

    def _back_off(self, node: Await, wait: timedelta) -> None:
        node.in_backoff = True
        task_id = self._take_id()
        self._unscheduled[task_id] = ScheduleTimer(task_id, self._current_time() + wait)
        self._open[task_id] = node

    def _complete(self, node: Await) -> None:
        node.done = True
        if node.parent is not None and not node.parent.done:
            self._complete_if_met(node.parent)

    def _complete_if_met(self, node: Await) -> None:
        """Completes a `WhenAny` or `WhenAll` whose condition is met. Without children, it completes immediately."""
        enough = any if isinstance(node.action, WhenAny) and node.children else all
        if enough(child.done for child in node.children):
            self._complete(node)

    def _take_id(self) -> int:
        task_id = self._next_id
        self._next_id += 1
        return task_id

    def _current_time(self) -> datetime:
        if self._now is None:
            self._now = parse_stamp(self._now_text)
        return self._now


def _describe_open(task_id: int, node: Await) -> str:
    if node.in_backoff:
        return f"{'retry' if node.poll is None else 'HTTP poll'} timer {task_id}"
    match node.action:
        case CallActivity(name):
            return f"activity {name} ({task_id})"
        case CallSubOrchestration(name):
            return f"sub-orchestration {name} ({task_id})"
        case CreateTimer(fire_at):
            return f"timer {task_id} at {fire_at:%Y-%m-%dT%H:%M:%SZ}"
        case _:
            return f"HTTP call ({task_id})"


_FAILURES = frozenset({Kind.TASK_FAILED, Kind.SUB_ORCHESTRATION_FAILED})
_RESULTS = frozenset(
    {
        Kind.TASK_COMPLETED,
        Kind.SUB_ORCHESTRATION_COMPLETED,
        Kind.TIMER_FIRED,
        Kind.EVENT_RAISED,
        *_FAILURES,
    }
)
_DECISION_OF: dict[Kind, type] = {
    Kind.TASK_SCHEDULED: ScheduleActivity,
    Kind.TIMER_CREATED: ScheduleTimer,
    Kind.SUB_ORCHESTRATION_CREATED: ScheduleSubOrchestration,
    Kind.EVENT_SENT: SendOperation,
}
