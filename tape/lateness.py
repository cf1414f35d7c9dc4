"""Repeats the delays of the recorded app, so that inputs come in the recorded order.

Virtual time has no delays. So an activity waits until the recorded time of its event if that is at most MAX_LATENESS
later. Then the app again accepts a reply that came after its deadline and before the recorded timer fired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

from shared.core.jobs.backlog import LaneLook
from shared.core.jobs.directive import message_id
from shared.core.jobs.history import EventType
from shared.core.jobs.states import StepStatus
from shared.ports.ledger import Ledger
from tape.recording import RecordedJob, Row, attempt_of, instant
from tape.scheduler import Scheduler

#: maximum lateness; a later recorded event has another cause
MAX_LATENESS = timedelta(minutes=1)
_SENT_AGAIN = frozenset({EventType.LEASE_RENEWED, EventType.PUBLISH_FAILED})
_PREVENTED = frozenset({EventType.CANCEL_REQUESTED, EventType.PAUSE_REQUESTED})
_NO_MOVE = frozenset({EventType.REPLY_IGNORED, EventType.GATED})
_PASSED = frozenset({EventType.ACK_TIMEOUT, EventType.LEASE_EXPIRED, EventType.TIME_EXCEEDED})

#: message that waited on the lane at the settle that this task runs
waiting_message: ContextVar[str | None] = ContextVar("waiting_message", default=None)


class Lateness:
    """Waits of the activities of all jobs."""

    def __init__(self, jobs: Mapping[str, RecordedJob], ledger: Ledger, scheduler: Scheduler) -> None:
        self._jobs = jobs
        self._ledger = ledger
        self._scheduler = scheduler

    async def before_dispatch(self, job_id: str, step_id: str) -> None:
        """Waits until the recorded attempt, without a maximum if a dispatch limit delayed it.

        If another event prevented the attempt, such as a control or an accepted late reply, waits until that event.
        """
        job, stored = self._jobs[job_id], await self._ledger.read(job_id)
        step = stored.record.step(step_id) if stored is not None else None
        if step is None:
            return
        is_recorded = step.status not in (StepStatus.PENDING, StepStatus.FAILED_RETRY)

        def is_next(event: Row) -> bool:
            if is_recorded:
                return event["type"] in _SENT_AGAIN and attempt_of(event) == (step_id, step.attempt_no)
            is_of_step = event["step_id"] == step_id and event["type"] not in _NO_MOVE
            return is_of_step or event["type"] in _PREVENTED

        was_gated = any(each["type"] == EventType.GATED and each["step_id"] == step_id for each in job.events)
        event = self._following(job, is_next)
        if event is not None and (was_gated or self._is_near(event)):
            await self._wait_until(event)

    async def before_settle(self, job_id: str, step_id: str, attempt_no: int) -> None:
        """Waits, if the attempt's lease has expired, until the time when the recorded app noticed the expiry or
        accepted a reply.
        """
        stored, attempt = await self._ledger.read(job_id), (step_id, attempt_no)
        step = stored.record.step(step_id) if stored is not None else None
        if step is None or step.silent_until is None or step.silent_until > self._scheduler.now:
            return
        job = self._jobs[job_id]
        event = self._following(job, lambda each: attempt_of(each) == attempt)
        if event is None:
            return
        earlier = [each for each in job.events if attempt_of(each) == attempt and each["seq"] < event["seq"]]
        # further peeks at the lane leave no event
        is_backlog = event["type"] == EventType.LANE_BACKLOG
        still_waits = bool(earlier) and earlier[-1]["type"] == EventType.LANE_BACKLOG
        if self._is_near(event):
            await self._wait_until(event)
        has_passed = event["type"] in _PASSED and instant(event["at"]) <= self._scheduler.now
        if is_backlog or (still_waits and not has_passed):
            waiting_message.set(message_id(job_id, step_id, attempt_no))

    def _following(self, job: RecordedJob, is_next: Callable[[Row], bool]) -> Row | None:
        now = self._scheduler.now
        return next((each for each in job.events if is_next(each) and instant(each["at"]) > now), None)

    def _is_near(self, event: Row) -> bool:
        return instant(event["at"]) - self._scheduler.now <= MAX_LATENESS

    async def _wait_until(self, event: Row) -> None:
        await self._scheduler.pause((instant(event["at"]) - self._scheduler.now).total_seconds())


class RecordedLanes:
    """The `shared.ports.bus.Lanes` of a tape. Returns the recorded messages."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    async def replies(self, lane: int, *, since: datetime) -> LaneLook:
        return self._look()

    async def directives(self, lane: int, service: str, *, since: datetime) -> LaneLook:
        return self._look()

    def _look(self) -> LaneLook:
        name = waiting_message.get()
        return LaneLook(self._now(), [(name, datetime.min.replace(tzinfo=UTC))] if name is not None else [])


def moment(recorded: datetime, sent: datetime, recorded_sent: datetime) -> datetime:
    """Returns the recorded time of a reply. Shifts the time if the attempt was sent more than MAX_LATENESS earlier or
    later than recorded.
    """
    return recorded if abs(sent - recorded_sent) <= MAX_LATENESS else sent + (recorded - recorded_sent)
