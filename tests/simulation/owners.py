"""No job is without an owner for longer than the sweeper's period: checked after every event of the simulated world.

An orchestration owns its job as long as it is alive and no deadline has passed; else the sweeper does, from the job's
`check_at` on. While the sweeper cannot work (the host is down, a sweep runs or has failed) no period runs; it begins
again afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from shared.core.gates.places import PlaceState
from shared.core.jobs.job import Record
from shared.core.jobs.retry import JITTER
from shared.core.jobs.states import JobStatus
from shared.operations.sweeper.repair import GRACE, REPAIR_INTERVAL, WITHDRAW_AFTER, _deadline
from shared.operations.sweeper.report import RepairKind, SweepReport
from shared.ports.index import ActiveRow

if TYPE_CHECKING:
    from tests.simulation.world import World

#: the sweeper's period, and the time that a sweep takes
PERIOD = timedelta(seconds=60)
_SWEEP_TIME = timedelta(seconds=2)


class Owners:
    """The owner of each job at this time, and since when."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: sweeps under way
        self._sweeps = 0
        #: the last instant at which no sweep could have been expected to do its work
        self._excused_at = world.scheduler.now
        #: begin and end of each sweep that was completed: it does not owe work that came up meanwhile
        self._ended: deque[tuple[datetime, datetime]] = deque(maxlen=20)
        self._failed_at: dict[str, datetime] = {}
        #: since when a job has had no owner but the sweeper
        self._since: dict[str, datetime] = {}
        self._claimed: dict[str, datetime] = {}
        #: requested at every event, so cached
        self._lives: dict[str, tuple[int, bool]] = {}
        self._waits: dict[str, timedelta] = {}

    @contextmanager
    def sweeping(self) -> Iterator[Callable[[SweepReport], None]]:
        self._sweeps += 1
        began = self._world.scheduler.now
        finished: list[SweepReport] = []
        try:
            yield finished.append
        finally:
            self._sweeps -= 1
            now = self._world.scheduler.now
            if finished:
                self._ended.append((began, now))
            else:
                self._excused_at = now
            for action in (action for swept in finished for action in swept.actions):
                if action.kind is RepairKind.FAILED:
                    self._failed_at[action.job_id] = now

    def check(self) -> None:
        world, now = self._world, self._world.scheduler.now
        if not world.host.up:
            self._excused_at = now
        actives = {job_id: active for (_, job_id), active in world.index.active.items()}
        for job_id, record in world.ledger.records.items():
            active = actives.get(job_id)
            if record.job.status.terminal:
                self._since.pop(job_id, None)
            elif active is None:
                world.add_violation(f"{job_id} is {record.job.status} and nothing leads the sweeper to it")
            elif record.job.is_staged:
                self._check_place(record, active, now)
            else:
                self._check_owner(record, active.check_at, now)
        for job_id, active in actives.items():
            if job_id not in world.ledger.records and active.created_at + WITHDRAW_AFTER <= now:
                # a claim without rows belongs to the sweeper only; its write may have taken longer than that
                seen = self._claimed.setdefault(job_id, now)
                self._expect(job_id, max(seen, active.check_at, active.created_at + WITHDRAW_AFTER), now)

    def _check_place(self, record: Record, active: ActiveRow, now: datetime) -> None:
        """Checks that the admission state owns a queued or set-aside job; before that the sweeper owns it."""
        job_id, state = record.job.job_id, active.counted_place.state
        if state in (PlaceState.WAITING, PlaceState.OFF):
            self._since.pop(job_id, None)
            return
        self._expect(job_id, max(self._since.setdefault(job_id, now), active.check_at), now)

    def _check_owner(self, record: Record, check_at: datetime, now: datetime) -> None:
        job = record.job
        owed = [deadline for step in record.open_steps if (deadline := _deadline(step, job)) <= now]
        if check_at > now + self._longest_wait(record):
            self._world.add_violation(f"{job.job_id} is looked at only at {check_at}")
        alive = self._alive(job.instance_id)
        if alive and (job.status is JobStatus.PAUSED or not owed):
            self._since.pop(job.job_id, None)
            return
        since = self._since.setdefault(job.job_id, now)
        if alive:
            # a repair is an EVENT, and its external event arrives later
            since = max(since, min(owed) + GRACE, job.updated_at)
        self._expect(job.job_id, max(since, check_at), now)

    def _alive(self, instance_id: str) -> bool:
        changes = self._world.durable.changes
        known = self._lives.get(instance_id)
        if known is None or known[0] != changes:
            known = self._lives[instance_id] = (changes, self._world.durable.alive(instance_id))
        return known[1]

    def _longest_wait(self, record: Record) -> timedelta:
        job_id = record.job.job_id
        if job_id not in self._waits:
            self._waits[job_id] = _longest_wait(record)
        return self._waits[job_id]

    def _expect(self, job_id: str, since: datetime, now: datetime) -> None:
        if self._sweeps:
            return
        excuses = [end for began, end in self._ended if began <= since]
        since = max([since, self._excused_at, self._failed_at.get(job_id, since), *excuses])
        if now - since > PERIOD + _SWEEP_TIME:
            self._world.add_violation(f"{job_id} has had no owner since {since:%d %H:%M:%S}")


def _longest_wait(record: Record) -> timedelta:
    """Returns the bound of a job's deadlines and looks: its longest lease or backoff."""
    timings = [step.timings for step in record.steps]
    spans = [max(one.running_lease_s, one.ack_timeout_s) for one in timings]
    spans += [max(one.dispatch_backoffs + one.ack_backoffs + one.execution_backoffs) for one in timings]
    return (
        timedelta(seconds=max(spans) * (1 + JITTER) + max(one.ack_timeout_s for one in timings))
        + GRACE
        + REPAIR_INTERVAL
    )
