"""A world with webhooks: messages wait in `queue` until they are received, and endpoints respond as a test defines."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from shared.access.webhook_signature import secrets_of
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.hooks import TablesHooks
from shared.core.events.hints import decode_hint, encode_hint
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Answer, Delivery, DeliveryState, Hook, HookFilter
from shared.operations.events.feed_writer import write_feed
from shared.operations.process.hinting import Hinting
from shared.operations.process.hook_calls import HookCalls
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.sweeper.heal_deliveries import heal_deliveries
from shared.operations.webhooks.deliver_webhooks import deliver
from shared.operations.webhooks.webhooks import HookRequest, create_hook, list_deliveries
from shared.ports.feed import FeedEvent, FeedWrite
from shared.ports.webhooks import DeliveryCall, decode_call, encode_call
from shared.webhook_refusals import HookUrlRefused
from tests.contexts import changed
from tests.memory_bus import MemoryDeliveries, MemoryHints
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
from tests.operations.support import dispatch, service_sends, submitted

TENANT = "tenant_a"
ONE: dict[str, Any] = {"request_type": "OCR", "payload": {}}
OK = Answer(status=200)
_salts = itertools.count(1)


@dataclass
class Receiver:
    """`WebhookSender`: records posts, and returns `answer` or the value in `by_url`."""

    answer: Answer = OK
    by_url: dict[str, Answer] = field(default_factory=dict)
    #: (url, `webhook-id`, body)
    got: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    #: before the answer
    meanwhile: Callable[[], Awaitable[None]] | None = None

    def check(self, url: str, *, tenant: str) -> None:
        if "refused" in url:
            raise HookUrlRefused("leads nowhere")

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, tenant: str = "") -> Answer:
        self.got.append((url, headers["webhook-id"], json.loads(body)))
        self.headers.append(headers)
        self.bodies.append(body)
        if self.meanwhile is not None:
            await self.meanwhile()
        return self.by_url.get(url, self.answer)

    @property
    def ids(self) -> list[str]:
        return [id_ for _, id_, _ in self.got]


def signed(headers: Mapping[str, str], body: bytes, secret: bytes) -> str:
    """The signature that a receiver with this secret expects."""
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(secret, text, hashlib.sha256).digest()).decode()


@dataclass
class Hooked:
    world: World
    hints: MemoryHints
    feed: MemoryFeed
    queue: MemoryDeliveries
    receiver: Receiver

    async def hook(self, url: str = "https://receiver.example/in", **request: Any) -> Hook:
        types = HookFilter(**request.pop("filter", {}))
        made, _ = await create_hook(
            self.world.context, TENANT, HookRequest(url=url, filter=types, **request), "user:somebody"
        )
        return made

    async def now(self, hook: Hook | str) -> Hook:
        id_ = hook if isinstance(hook, str) else hook.id
        stored = await self.feed.hooks.read(TENANT, id_)
        assert stored is not None
        return stored.hook

    def secrets(self, hook: Hook) -> list[bytes]:
        """That sign its deliveries now, newest first."""
        settings = self.world.context.settings
        return secrets_of(settings.webhook_keys, hook, self.world.clock.now(), deployment=settings.environment)

    async def finished(self, **changes: Any) -> str:
        """A job of one step that succeeded, in the feed."""
        job_id = await submitted(self.world, **ONE | changes)
        await dispatch(self.world, job_id)
        await service_sends(self.world, job_id, "ACK", 1)
        await service_sends(self.world, job_id, "RESULT", 2)
        await self.fed()
        return job_id

    async def fed(self) -> None:
        """Writes hints to the feed through the wire format."""
        assert self.world.context.events is not None
        await self.world.context.events.hinting.settle()
        sent, self.hints.sent = self.hints.sent, []
        found = [decode_hint(encode_hint(hint)) for hint, _ in sent]
        await write_feed(self.world.context, [hint for hint in found if hint is not None])

    def taken(self) -> list[DeliveryCall]:
        """Receives the due messages, decoded."""
        now, sent = self.world.clock.now(), self.queue.sent
        due = sorted([each for each in sent if each[1] is None or each[1] <= now], key=lambda each: each[1] or now)
        self.queue.sent = [each for each in sent if each not in due]
        found = [decode_call(encode_call(call)) for call, _ in due]
        return [call for call in found if call is not None]

    async def delivered(self, calls: Sequence[DeliveryCall] | None = None) -> None:
        """Delivers the due messages, and those that follow at once."""
        calls = self.taken() if calls is None else calls
        while calls:
            for call in calls:
                await deliver(self.world.context, call)
            calls = self.taken()

    async def run(self, span: timedelta) -> None:
        """Delivers each message, with the clock at its time."""
        end = self.world.clock.now() + span
        while True:
            await self.delivered()
            ahead = [at for _, at in self.queue.sent if at is not None and at <= end]
            if not ahead:
                break
            self.world.clock.time = min(ahead)
        self.world.clock.time = end

    async def healed(self) -> None:
        await heal_deliveries(self.world.context, lambda _tenant: True, lambda: False)

    async def deliveries(self, hook: Hook | str = DEFAULT_HOOK, **options: Any) -> list[Delivery]:
        id_ = hook if isinstance(hook, str) else hook.id
        found, _ = await list_deliveries(
            self.world.context, TENANT, id_, **{"state": None, "after": None, "limit": 1000} | options
        )
        return found

    async def events(self, prefix: str = "") -> list[dict[str, Any]]:
        found = await self.feed.events(TENANT, after=0, limit=10_000)
        first = found[0].number if found else 1
        assert [event.number for event in found] == list(range(first, first + len(found)))
        return [json.loads(event.text) for event in found if event.event_type.startswith(prefix)]


def hooked(world: World, feed: MemoryFeed | None = None) -> Hooked:
    hints, feed, queue, receiver = MemoryHints(), feed or MemoryFeed(), MemoryDeliveries(), Receiver()
    settings = replace(world.context.settings, events="feed", webhook_keys=(("k1", b"1" * 32),))
    context = changed(
        world.context,
        settings=settings,
        feed=feed,
        hooks=feed.hooks,
        sender=receiver,
        deliveries=queue,
        calls=HookCalls(),
        hinting=Hinting(hints, world.clock),
        known_feeds=KnownFeeds(),
        sleep=no_sleep,
        new_salt=lambda: f"{next(_salts):032x}",
    )
    return Hooked(replace(world, context=context), hints, feed, queue, receiver)


@asynccontextmanager
async def hooked_on_tables(azurite: str, world: World) -> AsyncIterator[Hooked]:
    """Yields the same over separate real tables."""
    own = uuid.uuid4().hex[:12]
    account = TablesAccount.connect(connection=azurite, endpoint=None, credential=None, version_table=f"tenants{own}")
    given = hooked(world)
    feed, hooks = TablesFeed(account, f"feed{own}", given.world.clock.now), TablesHooks(account, f"feed{own}")
    context = changed(given.world.context, feed=feed, hooks=hooks)
    try:
        yield replace(given, world=replace(given.world, context=context))
    finally:
        await account.close()


async def no_sleep(_seconds: float) -> None:
    return


async def happened(given: Hooked, count: int, hook: Hook | str, name: str = "") -> list[Delivery]:
    """Writes this number of events and their rows, as `tell` does."""
    head, now = await given.feed.head(TENANT), given.world.clock.now()
    hook_id = hook if isinstance(hook, str) else hook.id
    numbers = range(head.number + 1, head.number + 1 + count)
    events = [
        FeedEvent(
            number=number,
            event_id=f"job_x:{number}:0",
            event_type="job.leased",
            job_id="job_x",
            at=now,
            text=f'{{"id":"job_x:{number}:0","type":"job.leased","data":{{}}}}',
        )
        for number in numbers
    ]
    rows = [
        Delivery(
            tenant=TENANT,
            hook_id=hook_id,
            number=event.number,
            name=name,
            event_id=event.event_id,
            event_type=event.event_type,
            job_id=event.job_id,
            created_at=now,
            due_at=now,
        )
        for event in events
    ]
    # a transaction takes 100 rows
    for part in (slice(first, first + 49) for first in range(0, count, 49)):
        head = await given.feed.write(
            FeedWrite(tenant=TENANT, head=head, events=events[part], seen={}, pending=rows[part])
        )
    given.world.context.events.known_feeds.forget(TENANT)
    return rows


def call_of(row: Delivery) -> DeliveryCall:
    return DeliveryCall(tenant=TENANT, hook_id=row.hook_id, number=row.number, name=row.name, tries=row.tries)


async def states(given: Hooked, hook: Hook | str) -> list[DeliveryState]:
    return [row.state for row in sorted(await given.deliveries(hook), key=lambda row: row.number)]
