"""Webhooks of a simulated world: endpoints that fail, lost messages, and their invariants at rest (R84, R85)."""

from __future__ import annotations

import itertools
import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from shared.core.events.event_types import TERMINAL
from shared.core.records.canonical import digest
from shared.core.webhooks.deliveries import JOB_GONE, MAX_REFUSALS, WAITS, is_for
from shared.core.webhooks.hook_log import EVENTS, PREFIX
from shared.core.webhooks.webhooks import (
    DEFAULT_HOOK,
    Answer,
    Delivery,
    DeliveryState,
    Hook,
    HookAct,
    HookFilter,
    HookState,
)
from shared.errors import BusUnavailable, Transient
from shared.operations.process.context import Context
from shared.operations.sweeper.heal_deliveries import heal_deliveries
from shared.operations.webhooks.deliver_webhooks import deliver, webhook_id
from shared.operations.webhooks.webhooks import HookRequest, change_hook, create_hook, resume_hook
from shared.ports.webhooks import DeliveryCall, decode_call, encode_call
from shared.webhook_refusals import HookNotFound
from tests.contexts import changed
from tests.simulation.bus import LOCK_S
from tests.simulation.host import HostDown

if TYPE_CHECKING:
    from tests.simulation.world import World

LOST, DOUBLED, LATE = 0.08, 0.1, 0.15
HEAL_EVERY_S = 60.0
#: of posts that reach a receiver which is there
_FAILS, _GONE = 0.1, 0.01
_OUTAGES, _OUTAGE_S = 3, 1500.0


class _NoAnswer(Exception):
    """A post without a response, or with a lost response."""


class Webhooks:
    """Webhooks, the queue of their deliveries, and its receivers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._salts = itertools.count(1)
        #: processes
        self.takers: tuple[Context, ...] = ()
        #: responses by `webhook-id`
        self.answers: defaultdict[str, list[int | None]] = defaultdict(list)
        self._outages: list[tuple[datetime, datetime]] = []

    def context(self, context: Context) -> Context:
        """With webhooks, as a process begins."""
        port, feeds = self._world._port, self._world.feeds
        assert feeds is not None
        return changed(
            context,
            settings=replace(context.settings, events="feed", webhook_keys=(("k1", b"k" * 32),)),
            sender=self,
            deliveries=port(_Queue(self), BusUnavailable),
            new_salt=lambda: f"{next(self._salts):032x}",
        )

    def start(self) -> None:
        world = self._world
        for tenant, number in itertools.product(("tenant_0", "tenant_1"), range(2)):
            ends = HookFilter(types=frozenset(TERMINAL)) if number else HookFilter()
            asks = world.random.random() < 0.5
            request = HookRequest(
                url=f"https://{tenant}.example/{number}",
                filter=ends,
                description="past" if asks else "",
                after=0 if asks else None,
            )
            at_s = world.random.uniform(0, min(600.0, world.plan.faults_end_after.total_seconds() / 4))
            world.callers._schedule(at_s, partial(self._create, tenant, request))
        for _ in range(_OUTAGES):
            begins = world.now() + world.plan.faults_end_after * world.random.random()
            self._outages.append((begins, begins + timedelta(seconds=world.random.uniform(1, _OUTAGE_S))))
        world.scheduler.later(HEAL_EVERY_S, self._heal_tick)
        world.scheduler.at(world.faults.end_at + timedelta(seconds=1), self._operator_tick)

    async def _create(self, tenant: str, request: HookRequest) -> None:
        hook, _ = await self._until_answered(lambda: create_hook(self._context(), tenant, request, "user:x"))
        if self._world.random.random() < 0.3:
            await self._world.scheduler.pause(self._world.random.uniform(0, 600))
            for enabled in (False, True):
                await self._until_answered(
                    lambda to=enabled: change_hook(self._context(), tenant, hook.id, {"enabled": to}, "user:x")
                )
                await self._world.scheduler.pause(self._world.random.uniform(0, 300))

    async def _until_answered(self, call: Any) -> Any:
        while True:
            try:
                return await self._world.host.serve(call())
            except (HostDown, Transient):
                await self._world.scheduler.pause(self._world.random.uniform(0.2, 60))

    def _context(self) -> Context:
        return self._world.random.choice(self.takers)

    # --- `shared.ports.webhooks.WebhookSender`

    def check(self, url: str, *, tenant: str) -> None:
        return

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, tenant: str = "") -> Answer:
        try:
            answer: Answer = await self._world.host.through(
                lambda: self._taken(url, headers["webhook-id"]), _NoAnswer()
            )
        except _NoAnswer:
            return Answer(status=None, error="TIMEOUT", took_ms=10_000)
        return answer

    async def _taken(self, url: str, id_: str) -> Answer:
        world, now = self._world, self._world.now()
        if not world.faults.ended and any(begins <= now < ends for begins, ends in self._outages):
            return Answer(status=None, error="CONNECT")
        status = 200
        if is_poison(id_):
            status = 422
        elif world.faults.occurs(_GONE) and "callback" not in url:
            status = 410
        elif world.faults.occurs(_FAILS):
            status = 503
        self.answers[id_].append(status)
        return Answer(status=status, took_ms=20)

    # --- the queue

    def put(self, call: DeliveryCall, at: datetime | None) -> None:
        world = self._world
        if world.faults.occurs(LOST):
            return
        late_s = 400 * world.random.random() if world.faults.occurs(LATE) else world.faults.latency_s()
        wait_s = max(0.0, (at - world.now()).total_seconds()) if at is not None else 0.0
        self._deliver(encode_call(call), wait_s + late_s)
        if world.faults.occurs(DOUBLED):
            self._deliver(encode_call(call), wait_s + 60 * world.random.random())

    def _deliver(self, body: bytes, seconds: float) -> None:
        self._world.scheduler.later(seconds, lambda: self._world.scheduler.spawn(self._take(body)))

    async def _take(self, body: bytes) -> None:
        """Receives as triggers/webhooks_bus.py, and as the bus: an uncompleted message arrives again."""
        world, call = self._world, decode_call(body)
        assert call is not None
        try:
            await world.host.serve(deliver(self._context(), call))
        except HostDown:
            self._deliver(body, LOCK_S)
        except Exception as error:
            world.add_violation(f"deliver raised {error!r}")

    def _heal_tick(self) -> None:
        world = self._world
        world.scheduler.later(HEAL_EVERY_S, self._heal_tick)
        if world.host.up and any(self.unfinished()):
            world.host.spawn(self._heal())

    async def _heal(self) -> None:
        try:
            await heal_deliveries(self._context(), lambda _tenant: True, lambda: False)
        except Exception as error:
            self._world.add_violation(f"heal_deliveries raised {error!r}")

    def _operator_tick(self) -> None:
        """Enables disabled webhooks again."""
        self._world.scheduler.later(600, self._operator_tick)
        for (tenant, hook_id), hook in self._rows.hooks.items():
            if hook.state is not HookState.ENABLED:
                self._world.callers._schedule(0, partial(self._resume, tenant, hook_id))

    async def _resume(self, tenant: str, hook_id: str) -> None:
        try:
            await self._until_answered(lambda: resume_hook(self._context(), tenant, hook_id, "user:operator"))
        except HookNotFound as error:
            self._world.add_violation(repr(error))

    # --- at rest

    @property
    def _rows(self) -> Any:
        assert self._world.feeds is not None
        return self._world.feeds.feed.hooks

    def _deliveries(self, tenant: str, hook_id: str) -> list[Delivery]:
        return [each for of, each in self._rows.deliveries if of == tenant and each.hook_id == hook_id]

    def unfinished(self) -> Iterator[str]:
        for tenant, delivery in self._rows.deliveries:
            if delivery.state is DeliveryState.PENDING:
                yield f"{delivery.event_id} of {tenant} waits for {delivery.hook_id}"
        for hook in self._rows.hooks.values():
            if hook.unlogged:
                yield f"{hook.id} has given up {hook.unlogged} deliveries that no log has"
            if hook.state is not HookState.ENABLED or hook.waits_until is not None or hook.caught_up is not None:
                yield f"{hook.id} is {hook.state}, waits until {hook.waits_until}, has caught up to {hook.caught_up}"

    def check_at_rest(self) -> None:
        feeds = self._world.feeds
        assert feeds is not None
        for (tenant, hook_id), hook in self._rows.hooks.items():
            events = [(each.number, json.loads(each.text)) for each in feeds.feed.events_of(tenant)]
            self._check_log(tenant, hook, [event for _, event in events])
            expected = [(n, "") for n in _expected(hook, events)]
            if hook_id == DEFAULT_HOOK:
                expected = [(number, "done") for number, event in events if event["type"] in TERMINAL]
            found = self._deliveries(tenant, hook_id)
            if sorted((each.number, each.name) for each in found) != sorted(expected):
                self._world.add_violation(f"{hook_id} of {tenant} has {found}, and not {expected}")
            for each in found:
                self._check_delivery(each)
        if not self._rows.hooks:
            self._world.add_violation("there are no hooks")

    def _check_delivery(self, delivery: Delivery) -> None:
        answers = self.answers[webhook_id(delivery)]
        self._world.report.events[f"delivery {delivery.state}"] += 1
        self._world.report.events["posts"] += len(answers)
        if delivery.state is DeliveryState.DELIVERED and 200 not in answers:
            self._world.add_violation(f"{delivery} was never taken: {answers}")
        if delivery.state is DeliveryState.DEAD:
            refused = answers.count(422) >= MAX_REFUSALS and delivery.refusals >= MAX_REFUSALS
            tried = delivery.hook_id == DEFAULT_HOOK and delivery.tries > len(WAITS)
            # its address went with the job, which these plans archive within hours
            gone = delivery.error == JOB_GONE and delivery.job_id not in self._world.ledger.records
            if not refused and not tried and not gone:
                self._world.add_violation(f"{delivery} was given up after {answers}")

    def _check_log(self, tenant: str, hook: Hook, events: Sequence[Mapping[str, Any]]) -> None:
        """Each entry that has a public event is in the feed once, in order."""
        log = self._rows.log_of(tenant, hook.id)
        key = hook.id if hook.id != DEFAULT_HOOK else f"{hook.id}_{digest(tenant)[:32]}"
        expected = [f"{key}:{entry.seq}:0" for entry in log if EVENTS[HookAct(entry.type)] is not None]
        found = [event["id"] for event in events if event["type"].startswith(PREFIX) and event["subject"] == hook.id]
        dead = sum(entry.data["deliveries"] for entry in log if entry.type == HookAct.DEAD)
        if dead != sum(each.state is DeliveryState.DEAD for each in self._deliveries(tenant, hook.id)):
            self._world.add_violation(f"the log of {hook.id} has {dead} deliveries that were given up")
        if found != expected or [entry.seq for entry in log] != list(range(1, len(log) + 1)):
            self._world.add_violation(f"the log of {hook.id} means {expected}, and the feed has {found}")


class _Queue:
    """See `shared.ports.webhooks.DeliveryQueue`."""

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        for call in calls:
            self._webhooks.put(call, at)


def is_poison(id_: str) -> bool:
    """Returns whether every receiver refuses this event: one in nine."""
    return zlib.crc32(id_.encode()) % 9 == 0


def _expected(hook: Hook, events: Sequence[tuple[int, Mapping[str, Any]]]) -> Iterator[int]:
    """Yields matching events, except those of the times in which it was disabled; past ones, if it requested them."""
    asked, is_on = hook.description == "past", True
    for number, event in events:
        if event["subject"] == hook.id:
            is_on = {"webhook.disabled": False, "webhook.resumed": True}.get(event["type"], is_on)
        elif (number >= hook.first or asked) and is_on and is_for(hook, event):
            yield number
