"""The app over tables in memory, in virtual time: its operations, its queues, orchestrations, services and sweeper.

A request takes no time. So each wait in such a world is a wait of the app: a backoff, a timer, a sweep.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.adapters.memory_tables import MemoryTexts
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.adapters.tables.minutes import TablesMinutes
from shared.adapters.tables.rejected import TablesRejected
from shared.adapters.tables.sweep_mark import TablesAnswers, TablesSweepMark
from shared.adapters.tables.usage import TablesUsage
from shared.contracts.messages import Directive
from shared.core.events.hints import Hint, decode_hint, encode_hint
from shared.core.webhooks.webhooks import Answer
from shared.errors import LuciusError
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.events.feed_writer import write_feed
from shared.operations.gates.allocations import allocate_on_call
from shared.operations.gates.find_gate import find_platform_gate_by_id
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.jobs.ending import follow_end
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.process.context import Context
from shared.operations.process.hinting import Hinting
from shared.operations.process.parts import Bus, Events, Webhooks
from shared.operations.quotas.breaker_incidents import answer_call
from shared.operations.sweeper.sweep import sweep
from shared.operations.webhooks.deliver_webhooks import deliver
from shared.ports.bus import DeadReply
from shared.ports.webhooks import DeliveryCall
from shared.settings import load
from tape.scheduler import Scheduler
from tests import jobs
from tests.fake_tables import FakeAccount
from tests.isolation.orchestrations import Orchestrations
from tests.memory_bus import MemoryDeadReplies, NoCounts
from tests.operations.conftest import QuietLanes

#: half a minute before a full hour, at which the sweeper compares the most
BEGIN = datetime(2026, 1, 27, 9, 59, 30, tzinfo=jobs.START.tzinfo)
SWEEP_EVERY_S = 60
#: of a message: about two minutes
_MAX_DELIVERIES = 10

_ENVIRONMENT = {
    "LUCIUS_STORAGE_BACKEND": "memory",
    "LUCIUS_AUTH_MODE": "none",
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    "LUCIUS_SERVICEBUS_LANES": "2",
    # a job whose attempts all fail opens an incident, and counts for a breaker
    "LUCIUS_MAX_ATTEMPTS": "2",
    "LUCIUS_EXECUTION_BACKOFF_SECONDS": "1",
}


_KEYS = (("k1", b"1" * 32),)
#: tenant and name of the job that a task creates
CREATES: ContextVar[str] = ContextVar("CREATES", default="redriven")

#: in the task of a sweep
IN_SWEEP: ContextVar[bool] = ContextVar("IN_SWEEP", default=False)


class App:
    """One process of the app, with its queues, timers and services."""

    def __init__(self, *, events: bool) -> None:
        self.scheduler = Scheduler(1, BEGIN)
        self.account = FakeAccount()
        self.account.counts = lambda: not IN_SWEEP.get()
        #: messages that left the app, by the job's id
        self.sent: Counter[str] = Counter()
        #: functions that raised anything but an error of LUCIUS
        self.raised: list[str] = []
        #: errors that functions raised, which the host logs, and the API as LEDGER_REFUSED or DEPENDENCY_UNAVAILABLE
        self.reported: list[str] = []
        self._salts = itertools.count(1)
        self._ids: Counter[str] = Counter()
        account: Any = self.account
        self.orchestrations = Orchestrations(self)
        self.services = Services(self)
        self.dead = MemoryDeadReplies()
        self.context = Context(
            settings=replace(load(_ENVIRONMENT), events="feed" if events else "off", webhook_keys=_KEYS),
            registry=jobs.registry(),
            ledger=TablesLedger(account, "ledger", _Texts()),
            index=TablesIndex(account, "index", "tenants", sleep=self.scheduler.pause, jitter=lambda: 0.5),
            admissions=TablesAdmissions(account, "index", "gates"),
            allocations=TablesAllocations(account, "gates"),
            bulks=TablesBulks(account, "index", "gates"),
            incidents=TablesIncidents(account, "index", "gates"),
            rejected=TablesRejected(account, "rejected", _Texts()),
            archive=MemoryTexts(),
            bus=Bus(
                publisher=self.services,
                lanes=QuietLanes(),
                admission_calls=_Calls(self),
                dead_replies=self.dead,
                counts=NoCounts(),
            ),
            answers=TablesAnswers(account, "gates"),
            sweep_marks=TablesSweepMark(account, "index"),
            minutes=TablesMinutes(account, "index"),
            usage=TablesUsage(account, "index"),
            events=Events(
                feed=TablesFeed(account, "feed", self.now),
                hooks=TablesHooks(account, "feed"),
                hinting=Hinting(_Hints(self), self),
            )
            if events
            else None,
            webhooks=Webhooks(sender=_Receiver(), deliveries=_Deliveries(self)) if events else None,
            follow_end=follow_end,
            clock=self,
            sleep=self.scheduler.pause,
            random=lambda: 0.5,
            new_job_id=self._new_job_id,
            new_lease=lambda: f"lease-{next(self._salts)}",
            new_salt=lambda: f"{next(self._salts):032x}",
        )

    def now(self) -> datetime:
        return self.scheduler.now

    def _new_job_id(self) -> str:
        """Returns an id derived from the request, so that backoffs, whose jitter derives from the id, are the same in
        each world.
        """
        name = CREATES.get()
        self._ids[name] += 1
        return f"job_{name}_{self._ids[name]}"

    def seconds(self) -> float:
        """Since the beginning."""
        return (self.now() - BEGIN).total_seconds()

    def note_raised(self, name: str, error: Exception) -> None:
        """The host logs an error of a function; each must be a LuciusError."""
        self.reported.append(f"{name}: {error}")
        if not isinstance(error, LuciusError):
            self.raised.append(f"{name}: {error!r}")

    def enqueue(
        self,
        name: str,
        work: Callable[[], Awaitable[object]],
        at: datetime | None = None,
        given_up: Callable[[], None] | None = None,
    ) -> None:
        """Enqueues a message whose function is `work`: it is delivered again after an error, as by the bus."""

        async def taken() -> None:
            wait_s = 0.5
            for _ in range(_MAX_DELIVERIES):
                try:
                    await work()
                    return
                except Exception as error:
                    self.note_raised(name, error)
                await self.scheduler.pause(wait_s)
                wait_s = min(2 * wait_s, 15)
            if given_up is not None:
                given_up()

        due = max(at or self.now(), self.now()) + timedelta(milliseconds=50)
        self.scheduler.at(due, lambda: self.scheduler.spawn(taken()))

    def start_sweeps(self) -> None:
        self.scheduler.later(SWEEP_EVERY_S / 2, self._sweep_tick)

    def _sweep_tick(self) -> None:
        self.scheduler.later(SWEEP_EVERY_S, self._sweep_tick)
        self.scheduler.spawn(self._sweep())

    async def _sweep(self) -> None:
        IN_SWEEP.set(True)
        try:
            await sweep(self.context, self.orchestrations)
        except Exception as error:
            self.note_raised("sweep", error)


class _Texts:
    async def put(self, name: str, text: str) -> None:
        raise NotImplementedError

    get: Any = put

    async def remove(self, prefix: str) -> None:
        """Nothing is there."""


class _Calls:
    """The queue `lucius-admission` and its function, as `triggers.admission_bus` has it."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def call(
        self,
        tenant: str,
        job_id: str | None = None,
        *,
        bulk_id: str | None = None,
        breaker_of: str | None = None,
        at: datetime | None = None,
    ) -> None:
        app = self._app

        async def work() -> None:
            context, orchestrations = app.context, app.orchestrations
            if breaker_of is not None:
                await answer_call(context, tenant, breaker_of)
            elif bulk_id is not None:
                await work_bulk(context, orchestrations, tenant, bulk_id)
            elif job_id is None:
                await notify(context, orchestrations, tenant, await take_turn(context, tenant, due_at=at))
            elif (stored := await context.ledger.read(job_id)) is not None:
                await reconcile_place(context, orchestrations, stored)

        app.enqueue(f"call of {tenant}", work, at)

    async def call_allocation(self, gate_id: str, *, at: datetime, since: datetime | None = None) -> None:
        app = self._app

        async def work() -> None:
            gate = find_platform_gate_by_id(app.context, gate_id)
            assert gate is not None
            for each in (await allocate_on_call(app.context, gate, since or at)).items():
                await notify(app.context, app.orchestrations, *each)

        app.enqueue(f"division of {gate_id}", work, at)


class _Hints:
    def __init__(self, app: App) -> None:
        self._app = app

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        found = [hint for each in hints if (hint := decode_hint(encode_hint(each))) is not None]
        self._app.enqueue("hints", lambda: write_feed(self._app.context, found), at)


class _Deliveries:
    def __init__(self, app: App) -> None:
        self._app = app

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        for call in calls:
            self._app.enqueue("delivery", lambda call=call: deliver(self._app.context, call), at)  # type: ignore[misc]


class _Receiver:
    """Accepts every webhook."""

    def check(self, url: str, *, tenant: str) -> None:
        return

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, tenant: str = "") -> Answer:
        return Answer(status=200)


class Services:
    """Platform services: an ACK after half a second, a RESULT after the seconds of the document.

    Each later attempt takes a second.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._numbers = itertools.count(1)
        #: by document
        self.work_s: dict[str, float] = {}
        self.fails: set[str] = set()
        self._seen: set[tuple[str, str, int]] = set()

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        self._app.sent[directive.jobId] += 1
        key = (directive.jobId, directive.stepId, directive.attempt_no)
        if key in self._seen:
            # the bus detects duplicates
            return
        self._seen.add(key)
        document = directive.input_ref.uri.rpartition("/")[2]
        end = {"status": "SUCCEEDED", "result_ref": {"uri": f"{directive.workspace_ref.uri}r.json"}}
        if document in self.fails:
            end = {"status": "FAILED_RETRY", "error": {"code": "BUSY", "message": "m"}}
        self._reply(directive, 0.5, "ACK", {})
        work_s = self.work_s.get(document, 2) if directive.attempt_no == 1 else 1
        self._reply(directive, work_s, "RESULT", end)

    def _reply(self, directive: Directive, after_s: float, type_: str, fields: dict[str, Any]) -> None:
        at = self._app.now() + timedelta(seconds=after_s)
        body = {
            "type": type_,
            "jobId": directive.jobId,
            "stepId": directive.stepId,
            "tenant_id": directive.tenant_id,
            "attempt_no": directive.attempt_no,
            "lease_id": directive.lease_id,
            "timestamp": at.isoformat(),
            **fields,
        }
        self._send(json.dumps(body).encode(), at, directive.lane, f"{type_} of {directive.jobId}")

    def sends(self, second: float, body: bytes) -> None:
        """A message that is no reply."""
        self._send(body, BEGIN + timedelta(seconds=second), 0, "no reply")

    def _send(self, body: bytes, at: datetime, lane: int, name: str) -> None:
        app, number = self._app, next(self._numbers)
        message = ReplyMessage(
            body=body,
            lane=lane,
            message_id=f"m{number}",
            sequence_number=number,
            delivery_count=1,
            enqueued_at=at,
        )
        again = itertools.count(1)

        def take() -> Awaitable[None]:
            return receive_reply(app.context, app.orchestrations, replace(message, delivery_count=next(again)))

        dead = DeadReply(
            **{each: getattr(message, each) for each in ("body", "message_id", "sequence_number", "enqueued_at")},
            lane=lane,
            delivery_count=_MAX_DELIVERIES,
            reason="MaxDeliveryCountExceeded",
        )
        app.enqueue(name, take, at, lambda: app.dead.lying.setdefault(lane, []).append(dead))
