"""The whole world of a few jobs, from their POSTs until nothing is owed any more."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from orchestrations import names
from shared.adapters.memory import MemoryArchive, MemoryIndex, MemoryRejected
from shared.contracts.envelope import Envelope
from shared.core.history import Origin
from shared.core.occurrences import ControlKind
from shared.core.plan import WITHDRAWN
from shared.core.states import JobStatus
from shared.errors import (
    BusUnavailable,
    LedgerUnavailable,
    OrchestrationUnavailable,
    PublishUnavailable,
    Refusal,
    Transient,
)
from shared.operations.admission import Admission
from shared.operations.context import Context
from shared.operations.control_job import control_job
from shared.operations.create_job import create_job
from shared.operations.dispatch_step import dispatch_step
from shared.operations.redrive_job import redrive_job
from shared.operations.settle_step import settle_step
from shared.operations.sweep import sweep
from shared.operations.take_reply import Arrived, take_reply
from shared.settings import load
from tests.jobs import START, envelope
from tests.simulation import protocols
from tests.simulation.audit import AuditedLedger
from tests.simulation.bus import LOCK_S, Bus, SentReply
from tests.simulation.chaos import Chaos, CrashAt, Odds
from tests.simulation.durable import Durable, SimulatedOrchestrations
from tests.simulation.host import Host, HostDown, Port
from tests.simulation.scheduler import Scheduler
from tests.simulation.services import Services

SWEEP_EVERY_S = 60.0
OPERATOR_EVERY_S = 600.0
#: triggers/replies_bus.py
_MAX_RETRYING_S, _FIRST_WAIT_S, _LONGEST_WAIT_S = 240.0, 0.5, 15.0
#: after the last fault, all must be over within this
PATIENCE = timedelta(hours=24)

_REGISTRY = protocols.registry()
_ENVIRONMENT = {
    "LUCIUS_STORAGE_BACKEND": "memory",
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    # each sweep looks at every lane
    "LUCIUS_SERVICEBUS_LANES": "2",
}


@dataclass(frozen=True)
class Plan:
    """What people do in this world."""

    jobs: int = 2
    posters: int = 1
    #: of every job, at random times
    controls: int = 0
    #: of every job, so many seconds after its POST
    script: tuple[tuple[float, ControlKind], ...] = ()
    #: faults end then
    calm_after: timedelta = timedelta(hours=1)
    odds: Odds = field(default_factory=Odds)
    crash_at: CrashAt | None = None
    request_types: tuple[str, ...] = ("OCR_EMBEDDING_SIS",)
    #: every job is redriven, so many seconds after its POST
    redriven_after_s: float | None = None
    #: jobs are redriven, amid the faults too
    redrives: bool = False
    #: the tenant's limit of active jobs; None: no limit
    tenant_limit: int | None = None
    #: how often a delivery fails before the bus dead-letters the message
    max_deliveries: int = 10


@dataclass
class Told:
    """What a simulated world was like, for the tests that look at it."""

    seed: int
    violations: list[str] = field(default_factory=list)
    jobs: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    lives: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    crashes: int = 0
    steps: int = 0
    #: from the last fault until nothing was owed
    settled_after: timedelta = timedelta()


def simulate(seed: int, plan: Plan) -> Told:
    """Runs one world to its end. Everything in it follows from `seed` and `plan`."""
    return asyncio.run(World(seed, plan).run())


class World:
    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan = plan
        self.told = Told(seed)
        self.scheduler = Scheduler(seed, START)
        self.chaos = Chaos(self.scheduler, plan.odds, START + plan.calm_after, plan.crash_at)
        self.random = self.scheduler.random
        self.host = Host(self.scheduler, self.chaos)
        self.bus = Bus(self.scheduler, self.chaos)
        self.bus.max_deliveries = plan.max_deliveries
        self.services = Services(self.scheduler, self.bus, self.chaos)
        self.ledger = AuditedLedger(self.report, lambda: self.scheduler.now)
        self.index = MemoryIndex()
        self.rejected = MemoryRejected()
        self._job_numbers = itertools.count(1)
        self._requests = itertools.count(1)
        self.context = Context(
            settings=replace(load(_ENVIRONMENT), max_inflight_per_tenant=plan.tenant_limit),
            registry=_REGISTRY,
            ledger=self._port(self.ledger, LedgerUnavailable),
            index=self._port(self.index, LedgerUnavailable),
            rejected=self._port(self.rejected, LedgerUnavailable),
            archive=self._port(MemoryArchive(), LedgerUnavailable),
            publisher=self._port(self.bus, PublishUnavailable),
            lanes=self._port(self.bus, BusUnavailable),
            dead_replies=self._port(self.bus, BusUnavailable),
            clock=self,
            sleep=self.scheduler.pause,
            random=self.random.random,
            admission=Admission(),
            new_job_id=lambda: f"job_{next(self._job_numbers)}",
        )
        self.durable = Durable(self.scheduler, self.chaos, {names.DISPATCH: self._dispatch, names.SETTLE: self._settle})
        self.durable.spawn = self.host.spawn
        self.orchestrations: Any = self._port(
            SimulatedOrchestrations(self.durable, self.scheduler, self.chaos), OrchestrationUnavailable
        )
        self.host.on_stop, self.host.on_start = self.durable.stop, self._process_starts
        self.bus.on_publish = self.ledger.check_directive
        self.bus.on_directive = self.services.take
        self.bus.on_reply = self._receive
        self.busy_people = 0
        #: job ids that were promised by a 202, per request
        self.promised: dict[int, set[str]] = {}

    def _process_starts(self) -> None:
        # what a process keeps for itself is gone with it
        self.context = replace(self.context, admission=Admission())
        self.durable.start()

    def now(self) -> Any:
        return self.scheduler.now

    def report(self, violation: str) -> None:
        self.told.violations.append(f"at {self.scheduler.now:%d %H:%M:%S.%f}: {violation}")

    def _port(self, target: object, fault: type[Exception]) -> Any:
        return Port(self.host, target, fault)

    # --- the run

    async def run(self) -> Told:
        self._people()
        self.scheduler.later(SWEEP_EVERY_S, self._sweep_tick)
        self.scheduler.at(self.chaos.calm_at + timedelta(seconds=1), self._operator_tick)
        try:
            await self.scheduler.run(self.chaos.calm_at + PATIENCE, self._over)
            await self._close_the_books()
        finally:
            await self.scheduler.close()
            self.durable.store.close()
        return self.told

    def _over(self) -> bool:
        return bool(self.told.violations) or (self.chaos.calm and self.busy_people == 0 and not self.owed())

    def owed(self) -> list[str]:
        """What is still to be done, in words."""
        live = [
            f"{job_id} is {record.job.status}"
            for job_id, record in self.ledger.records.items()
            if not record.job.status.terminal
        ]
        active = [f"{job_id} has an ACTIVE row" for _, job_id in self.index._active]
        running = [
            f"orchestration {one.instance_id} waits for {', '.join(self.durable.waits_for(one.instance_id))}"
            for one in self.durable.instances()
            if not one.status.is_terminal
        ]
        waiting = [f"{one.message_id} was not received" for one in self.bus.replies if not one.done]
        dead = [f"{one.message_id} lies dead-lettered" for one in self.bus.dead_letters]
        return live + active + running + waiting + dead

    # --- activities and triggers, as the app's own are

    async def _dispatch(self, **request: Any) -> dict[str, Any]:
        return (await dispatch_step(self.context, **request)).to_json()

    async def _settle(self, **request: Any) -> dict[str, Any]:
        return (await settle_step(self.context, **request)).to_json()

    def _receive(self, sent: SentReply) -> None:
        if not self.host.up:
            self.bus.redeliver(sent, 5)
            return
        sent.deliveries += 1
        self.scheduler.spawn(self._locked(sent))

    async def _locked(self, sent: SentReply) -> None:
        """The bus's side of a delivery: what is not completed is delivered again."""
        try:
            await self.host.serve(self._take(sent))
        except HostDown:
            self.bus.redeliver(sent, LOCK_S)
        except Transient:
            self.bus.redeliver(sent, 0)
        except Exception as error:
            self.report(f"take_reply raised {error!r}")
        else:
            if self.chaos.strikes(self.chaos.odds.completion_lost):
                self.bus.redeliver(sent, LOCK_S)
            else:
                sent.done = True

    async def _take(self, sent: SentReply) -> None:
        """triggers/replies_bus.py: a transient fault is retried in here, and only then raised."""
        message = Arrived(
            body=sent.body,
            lane=sent.lane,
            message_id=sent.message_id,
            sequence_number=sent.sequence_number,
            delivery_count=sent.deliveries,
            enqueued_at=sent.enqueued_at,
        )
        began, wait_s = self.scheduler.now, _FIRST_WAIT_S
        while True:
            try:
                return await take_reply(self.context, self.orchestrations, message)
            except Transient:
                if (self.scheduler.now - began).total_seconds() + wait_s > _MAX_RETRYING_S:
                    raise
                message = replace(message, tried_before=True)
                await self.scheduler.pause(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _sweep_tick(self) -> None:
        self.scheduler.later(SWEEP_EVERY_S, self._sweep_tick)
        now = self.scheduler.now
        due = any(active.check_at <= now for active in self.index._active.values())
        if self.host.up and (due or self.bus.dead_letters):
            for _ in range(2 if self.chaos.strikes(0.1) else 1):
                self.host.spawn(self._sweep())

    async def _sweep(self) -> None:
        try:
            swept = await sweep(self.context, self.orchestrations)
        except Transient:
            return
        except Exception as error:
            self.report(f"sweep raised {error!r}")
            return
        self.told.repairs.update(action["action"].split(" ")[0] for action in swept.actions)

    # --- people

    def _people(self) -> None:
        span_s = self.plan.calm_after.total_seconds()
        for number in range(self.plan.jobs):
            request_type = self.random.choice(self.plan.request_types)
            payload = {"sis": {"prompt_set": ["When does the lease end?"]}}
            wanted = envelope(
                tenant_id=f"tenant_{number % 2}",
                request_type=request_type,
                payload=payload,
                idempotency_key=f"key-{number}",
            )
            at_s = self.random.uniform(0, min(600.0, span_s / 4))
            self.promised[number] = set()
            for poster in range(self.plan.posters):
                later_s = self.random.choice((0.0, 0.0, 0.01, 30.0, 400.0)) * self.random.random() if poster else 0.0
                self._does(at_s + later_s, partial(self._posts, number, wanted))
            if self.plan.redriven_after_s is not None:
                self._does(at_s + self.plan.redriven_after_s, partial(self._redrives_until_answered, number))
            for script_s, kind in self.plan.script:
                self._does(at_s + script_s, partial(self._asks, number, kind))
            for _ in range(self.plan.controls):
                kind = self.random.choice([ControlKind.PAUSE] * 3 + [ControlKind.RESUME] * 3 + [ControlKind.CANCEL])
                self._does(
                    at_s + self.random.choice((5, 60, 900)) * self.random.random(), partial(self._asks, number, kind)
                )
        for _ in range(2 if self.plan.redrives else 0):
            self.scheduler.later(self.random.uniform(0, span_s), self._perhaps_redrives)
        if self.plan.odds.service_misbehaves and self.random.random() < 0.3:
            away_s = self.random.uniform(10, 300)
            self.scheduler.later(self.random.uniform(0, 600), lambda: self._services_away(away_s))

    def _services_away(self, seconds: float) -> None:
        self.bus.services_away_until = self.scheduler.now + timedelta(seconds=seconds)

    def _does(self, after_s: float, work: Callable[[], Awaitable[object]]) -> None:
        self.busy_people += 1
        self.scheduler.spawn(self._person(after_s, work))

    async def _person(self, after_s: float, work: Callable[[], Awaitable[object]]) -> None:
        await self.scheduler.pause(after_s)
        try:
            await work()
        except Exception as error:
            self.report(f"a caller met {error!r}")
        self.busy_people -= 1

    async def _posts(self, number: int, wanted: Envelope) -> None:
        """Again and again until the answer is 202; some lose their patience, of whose job nobody may ever hear."""
        while True:
            try:
                created = await self.host.serve(
                    create_job(self.context, self.orchestrations, wanted, correlation_id=None)
                )
            except (HostDown, Transient):
                if self.chaos.strikes(0.1):
                    return
                await self.scheduler.pause(self.random.uniform(0.2, 60))
            except Refusal as refusal:
                if refusal.status != 429:
                    raise
                await self.scheduler.pause(float(refusal.headers["Retry-After"]))
            else:
                self.promised[number].add(created.stored.record.job.job_id)
                return

    async def _asks(self, number: int, kind: ControlKind) -> None:
        for _ in range(20):
            # asked again is another request
            request = f"request-{next(self._requests)}"
            origin = Origin(cause_id=request, actor="operator", source="http", reason="the simulation")
            for job_id in sorted(self.promised[number]):
                try:
                    await self.host.serve(control_job(self.context, self.orchestrations, job_id, kind, origin))
                except (HostDown, Transient):
                    break
                except Refusal as refusal:
                    if refusal.status not in (404, 409):
                        raise
            else:
                if self.promised[number]:
                    return
            if self.chaos.strikes(0.2):
                return  # gave up without knowing whether it went through
            await self.scheduler.pause(self.random.uniform(0.2, 30))

    def _operator_tick(self) -> None:
        """In the calm somebody resumes what was left paused and redrives what failed: all of it must end."""
        self.scheduler.later(OPERATOR_EVERY_S, self._operator_tick)
        for job_id, record in self.ledger.records.items():
            job = record.job
            if job.status in (JobStatus.PAUSED, JobStatus.PAUSING):
                self._does(0, partial(self._resumes, job_id))
            if self.plan.redrives and job.status is JobStatus.FAILED_FINAL and job.redriven_by is None:
                self._does(0, partial(self._redrives, job_id))

    async def _resumes(self, job_id: str) -> None:
        origin = Origin(cause_id=f"request-{next(self._requests)}", actor="operator", source="http")
        try:
            await self.host.serve(control_job(self.context, self.orchestrations, job_id, ControlKind.RESUME, origin))
        except (HostDown, Refusal):
            return

    async def _redrives(self, job_id: str) -> bool:
        """Whether there was an answer."""
        origin = Origin(cause_id=f"request-{next(self._requests)}", actor="operator", source="http")
        try:
            await self.host.serve(redrive_job(self.context, self.orchestrations, job_id, origin))
        except (HostDown, Transient):
            return False
        except Refusal as refusal:
            if refusal.status not in (409, 429):
                raise
        return True

    async def _redrives_until_answered(self, number: int) -> None:
        for job_id in self.promised[number]:
            while not await self._redrives(job_id):
                await self.scheduler.pause(20)

    def _perhaps_redrives(self) -> None:
        """Amid the faults as well, whatever the job is, now and then twice at once."""
        for job_id in self.ledger.records:
            for _ in range(self.random.choice((0, 0, 1, 2))):
                self._does(self.random.uniform(0, 5), partial(self._redrives, job_id))

    # --- the end

    async def _close_the_books(self) -> None:
        told = self.told
        told.calls, told.crashes, told.steps = self.host.calls, self.host.crashes, self.scheduler.events
        told.settled_after = max(self.scheduler.now - self.chaos.calm_at, timedelta())
        told.lives.update(self.services.lives)
        if told.violations:
            return
        if self.busy_people:
            self.report(f"{self.busy_people} callers were never answered")
        for left in self.owed():
            self.report(f"still owed after {PATIENCE}: {left}")
        for hung in self.durable.hung():
            self.report(f"Azure would hang: {hung}")
        for number, job_ids in self.promised.items():
            if len(job_ids) > 1:
                self.report(f"request {number} became {len(job_ids)} jobs: {sorted(job_ids)}")
        for tenant, count in self.index._gates.items():
            if count:
                self.report(f"GATE of {tenant} counts {count} and nothing is active")
        for job_id, record in self.ledger.records.items():
            await self._audit(job_id, record)
        if told.violations:
            for job_id in self.ledger.records:
                told.violations.append(f"history of {job_id}:\n{self.ledger.history(job_id)}")

    async def _audit(self, job_id: str, record: Any) -> None:
        job = record.job
        withdrawn = job.error_code == WITHDRAWN
        self.told.jobs["WITHDRAWN" if withdrawn else job.status.value] += 1
        events = await self.ledger.events(job_id, limit=100_000)
        self.told.events.update(event.type for event in events)
        try:
            await self.ledger.check_history(job_id)
        except ValueError as broken:
            self.report(f"{job_id}: {broken}")
        if withdrawn:
            if any(job_id in promised for promised in self.promised.values()):
                self.report(f"{job_id} was promised by a 202 and withdrawn")
            return
        self._audit_redrive(job)
        for step in record.steps:
            if step.status == "SUCCEEDED" and not step.carried:
                said = self.services.results.get((step.result_ref or {}).get("uri", ""))
                if said != (job_id, step.step_id, step.attempt_no, step.lease_id):
                    self.report(f"{job_id}: {step.step_id} succeeded with a result that its attempt never sent")
        if job.status is JobStatus.SUCCEEDED and job.final_output != record.steps[-1].result_ref:
            self.report(f"{job_id}: its output is not its last step's")
        [row] = [row for row in self.index._listed[job.tenant].values() if row.job_id == job_id]
        if row.status != job.status:
            self.report(f"{job_id} is {job.status} and listed as {row.status}")
        claim = await self.index.read_claim(job.tenant, job.idempotency_hash)
        if claim is None or claim.job_id != job_id or claim.expires_at is None:
            self.report(f"{job_id} ended and its claim lives on: {claim}")

    def _audit_redrive(self, job: Any) -> None:
        """A job and the one that took its place know each other, and there is one such at the most."""
        heirs = [
            other.job.job_id
            for other in self.ledger.records.values()
            if other.job.redrive_of == job.job_id and other.job.error_code != WITHDRAWN
        ]
        if heirs != [one for one in (job.redriven_by,) if one is not None]:
            self.report(f"{job.job_id} was redriven by {job.redriven_by}, and as its redrive there are {heirs}")
        self.told.jobs.update(["redriven"] * len(heirs))
