"""The dispatcher: turns messages into episodes, and the replies of episodes into history and new messages.

The rules are those of TaskOrchestrationDispatcher in DurableTask.Core. The engine is synchronous and single-threaded.
Its driver takes an `Episode` or an `ActivityTask`, runs the function, and finishes or drops the work.

The next process repeats unfinished work. After a kill, the work waits until its visibility timeout ends. So activities
run at least once.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from functions_emulator.durable.actions import ContinueAsNew, Reply
from functions_emulator.durable.catalog import Catalog
from functions_emulator.durable.clock import Clock, parse_stamp, stamp
from functions_emulator.durable.decisions import history_event
from functions_emulator.durable.episodes import Episode, state_after
from functions_emulator.durable.events import ActivityTask, Event, Instance, Kind, Message, Parent, Status
from functions_emulator.durable.http_polls import DEFAULT_POLL_INTERVAL
from functions_emulator.durable.messages import is_operation, start_data
from functions_emulator.durable.outgoing import Outgoing
from functions_emulator.durable.replay import Outcome, Replay
from functions_emulator.durable.reports import Reports, log_stall
from functions_emulator.durable.store import RecentHistories, Store
from functions_emulator.durable.versions import Versions
from functions_emulator.durable.visibility import ActivityQueue, VisibilityTimeouts, log_hidden
from functions_emulator.durable.wakeups import Wakeups

_LOG = logging.getLogger("functions_emulator.durable")

#: wait before an instance of another version is checked again
_VERSION_RETRY = timedelta(seconds=30)


class Engine:
    """The dispatcher of messages. Calls `work_arrived` when an episode, a batch or an activity may be available."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Catalog,
        versions: Versions | None = None,
        poll_interval: timedelta = DEFAULT_POLL_INTERVAL,
        timeouts: VisibilityTimeouts | None = None,
    ) -> None:
        self.store = store
        self.timeouts = timeouts or VisibilityTimeouts()
        self.poll_interval = poll_interval
        self._versions = versions or Versions()
        self.clock = clock
        self.catalog = catalog
        self.reports = Reports()
        for noted in store.notes():
            self.reports.restore(*noted)
        for report in self.reports.stalls:
            log_stall(report)
        self._refused: set[str] = set()
        self._recent = RecentHistories()
        self.work_arrived: Callable[[], None] = lambda: None
        self._wakeups = Wakeups()
        self.entity_wakeups = Wakeups()
        now = clock.now()
        log_hidden(*store.take_over(now))
        self._activities = ActivityQueue(store.activities())
        self._outgoing = Outgoing(store, catalog, self._activities, self.post, self.create)
        for instance_id, at, operation in store.wake_times():
            self._wakeups_for(instance_id, operation).add(instance_id, at, now)
        clock.subscribe(lambda: self.work_arrived())

    # --- taking work

    def next_episode(self) -> Episode | None:
        """Returns the next episode, or `None`. The caller must pass it to `finish_episode` or `drop_episode`."""
        while True:
            instance_id = self._wakeups.take(self.clock.now())
            if instance_id is None:
                return None
            episode = self._open(instance_id)
            if episode is not None:
                return episode
            self._wakeups.release(instance_id)

    def next_wake(self) -> datetime | None:
        """Returns the time when more work is available, or `None`. This work is, for example, a timer, a delayed
        message, or the work of a killed process.
        """
        now = self.clock.now()
        instants = (self._wakeups.next_at(now), self.entity_wakeups.next_at(now), self._activities.next_at(now))
        return min((at for at in instants if at is not None), default=None)

    @property
    def idle(self) -> bool:
        """Returns `True` if no message is due, no episode or batch is taken, and no activity waits or runs."""
        now = self.clock.now()
        return self._wakeups.idle(now) and self.entity_wakeups.idle(now) and self._activities.idle(now)

    def next_activity(self) -> ActivityTask | None:
        """Returns the next activity call, or `None`. The caller must pass it to `finish_activity` or
        `fail_activity`."""
        now = self.clock.now()
        task = self._activities.take(now)
        if task is not None:
            self.store.hide("activities", (task.seq,), now + self.timeouts.activities)
        return task

    def renew(self) -> None:
        """Extends the visibility timeouts of running activities."""
        if self._activities.running:
            self.store.hide("activities", self._activities.running, self.clock.now() + self.timeouts.activities)

    def hide(self, messages: Iterable[Message]) -> None:
        """Hides taken messages for their visibility timeout. If this process is killed, the next process gets the
        messages after this time.
        """
        self.store.hide("messages", (one.seq for one in messages), self.clock.now() + self.timeouts.messages)

    def finish_activity(self, task: ActivityTask, result: str | None) -> None:
        """Sends the result of an activity, as JSON text, to its orchestration."""
        self._end_activity(task, Kind.TASK_COMPLETED, {"TaskScheduledId": task.task_id, "Result": result})

    def fail_activity(self, task: ActivityTask, reason: str, details: str) -> None:
        """Sends the failure of an activity to its orchestration."""
        data = {"TaskScheduledId": task.task_id, "Reason": reason, "Details": details}
        self._end_activity(task, Kind.TASK_FAILED, data)

    def _end_activity(self, task: ActivityTask, kind: Kind, data: dict[str, object]) -> None:
        self._activities.end(task)
        with self.store.transaction():
            if not self.store.delete_activity(task.seq):
                return
            self.post(task.instance_id, task.execution_id, kind, data, self.clock.now())

    def post(
        self, instance_id: str, execution_id: str | None, kind: Kind, data: dict[str, object], at: datetime
    ) -> None:
        """Sends a message to an instance. The message is visible from `at` on. Must be called within a transaction of
        the store.
        """
        self.store.post(instance_id, execution_id, kind, data, at)
        self._wakeups_for(instance_id, is_operation(kind, data)).add(instance_id, at, self.clock.now())
        self.work_arrived()

    def create(
        self, name: str, instance_id: str, text: str | None, version: str | None, parent: Parent | None = None
    ) -> None:
        """Creates an instance, in place of any instance with that id. `text` is the input as JSON text.

        Must be called within a transaction of the store.
        """
        now = self.clock.now()
        self.store.delete_instance(instance_id)
        self.reports.forget(instance_id, now)
        instance = Instance(
            instance_id=instance_id,
            execution_id=uuid.uuid4().hex,
            name=name,
            version=version,
            input=text,
            status=Status.PENDING,
            custom_status=None,
            output=None,
            created_at=now,
            updated_at=now,
            parent=parent,
        )
        self.store.put_instance(instance)
        self.post(instance_id, instance.execution_id, Kind.EXECUTION_STARTED, start_data(instance), now)

    def _wakeups_for(self, instance_id: str, operation: bool) -> Wakeups:
        # an orchestration can have an id in the form of an entity's
        return self.entity_wakeups if operation and self.store.instance(instance_id) is None else self._wakeups

    # --- one episode

    def _open(self, instance_id: str) -> Episode | None:
        now = self.clock.now()
        messages = self.store.due_messages(instance_id, now)
        if not messages:
            return None
        instance = self.store.instance(instance_id)
        if instance is None:
            self._turn_away(instance_id, messages, now)
            return None
        if instance.status.is_terminal:
            self.store.delete_messages(message.seq for message in messages)
            return None
        current = instance.execution_id
        stale = [one.seq for one in messages if one.execution_id not in (None, current)]
        if stale:
            self.store.delete_messages(stale)
            messages = [one for one in messages if one.execution_id in (None, current)]
            if not messages:
                return None
        messages.sort(key=lambda one: one.kind is not Kind.EXECUTION_STARTED)
        stop = next((one for one in messages if one.kind is Kind.EXECUTION_TERMINATED), None)
        if stop is not None:
            self._terminate(instance, messages, stop)
            return None
        if not self._versions.runs(instance.version):
            self._refuse_version(instance, messages)
            return None
        past = self._recent.take(instance_id, current)
        if past is None:
            past = self.store.history(instance_id, current)
        if not past and messages[0].kind is not Kind.EXECUTION_STARTED:
            return None  # the message that starts it is still hidden
        self.hide(messages)
        if past:
            now = max(now, parse_stamp(past[-1].at))
        at = stamp(now)
        news = [Event(Kind.ORCHESTRATOR_STARTED, -1, at, {})]
        news.extend(Event(one.kind, -1, at, one.data) for one in messages)
        return Episode(instance, tuple(messages), (*past, *news), len(past))

    def _turn_away(self, instance_id: str, messages: Sequence[Message], now: datetime) -> None:
        """Deletes the messages for an instance that does not exist, except the operations of an entity with its id.

        If a termination is among the messages, all are visible again after their visibility timeout. This repeats until
        an instance with that id exists (durabletask issue 1398).
        """
        ours = [message.seq for message in messages if not is_operation(message.kind, message.data)]
        if not any(message.kind is Kind.EXECUTION_TERMINATED for message in messages):
            self.store.delete_messages(ours)
            return
        until = now + self.timeouts.messages
        _LOG.error(
            "instance %s was purged before its termination arrived. The queue delivers the termination again at %s. "
            "The termination then ends any new instance with this id. Purge an instance only after it has ended",
            instance_id,
            stamp(until),
        )
        self.store.postpone(ours, until)
        self._wakeups.add(instance_id, until, now)

    def _refuse_version(self, instance: Instance, messages: Sequence[Message]) -> None:
        """Leaves the messages for another worker, or fails the instance, by `versionFailureStrategy` of host.json."""
        now = self.clock.now()
        reason = self._versions.refusal(instance.version)
        if not self._versions.fail:
            if instance.instance_id not in self._refused:
                self._refused.add(instance.instance_id)
                _LOG.error("orchestration %s waits for a worker of its version: %s", instance.instance_id, reason)
            self._wakeups.add(instance.instance_id, now + _VERSION_RETRY, now)
            return
        with self.store.transaction():
            self.store.delete_messages(message.seq for message in messages)
            changed = replace(instance, status=Status.FAILED, output=json.dumps(reason), updated_at=now, note=None)
            self.store.put_instance(changed)
            self._outgoing.notify_parent(changed, now)

    def drop_episode(self, episode: Episode) -> None:
        """Releases an episode without a reply. The engine runs the episode again."""
        instance_id = episode.instance.instance_id
        self._wakeups.release(instance_id)
        self._wakeups.add(instance_id, self.clock.now(), self.clock.now())
        self.work_arrived()

    def finish_episode(self, episode: Episode, reply: Reply) -> None:
        """Commits the reply of the orchestrator function in one transaction."""
        instance = episode.instance
        try:
            current = self.store.instance(instance.instance_id)
            replaced = current is not None and current.execution_id != instance.execution_id
            if current is not None and current.status.is_terminal and not replaced:
                return  # a reply was committed before
            outcome = Replay(reply, instance.execution_id, self.catalog.problem, self.poll_interval).run(
                episode.history
            )
            if replaced or (current is None and episode.recorded):
                self._send_unrecorded(episode, reply, outcome)
                return
            report = self.reports.update(instance, outcome, self.clock.now())
            if report is not None:
                log_stall(report)
            with self.store.transaction():
                history = self._commit(episode, reply, outcome)
            if history:
                self._recent.put(instance.instance_id, instance.execution_id, history)
            else:
                self.reports.forget(instance.instance_id, self.clock.now())
        finally:
            self._wakeups.release(instance.instance_id)
            self.work_arrived()

    def _send_unrecorded(self, episode: Episode, reply: Reply, outcome: Outcome) -> None:
        """Sends the messages of an instance that was purged or replaced while its code ran, without history.

        CompleteTaskOrchestrationWorkItemAsync in AzureStorageOrchestrationService.cs of DurableTask.AzureStorage: the
        messages go out before the history is written, which then fails. The first episode of a purged instance is not
        such a case: its history is new, so the write succeeds, and the instance exists again.
        """
        instance, now = episode.instance, self.clock.now()
        if not episode.recorded:
            return  # replaced in its first episode: the later start counts
        status, output, error = state_after(instance, reply, outcome)
        with self.store.transaction():
            if status.is_terminal:
                self._outgoing.send_operations(instance, outcome.decisions, now)
                self._outgoing.notify_parent(replace(instance, status=status, output=output), now, error)
            elif outcome.finished and outcome.continue_as_new is not None:
                self._outgoing.send_operations(instance, outcome.decisions, now)
            else:
                self._outgoing.send(instance, outcome.decisions, now)
        # these messages are turned away, or go to the instance that now has the id
        self._wakeups.add(instance.instance_id, now, now)

    def _commit(self, episode: Episode, reply: Reply, outcome: Outcome) -> Sequence[Event]:
        """Returns the history with which the next episode begins; empty if this execution has ended."""
        instance, now = episode.instance, self.clock.now()
        at = episode.history[episode.new_from].at
        self.store.delete_messages(one.seq for one in episode.messages)
        if reply.custom_status is not None:
            instance = replace(instance, custom_status=reply.custom_status)
        if (reason := episode.control_reason) is not None:
            instance = replace(instance, output=reason)
        news = list(episode.history[episode.new_from :])
        news.extend(history_event(one, at) for one in outcome.decisions)
        status, output, error = state_after(instance, reply, outcome)
        if outcome.failure is None and outcome.finished and outcome.continue_as_new is not None:
            self._outgoing.send_operations(instance, outcome.decisions, now)
            self._continue(instance, outcome.continue_as_new, outcome.carried_over, now)
            return ()
        if status.is_terminal:
            news.append(
                Event(Kind.EXECUTION_COMPLETED, -1, at, {"OrchestrationStatus": status.value, "Result": output})
            )
            self._outgoing.send_operations(instance, outcome.decisions, now)
        else:
            self._outgoing.send(instance, outcome.decisions, now)
        news.append(Event(Kind.ORCHESTRATOR_COMPLETED, -1, at, {}))
        self.store.append_history(instance.instance_id, instance.execution_id, episode.new_from, news)
        note = None if status.is_terminal else self.reports.note(instance.instance_id)
        changed = replace(instance, status=status, output=output, updated_at=now, note=note)
        self.store.put_instance(changed)
        if status.is_terminal:
            self._outgoing.notify_parent(changed, now, error)
            return ()
        return (*episode.history[: episode.new_from], *news)

    def _continue(
        self, instance: Instance, action: ContinueAsNew, carried_over: Sequence[Event], now: datetime
    ) -> None:
        """Starts a new execution of the instance with an empty history."""
        self.store.delete_history(instance.instance_id)
        text = None if action.input is None else json.dumps(action.input)
        fresh = replace(
            instance, execution_id=uuid.uuid4().hex, input=text, status=Status.RUNNING, updated_at=now, note=None
        )
        self.store.put_instance(fresh)
        self.post(fresh.instance_id, fresh.execution_id, Kind.EXECUTION_STARTED, start_data(fresh), now)
        for event in carried_over:
            self.post(fresh.instance_id, None, event.kind, dict(event.data), now)

    def _terminate(self, instance: Instance, messages: Sequence[Message], stop: Message) -> None:
        now = self.clock.now()
        output = json.dumps(stop.data.get("Input"))
        with self.store.transaction():
            self.store.delete_messages(message.seq for message in messages)
            past = self.store.history(instance.instance_id, instance.execution_id)
            end = [
                Event(Kind.EXECUTION_TERMINATED, -1, stamp(now), stop.data),
                Event(
                    Kind.EXECUTION_COMPLETED, -1, stamp(now), {"OrchestrationStatus": "Terminated", "Result": output}
                ),
            ]
            self.store.append_history(instance.instance_id, instance.execution_id, len(past), end)
            changed = replace(instance, status=Status.TERMINATED, output=output, updated_at=now, note=None)
            self.store.put_instance(changed)
            self._outgoing.notify_parent(changed, now)
        self.reports.forget(instance.instance_id, now)
