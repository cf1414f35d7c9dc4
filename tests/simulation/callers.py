"""Callers of the simulated world: they post, control and redrive jobs until they get a response or give up."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.archive_refusals import JobArchived
from shared.contracts.envelope import Envelope
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.errors import Transient
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.quotas.quotas import By, delete_rule, hold, resume, set_rule
from shared.refusals import (
    ControlNotPossible,
    DependencyUnknown,
    GateNotFound,
    JobNotFound,
    LimitReached,
    NotRedrivable,
    Overloaded,
)
from tests.jobs import envelope
from tests.simulation import protocols
from tests.simulation.host import HostDown

if TYPE_CHECKING:
    from tests.simulation.world import World

OPERATOR_EVERY_S = 600.0
#: quotas that no job has to pass: changes of them are for the feeds
_GATES = (
    Gate(GateKind.TYPE, "tenant_0", "NOBODYS"),
    Gate(GateKind.SOURCE, "tenant_1", "nobody"),
    Gate(GateKind.TYPE, EVERY, "NOBODYS"),
)


class Callers:
    """All callers of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.plan, self.faults, self.scheduler, self.random = world.plan, world.faults, world.scheduler, world.random
        self.host, self.bus, self.ledger = world.host, world.bus, world.ledger
        self._requests = itertools.count(1)
        #: number of working callers
        self.busy = 0
        #: job ids that were promised by a 202, per request
        self.promised: dict[int, set[str]] = {}

    def start(self) -> None:
        span_s = self.plan.faults_end_after.total_seconds()
        for number in range(self.plan.jobs):
            request_type = self.random.choice(self.plan.request_types)
            prompts = {"sis": {"prompt_set": ["When does the lease end?"]}}
            payload = {} if request_type == protocols.ONE_STEP else prompts
            request = envelope(
                tenant_id=f"tenant_{number % 2}",
                request_type=request_type,
                payload=payload,
                idempotency_key=f"key-{number}",
                **({"callback_urls": {"done": "https://callback.example"}} if self.plan.hooks else {}),
                **self._after(number),
            )
            at_s = self.random.uniform(0, min(600.0, span_s / 4))
            self.promised[number] = set()
            for poster in range(self.plan.posters):
                later_s = self.random.choice((0.0, 0.0, 0.01, 30.0, 400.0)) * self.random.random() if poster else 0.0
                self._schedule(at_s + later_s, partial(self._post_until_accepted, number, request))
            if self.plan.redriven_after_s is not None:
                self._schedule(at_s + self.plan.redriven_after_s, partial(self._redrive_until_answered, number))
            for script_s, kind in self.plan.script:
                soon = partial(self._control_until_answered, number, kind, tries=200, longest_wait_s=1)
                self._schedule(at_s + script_s, soon)
            for _ in range(self.plan.controls):
                kind = self.random.choice([ControlKind.PAUSE] * 3 + [ControlKind.RESUME] * 3 + [ControlKind.CANCEL])
                self._schedule(
                    at_s + self.random.choice((5, 60, 900)) * self.random.random(),
                    partial(self._control_until_answered, number, kind),
                )
        for _ in range(2 if self.plan.redrives else 0):
            self.scheduler.later(self.random.uniform(0, span_s), self._redrive_some)
        for gate in _GATES if self.plan.gates else ():
            kinds = [self.random.choice(("set", "set", "hold", "resume")) for _ in range(2)]
            for number, kind in enumerate((*kinds, "resume", "delete")):
                # one after the other, until nothing is left of it
                after_s = self.random.uniform(number, number + 1) * span_s / 4
                self._schedule(after_s, partial(self._change_until_answered, gate, kind))
        self.scheduler.at(self.faults.end_at + timedelta(seconds=1), self._operator_tick)
        if self.plan.odds.service_misbehaves and self.random.random() < 0.3:
            away_s = self.random.uniform(10, 300)
            self.scheduler.later(self.random.uniform(0, 600), lambda: self._services_away(away_s))

    def _after(self, number: int) -> dict[str, Any]:
        """Each job but the first of its tenant waits for the one before it."""
        if not self.plan.dependent or number < 2:
            return {}
        policy = self.random.choice(("fail", "run"))
        return {"dependencies": [f"key:key-{number - 2}"], "on_dependency_failure": policy}

    def _services_away(self, seconds: float) -> None:
        self.bus.services_away_until = self.scheduler.now + timedelta(seconds=seconds)

    def _schedule(self, after_s: float, work: Callable[[], Awaitable[object]]) -> None:
        self.busy += 1
        self.scheduler.spawn(self._call_later(after_s, work))

    async def _call_later(self, after_s: float, work: Callable[[], Awaitable[object]]) -> None:
        await self.scheduler.pause(after_s)
        try:
            await work()
        except Exception as error:
            self._world.add_violation(f"a caller got {error!r}")
        self.busy -= 1

    async def _post_until_accepted(self, number: int, request: Envelope) -> None:
        """Posts until the response is 202. Some callers give up before, without knowing whether the job exists."""
        longest_wait_s = 1 if self.plan.script else 60
        while True:
            try:
                created = await self.host.serve(
                    create_job(self._world.context, self._world.orchestrations, request, correlation_id=None)
                )
            except (HostDown, Transient):
                if self.faults.occurs(0.1):
                    return
                await self.scheduler.pause(self.random.uniform(0.2, longest_wait_s))
            except DependencyUnknown:
                # the job that it waits for is yet to be submitted; given up, it never will be
                if self.faults.ended:
                    return
                await self.scheduler.pause(self.random.uniform(1, 60))
            except (LimitReached, Overloaded) as refused:
                await self.scheduler.pause(int(refused.headers["Retry-After"]))
            else:
                self.promised[number].add(created.stored.record.job.job_id)
                return

    async def _control_until_answered(
        self, number: int, kind: ControlKind, *, tries: int = 20, longest_wait_s: float = 30
    ) -> None:
        for _ in range(tries):
            # a repeated call is another request
            request = f"request-{next(self._requests)}"
            origin = Origin(cause_id=request, actor="operator", source="http", reason="the simulation")
            for job_id in sorted(self.promised[number]):
                try:
                    await self.host.serve(
                        control_job(self._world.context, self._world.orchestrations, job_id, kind, origin)
                    )
                except (HostDown, Transient):
                    break
                except (JobNotFound, JobArchived, ControlNotPossible):
                    continue
            else:
                if self.promised[number]:
                    return
            if self.faults.occurs(0.2):
                return  # gave up without knowing whether it went through
            await self.scheduler.pause(self.random.uniform(0.2, longest_wait_s))

    async def _change_until_answered(self, gate: Gate, kind: str) -> None:
        by, number = By(actor="operator", reason="the simulation"), self.random.randrange(1, 9)
        for _ in range(20):
            act: Any = {
                "set": partial(set_rule, patch={"max_active": number}, rule_seq=None),
                "hold": partial(hold, until=None),
                "resume": resume,
                "delete": partial(delete_rule, rule_seq=None),
            }[kind]
            try:
                await self.host.serve(act(self._world.context, self._world.orchestrations, gate, by=by))
                return
            except GateNotFound:
                return
            except (HostDown, Transient):
                if self.faults.occurs(0.2):
                    return
                await self.scheduler.pause(self.random.uniform(0.2, 30))

    async def _control(self, job_id: str, kind: ControlKind, origin: Origin) -> None:
        await self.host.serve(control_job(self._world.context, self._world.orchestrations, job_id, kind, origin))

    def _operator_tick(self) -> None:
        """After the faults an operator resumes paused jobs and redrives failed ones: every job must end."""
        self.scheduler.later(OPERATOR_EVERY_S, self._operator_tick)
        for job_id, record in self.ledger.records.items():
            job = record.job
            if job.status in (JobStatus.PAUSED, JobStatus.PAUSING):
                self._schedule(0, partial(self._resume, job_id))
            if self.plan.redrives and job.status is JobStatus.FAILED_FINAL and job.redriven_by is None:
                self._schedule(0, partial(self._redrive, job_id))

    async def _resume(self, job_id: str) -> None:
        origin = Origin(cause_id=f"request-{next(self._requests)}", actor="operator", source="http")
        try:
            await self.host.serve(
                control_job(self._world.context, self._world.orchestrations, job_id, ControlKind.RESUME, origin)
            )
        except (HostDown, JobNotFound, JobArchived, ControlNotPossible):
            return

    async def _redrive(self, job_id: str) -> bool:
        """Redrives a job. Returns whether there was a response."""
        origin = Origin(cause_id=f"request-{next(self._requests)}", actor="operator", source="http")
        try:
            await self.host.serve(redrive_job(self._world.context, self._world.orchestrations, job_id, origin))
        except (HostDown, Transient):
            return False
        except (NotRedrivable, LimitReached):
            return True
        except (JobNotFound, JobArchived):
            if self.plan.retention is None:
                raise
        return True

    async def _redrive_until_answered(self, number: int) -> None:
        for job_id in self.promised[number]:
            while not await self._redrive(job_id):
                await self.scheduler.pause(20)

    def _redrive_some(self) -> None:
        """During the faults: any job, in any state, some twice at once."""
        for job_id in self.ledger.records:
            for _ in range(self.random.choice((0, 0, 1, 2))):
                self._schedule(self.random.uniform(0, 5), partial(self._redrive, job_id))
