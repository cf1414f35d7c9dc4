"""The simulated world of a few jobs, from their POSTs until no work is left."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from shared.adapters.memory_tables import MemoryTexts
from shared.core.gates.places import PlaceState
from shared.core.incidents import ESCALATED
from shared.core.jobs import durable_names
from shared.core.registry import Registry
from shared.errors import BusUnavailable, LedgerUnavailable, OrchestrationUnavailable, PublishUnavailable, Transient
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.ending import follow_end
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.jobs.settle_step import settle_step
from shared.operations.process import parts
from shared.operations.process.context import Context
from shared.operations.sweeper.sweep import sweep
from shared.settings import Settings, load
from shared.time_limits import RETRY_FOR_S
from tape.durable import Durable, SimulatedOrchestrations
from tape.scheduler import Scheduler
from tests.jobs import START
from tests.memory_bus import MemoryAdmissionCalls, NoCounts
from tests.memory_stores import (
    MemoryAllocations,
    MemoryAnswers,
    MemoryBulks,
    MemoryIndex,
    MemoryMinutes,
    MemoryRejected,
    MemorySweepMark,
    MemoryUsage,
)
from tests.simulation import protocols
from tests.simulation.audit import AuditedLedger
from tests.simulation.bus import LOCK_S, Bus, Lanes, SentReply
from tests.simulation.callers import Callers
from tests.simulation.faults import Faults
from tests.simulation.feeds import Feeds
from tests.simulation.final_checks import MAX_SETTLING, check_final_state
from tests.simulation.host import Host, HostDown, Port
from tests.simulation.owners import Owners
from tests.simulation.plans import Plan
from tests.simulation.services import Services
from tests.simulation.webhooks import Webhooks

SWEEP_EVERY_S = 60.0
#: triggers/prune_timer.py
_PRUNE_EVERY_S = 3600.0
#: triggers/replies_bus.py
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 15.0

#: every final failure of a service is an incident
_ESCALATED = {"escalate": (*ESCALATED, "PDF_ENCRYPTED")}
_REGISTRY = Registry(
    replace(each, definition=each.definition.model_copy(update=_ESCALATED)) for each in protocols.registry()
)
_ENVIRONMENT = {
    "LUCIUS_STORAGE_BACKEND": "memory",
    "LUCIUS_AUTH_MODE": "none",
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    # each sweep reads every lane
    "LUCIUS_SERVICEBUS_LANES": "2",
}


@dataclass
class Report:
    """Counts and violations of a simulated world."""

    seed: int
    violations: list[str] = field(default_factory=list)
    jobs: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    behaviours: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    crashes: int = 0
    steps: int = 0
    #: from the last fault until no work was left
    settled_after: timedelta = timedelta()


def simulate(seed: int, plan: Plan) -> Report:
    """Runs one world to its end. Everything in it follows from `seed` and `plan`."""
    return asyncio.run(World(seed, plan).run())


def _settings(plan: Plan) -> Settings:
    settings = replace(
        load(_ENVIRONMENT),
        max_inflight_per_tenant=plan.tenant_limit,
        max_inflight=plan.platform_limit,
        overflow=plan.overflow,
    )
    if plan.retention is None:
        return settings
    days = plan.retention / timedelta(days=1)
    return replace(settings, idempotency_ttl_days=days, retention_days=days)


class World:
    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan = plan
        self.report = Report(seed)
        self.scheduler = Scheduler(seed, START)
        self.faults = Faults(self.scheduler, plan.odds, START + plan.faults_end_after, plan.crash_at)
        self.random = self.scheduler.random
        self.host = Host(self.scheduler, self.faults)
        self.bus = Bus(self.scheduler, self.faults)
        self.bus.max_deliveries = plan.max_deliveries
        self.lanes = Lanes(self.bus, self.scheduler)
        self.services = Services(self.scheduler, self.bus, self.faults)
        self.ledger = AuditedLedger(self.add_violation, lambda: self.scheduler.now)
        self.index = MemoryIndex()
        self.rejected = MemoryRejected()
        self.archive = MemoryTexts()
        self._job_numbers = itertools.count(1)
        self._leases = itertools.count(1)
        self.context = Context(
            settings=_settings(plan),
            registry=_REGISTRY,
            ledger=self._port(self.ledger, LedgerUnavailable),
            index=self._port(self.index, LedgerUnavailable),
            admissions=self._port(self.index.admissions, LedgerUnavailable),
            incidents=self._port(self.index.incidents, LedgerUnavailable),
            allocations=self._port(MemoryAllocations(), LedgerUnavailable),
            bulks=self._port(MemoryBulks(), LedgerUnavailable),
            rejected=self._port(self.rejected, LedgerUnavailable),
            archive=self._port(self.archive, LedgerUnavailable),
            usage=MemoryUsage(),
            answers=MemoryAnswers(),
            sweep_marks=MemorySweepMark(),
            minutes=MemoryMinutes(),
            bus=parts.Bus(
                publisher=self._port(self.bus, PublishUnavailable),
                lanes=self._port(self.lanes, BusUnavailable),
                admission_calls=self._port(MemoryAdmissionCalls(), BusUnavailable),
                dead_replies=self._port(self.bus, BusUnavailable),
                counts=NoCounts(),
            ),
            follow_end=follow_end,
            clock=self,
            sleep=self.scheduler.pause,
            random=self.random.random,
            new_job_id=lambda: f"job_{next(self._job_numbers)}",
            new_lease=lambda: f"lease {next(self._leases)}",
            new_salt=lambda: "",
        )
        self.feeds = Feeds(self) if plan.events else None
        self.webhooks = Webhooks(self) if plan.hooks else None
        if self.feeds is not None:
            self.feeds.watch()
            self.context = self.feeds.context(self.context)
        self._others = self._other_processes()
        self.durable = Durable(
            self.scheduler,
            self.faults,
            {durable_names.DISPATCH: self._dispatch, durable_names.SETTLE: self._settle},
            plan.visibility_timeout,
        )
        self.durable.spawn = self.host.spawn
        self.orchestrations: Any = self._port(
            SimulatedOrchestrations(self.durable, self.scheduler, self.faults), OrchestrationUnavailable
        )
        self.host.on_stop, self.host.on_start = self.durable.stop, self._process_starts
        self.bus.on_publish = self.ledger.check_directive
        self.bus.on_directive = self.services.take
        if plan.one_worker_s is not None:
            self.services.work_one_at_a_time(plan.one_worker_s)
        if plan.engine_away is not None:
            begins_s, lasts_s = plan.engine_away
            self.durable.away = (START + timedelta(seconds=begins_s), START + timedelta(seconds=begins_s + lasts_s))
        self.bus.on_reply = self._receive
        self.callers = Callers(self)
        self.owners = Owners(self)

    def _process_starts(self) -> None:
        # the memory of the process is lost with it
        self.context = replace(self.context, process=parts.Process())
        if self.feeds is not None:
            self.context = self.feeds.context(self.context)
        self._others = self._other_processes()
        self.durable.start()

    def _other_processes(self) -> tuple[Context, Context]:
        """Those of the activities and of the replies; by an even seed they are the callers' own.

        On Flex Consumption they are apart, and each remembers its own commits only.
        """
        if self.report.seed % 2 == 0:
            return self.context, self.context
        durable, lanes = (replace(self.context, process=parts.Process()) for _ in range(2))
        return durable, lanes

    def now(self) -> Any:
        return self.scheduler.now

    def add_violation(self, violation: str) -> None:
        self.report.violations.append(f"at {self.scheduler.now:%d %H:%M:%S.%f}: {violation}")

    def _port(self, target: object, fault: type[Exception]) -> Any:
        return Port(self.host, target, fault)

    # --- the run

    async def run(self) -> Report:
        self.callers.start()
        if self.webhooks is not None:
            self.webhooks.start()
        self.scheduler.later(SWEEP_EVERY_S, self._sweep_tick)
        if self.feeds is not None:
            self.scheduler.later(_PRUNE_EVERY_S, self._prune_tick)
        try:
            await self.scheduler.run(self.faults.end_at + MAX_SETTLING, self._over)
            await check_final_state(self)
        finally:
            await self.scheduler.close()
            self.durable.store.close()
        return self.report

    def _over(self) -> bool:
        if self.plan.owners_checked:
            self.owners.check()
        self._check_admissions()
        if self.report.violations:
            return True
        if self.index.active:
            # the cheapest check of remaining work, made at every event
            return False
        return self.faults.ended and self.callers.busy == 0 and not any(self.unfinished())

    def _check_admissions(self) -> None:
        """Checks at every event that the admission state counts the active jobs and the FREED rows, and never exceeds a
        limit.
        """
        limit, of_all = self.plan.tenant_limit, self.plan.platform_limit
        if limit is None and of_all is None:
            return
        active = self.index.active.values()
        inside = Counter(row.tenant for row in active if row.counted_place.state is PlaceState.ADMITTED)
        for tenant, stored in self.index.admissions.admissions.items():
            freed = (each for of, each in self.index.admissions.all_freed if of == tenant)
            counted = inside[tenant] + sum(not each.place.is_staged for each in freed)
            is_wrong = stored.admission.counting_until is None and stored.admission.active != counted
            if is_wrong or (limit is not None and inside[tenant] > limit):
                self.add_violation(
                    f"{inside[tenant]} jobs of {tenant} are active, its counts are {stored.admission.active_by_kind}"
                )
        if of_all is not None and inside.total() > of_all:
            self.add_violation(f"{inside.total()} jobs are inside, of {of_all}")

    def unfinished(self) -> Iterator[str]:
        """Yields the unfinished work, one line each."""
        for job_id, record in self.ledger.records.items():
            if not record.job.status.terminal:
                yield f"{job_id} is {record.job.status}"
        yield from (f"{job_id} has an ACTIVE row" for _, job_id in self.index.active)
        if self.plan.tenant_limit is not None or self.plan.platform_limit is not None:
            yield from (f"{each.job_id} is FREED" for _, each in self.index.admissions.all_freed)
        for one in self.durable.instances():
            if not one.status.is_terminal:
                yield f"orchestration {one.instance_id} waits for {', '.join(self.durable.waits_for(one.instance_id))}"
        yield from (f"{one.message_id} was not received" for one in self.bus.replies if not one.done)
        yield from (f"{one.message_id} lies dead-lettered" for one in self.bus.dead_letters)
        if self.plan.retention:
            yield from (f"{ended.job_id} is to be archived" for ended in self.index.ended)
        if self.feeds is not None:
            yield from self.feeds.unfinished()
        if self.webhooks is not None:
            yield from self.webhooks.unfinished()

    # --- activities and triggers, as the app's own are

    async def _dispatch(self, **request: Any) -> dict[str, Any]:
        return (await dispatch_step(self._others[0], self.orchestrations, **request)).to_json()

    async def _settle(self, **request: Any) -> dict[str, Any]:
        return (await settle_step(self._others[0], self.orchestrations, **request)).to_json()

    def _receive(self, sent: SentReply) -> None:
        if not self.host.up:
            self.bus.redeliver(sent, 5)
            return
        sent.deliveries += 1
        self.scheduler.spawn(self._locked(sent))

    async def _locked(self, sent: SentReply) -> None:
        """Handles a delivery as the bus does: an uncompleted message is delivered again."""
        try:
            await self.host.serve(self._take(sent))
        except HostDown:
            self.bus.redeliver(sent, LOCK_S)
        except Transient:
            self.bus.redeliver(sent, 0)
        except Exception as error:
            self.add_violation(f"take_reply raised {error!r}")
        else:
            if self.faults.occurs(self.faults.odds.completion_lost):
                self.bus.redeliver(sent, LOCK_S)
            else:
                sent.done = True

    async def _take(self, sent: SentReply) -> None:
        """triggers/replies_bus.py: a transient fault is retried in here, and only then raised."""
        message = ReplyMessage(
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
                return await receive_reply(self._others[1], self.orchestrations, message)
            except Transient:
                if (self.scheduler.now - began).total_seconds() + wait_s > RETRY_FOR_S:
                    raise
                message = replace(message, tried_before=True)
                await self.scheduler.pause(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    def _sweep_tick(self) -> None:
        self.scheduler.later(SWEEP_EVERY_S, self._sweep_tick)
        now = self.scheduler.now
        due = any(active.check_at <= now for active in self.index.active.values())
        # the sweeps start jobs of a queue that has no other call
        due = due or any(active.place and active.place.is_staged for active in self.index.active.values())
        due = due or bool(self.index.admissions.all_freed)
        due = due or any(ended.clear_at <= now for ended in self.index.ended)
        due = due or (self.feeds is not None and self.feeds.is_behind())
        if self.host.up and (due or self.bus.dead_letters):
            for _ in range(2 if self.faults.occurs(0.1) else 1):
                self.host.spawn(self._sweep())

    def _prune_tick(self) -> None:
        assert self.feeds is not None
        self.scheduler.later(_PRUNE_EVERY_S, self._prune_tick)
        self.scheduler.spawn(self.feeds.prune())

    async def _sweep(self) -> None:
        with self.owners.sweeping() as done:
            try:
                swept = await sweep(self.context, self.orchestrations)
            except Transient:
                return
            except Exception as error:
                self.add_violation(f"sweep raised {error!r}")
                return
            done(swept)
        self.report.repairs.update(action.kind.code for action in swept.actions)
