"""The topic of public events: its messages, a slow or unreachable topic, and readers that miss no event."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError, ServiceBusQuotaExceededError

from emulator.topology import TOPOLOGY, config
from shared.adapters.servicebus import senders as servicebus_senders
from shared.adapters.servicebus.links import bus_client
from shared.adapters.servicebus.senders import ServiceBusEvents
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.feed import TablesFeed
from shared.core.events.hints import Hint
from shared.core.jobs.routing import EVENTS_TOPIC
from shared.errors import BusUnavailable
from shared.operations.events.feed_writer import write_feed
from shared.operations.events.read_feed import EventFilter, read_feed
from shared.operations.process.context import Context
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.process.topic_relay import TopicRelay
from shared.ports.feed import FeedEvent
from shared.wiring import SystemClock
from tests.contexts import changed
from tests.jobs import START
from tests.operations.conftest import World, world
from tests.servicebus_emulator.process import start_bus

__all__ = ["world"]  # a fixture of the operations' tests

#: an event that a job's first hint leads to
DATA = {"jobType": "OCR", "payload": {"status": "QUEUED"}}


def feed_event(number: int, tenant: str = "tenant_a") -> FeedEvent:
    whole = {"tenant": tenant, "type": "job.leased", "data": DATA, "sequence": f"{number:020d}"}
    return FeedEvent(
        number=number,
        event_id=f"{tenant}:{number}:0",
        event_type="job.leased",
        job_id="job_1",
        at=START,
        text=json.dumps(whole),
    )


class Sender:
    def __init__(self, fault: Exception | None, *, hangs: bool) -> None:
        self.sent: list[ServiceBusMessage] = []
        self.closed = False
        self._fault, self._hangs = fault, hangs

    async def send_messages(self, messages: list[ServiceBusMessage]) -> None:
        await asyncio.sleep(3600 if self._hangs else 0)
        if self._fault is not None:
            raise self._fault
        self.sent += messages

    async def close(self) -> None:
        self.closed = True


class Client:
    def __init__(self, fault: Exception | None = None, *, hangs: bool = False) -> None:
        self.senders: list[Sender] = []
        self.fault, self.hangs = fault, hangs

    def get_topic_sender(self, name: str) -> Sender:
        assert name == "lucius-events"
        self.senders.append(Sender(self.fault, hangs=self.hangs))
        return self.senders[-1]


async def test_an_event_on_the_wire() -> None:
    """A CloudEvent in structured JSON; its id is the message's, and the filter fields of teams are properties."""
    client = Client()
    await ServiceBusEvents(client).send([feed_event(1), feed_event(2)])  # type: ignore[arg-type]
    [sender] = client.senders
    assert [b"".join(each.body).decode() for each in sender.sent] == [feed_event(1).text, feed_event(2).text]
    message = sender.sent[0]
    assert (message.message_id, message.content_type) == ("tenant_a:1:0", "application/cloudevents+json")
    assert message.application_properties == {"tenant": "tenant_a", "type": "job.leased", "jobType": "OCR"}


@pytest.mark.parametrize(
    "client",
    [
        Client(ServiceBusConnectionError(message="away")),
        Client(ServiceBusQuotaExceededError(message="full")),
        Client(hangs=True),
    ],
)
async def test_a_sender_that_failed_is_replaced(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is away, full or silent is one fault, after seconds."""
    # the second send has as long, and needs no time but that of a busy machine
    monkeypatch.setattr(servicebus_senders, "_OPEN_S", 2.0)
    topic = ServiceBusEvents(client)  # type: ignore[arg-type]
    with pytest.raises(BusUnavailable):
        await topic.send([feed_event(1)])
    client.fault, client.hangs = None, False
    await topic.send([feed_event(1)])
    failed, second = client.senders
    assert (failed.closed, len(second.sent)) == (True, 1)


@asynccontextmanager
async def topic_with(folder: Path, **subscriptions: dict[str, str]) -> AsyncIterator[Any]:
    """Yields a client of a bus with the deployed topic, and these subscriptions by their filters."""
    document = config(json.loads(TOPOLOGY.read_text()))
    namespace = document["UserConfig"]["Namespaces"][0]
    [topic] = [each for each in namespace["Topics"] if each["Name"] == EVENTS_TOPIC]
    for name, properties in subscriptions.items():
        rule = {"FilterType": "Correlation", "CorrelationFilter": {"Properties": properties}}
        rules = [{"Name": "$Default", "Properties": rule}] if properties else []
        topic["Subscriptions"].append({"Name": name, "Properties": {}, "Rules": rules})
    namespace["Queues"], namespace["Topics"] = [], [topic]
    path = folder / "Config.json"
    path.write_text(json.dumps(document))
    bus = start_bus("--config", path)
    client = bus_client(connection=bus.connection_string, namespace=None, credential=None)
    try:
        yield client
    finally:
        await client.close()
        bus.kill()


async def received(client: Any, subscription: str, count: int) -> list[tuple[str, str]]:
    """Receives the number of events; returns tenant and id of each."""
    found: list[tuple[str, str]] = []
    async with client.get_subscription_receiver(EVENTS_TOPIC, subscription) as receiver:
        while len(found) < count:
            for message in await receiver.receive_messages(max_message_count=100, max_wait_time=30):
                whole = json.loads(b"".join(message.body))
                found.append((whole["tenant"], message.message_id))
                await receiver.complete_message(message)
    return found


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bus that is slow is not away."""
    for limit in ("_OPEN_S", "_SEND_S"):
        monkeypatch.setattr(servicebus_senders, limit, 60.0)


@pytest.mark.usefixtures("_patient")
async def test_a_team_gets_what_it_filters_by_and_repetitions_once(tmp_path: Path) -> None:
    """By a correlation filter on a tenant; the topic drops repetitions within five minutes."""
    async with topic_with(tmp_path, everything={}, of_b={"tenant": "tenant_b"}) as client:
        topic = ServiceBusEvents(client)
        a, b = feed_event(1), feed_event(1, "tenant_b")
        await topic.send([a, b])
        await topic.send([a, b, feed_event(2)])
        await topic.send([feed_event(2), feed_event(2, "tenant_b")])
        await topic.close()
        everything = [("tenant_a", 1), ("tenant_b", 1), ("tenant_a", 2), ("tenant_b", 2)]
        assert await received(client, "everything", 4) == [(name, f"{name}:{number}:0") for name, number in everything]
        assert await received(client, "of_b", 2) == [("tenant_b", "tenant_b:1:0"), ("tenant_b", "tenant_b:2:0")]


def hint(tenant: str, number: int) -> Hint:
    """Of the `number`th commit of a tenant's one job."""
    event = {
        "specversion": "1.0",
        "id": f"job_{tenant}:{number}:0",
        "type": "job.leased",
        "subject": f"job_{tenant}",
        "time": START.isoformat(),
        "tenant": tenant,
        "jobseq": number,
        "data": DATA,
    }
    return Hint(tenant=tenant, job_id=f"job_{tenant}", first=number, last=number, events=(event,))


async def send_hints(
    processes: list[Context], renew: Any, tenants: list[str], each: int, chance: random.Random
) -> None:
    """Hints of all tenants in batches, by turns in two processes; batches come twice, and processes die."""
    hints = [hint(tenant, number) for number in range(1, each + 1) for tenant in tenants]

    async def take(context: Context, batch: list[Hint]) -> None:
        for tenant in tenants:
            # there are no jobs to read: the process must have the right memory of SEEN
            context.events.known_feeds.forget(tenant)
        await write_feed(context, batch)

    for first in range(0, len(hints), 100):
        place = chance.randrange(2)
        batch = hints[first : first + 100]
        if chance.random() < 0.3:
            # it dies after the feed's write: the bus brings the batch again
            await take(changed(processes[place], relay=FALLS), batch)
            processes[place] = renew()
            place = chance.randrange(2)
        await take(processes[place], batch)
        if chance.random() < 0.2:
            await take(processes[1 - place], batch)


class Falls:
    """In the place of `TopicRelay`: the process dies before its first send."""

    def find_sent(self, write: Any) -> int:
        return int(write.head.sent)

    def wrote(self, write: Any) -> None:
        return None

    async def pass_on(self, tenants: Any) -> None:
        return None


FALLS: Any = Falls()


@pytest.mark.parametrize(
    "each", [20, pytest.param(500, marks=[pytest.mark.long, pytest.mark.timeout(1200)], id="10,000 events")]
)
@pytest.mark.usefixtures("_patient")
async def test_twenty_tenants_and_readers_that_drop(azurite: str, world: World, tmp_path: Path, each: int) -> None:
    """Tables, bus and `tell` are real.

    A reader of the topic that disconnects at random, and readers of the feeds with their cursors, read every event
    once; the topic gets each tenant's events in order.
    """
    chance, tenants = random.Random(11), [f"t{number:02}" for number in range(20)]
    async with AsyncExitStack() as closing:
        account = TablesAccount.connect(
            connection=azurite, endpoint=None, credential=None, version_table=own("tenants")
        )
        closing.push_async_callback(account.close)
        feed = TablesFeed(account, own("feed"), world.clock.now)
        client = await closing.enter_async_context(topic_with(tmp_path, team={}))
        topic = ServiceBusEvents(client)
        closing.push_async_callback(topic.close)

        def process() -> Context:
            known = KnownFeeds()
            passing = TopicRelay(topic, feed, known, SystemClock(), asyncio.sleep, closing_task)
            return changed(world.context, feed=feed, known_feeds=known, relay=passing)

        tasks: list[asyncio.Task[None]] = []

        def closing_task(work: Any) -> asyncio.Task[None]:
            tasks.append(asyncio.create_task(work))
            return tasks[-1]

        telling = asyncio.create_task(send_hints([process(), process()], process, tenants, each, chance))
        of_topic = asyncio.create_task(read_topic(client, len(tenants) * each, random.Random(12)))
        of_feed = asyncio.create_task(read_feeds(process(), tenants, each, random.Random(13)))
        async with asyncio.timeout(900):
            await telling
            expected = {tenant: [f"job_{tenant}:{n}:0" for n in range(1, each + 1)] for tenant in tenants}
            assert await of_feed == expected
            assert await of_topic == expected
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def own(name: str) -> str:
    return f"{name}{uuid.uuid4().hex[:12]}"


async def read_topic(client: Any, count: int, chance: random.Random) -> dict[str, list[str]]:
    """Returns ids by tenant in the order of the bus, for a reader that disconnects within a batch and reconnects.

    Its unsettled messages arrive again, and it drops repetitions by their id.
    """
    taken: dict[str, tuple[int, str, str]] = {}
    while len(taken) < count:
        async with client.get_subscription_receiver(EVENTS_TOPIC, "team") as receiver:
            while len(taken) < count:
                messages = await receiver.receive_messages(max_message_count=50, max_wait_time=1)
                for place, message in enumerate(messages):
                    whole = json.loads(b"".join(message.body))
                    place_in_bus = (message.sequence_number, whole["sequence"], whole["tenant"])
                    taken[whole["id"]] = min(place_in_bus, taken.get(whole["id"], place_in_bus))
                    if chance.random() < 0.01:
                        # taken up, and not completed: it comes again
                        for each in messages[place:]:
                            await receiver.abandon_message(each)
                        break
                    await receiver.complete_message(message)
                if chance.random() < 0.1:
                    break
    found: dict[str, list[str]] = {}
    for id_, (_, sequence, tenant) in sorted(taken.items(), key=lambda each: each[1]):
        found.setdefault(tenant, []).append(id_)
        assert int(sequence) == len(found[tenant])
    return found


async def read_feeds(context: Context, tenants: list[str], each: int, chance: random.Random) -> dict[str, list[str]]:
    """Returns ids by tenant, for readers that lose a response sometimes and repeat the request with their cursor."""
    found: dict[str, list[str]] = {tenant: [] for tenant in tenants}
    after = dict.fromkeys(tenants, "earliest")
    while any(len(ids) < each for ids in found.values()):
        for tenant in [name for name in tenants if len(found[name]) < each]:
            page = await read_feed(
                context, tenant, after=after[tenant], event_filter=EventFilter(), limit=30, invalid=ValueError
            )
            if chance.random() < 0.7:
                found[tenant] += [str(event["id"]) for event in page.events]
                after[tenant] = page.next
        await asyncio.sleep(0.5)
    return found
