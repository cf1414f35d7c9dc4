"""The relay of the feeds to the topic: each event at least once and none before its turn, with any crash or refusal."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

import pytest

from shared import telemetry
from shared.operations.events.feed_writer import write_feed
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.process import topic_relay as module
from shared.ports.feed import FeedEvent, FeedWrite, Head
from tests.contexts import changed
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import StillClock, World
from tests.operations.faults import failing, noted
from tests.worlds.events import OTHER, TENANT, Process, Topic, event, fed_by, first_arrivals, of


@pytest.fixture
def topic() -> Topic:
    return Topic()


@pytest.fixture
def process(topic: Topic) -> Process:
    return Process(MemoryFeed(), topic, StillClock())


@pytest.fixture
def gauges(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    found: dict[str, float] = {}
    monkeypatch.setattr(telemetry, "set_gauge", found.__setitem__)
    return found


async def test_what_is_in_the_feed_is_in_the_topic_before_the_hints_are_done(world: World, topic: Topic) -> None:
    """In the feed's order; HEAD has the topic's position with the next transaction, or half a minute later."""
    fed, process = fed_by(world, topic)
    await fed.finished()
    await fed.taken()
    assert topic.sent == await fed.feed.events(TENANT, after=0, limit=100)
    number = len(topic.sent)
    assert (await fed.feed.head(TENANT)).sent == 0
    await fed.finished(idempotency_key="2")
    await fed.taken()
    assert topic.numbers() == list(range(1, 2 * number + 1))
    assert (await fed.feed.head(TENANT)).sent == number
    await process.works()
    assert (await fed.feed.head(TENANT)).sent == (await fed.feed.head(TENANT)).number == 2 * number
    assert (process.passing._tenants, 30 <= process.slept_s <= 40) == ({}, True)
    # it knows its own write: the next batch is no conflict
    await fed.finished(idempotency_key="3")
    await fed.taken()
    assert (len(topic.sent), topic.tries) == (3 * number, 3)
    process.dies()


async def test_storing_the_position_keeps_the_start_of_the_heads(process: Process, topic: Topic) -> None:
    """A write without events leaves no gap between the heads."""
    known = await process.known.of(process.feed, TENANT)
    since = process.clock.now()
    found = [event(TENANT, 1, process.clock)]
    write = module.add_sent(
        process.passing, FeedWrite(tenant=TENANT, head=known.head, events=found, seen={}, heads_since=since)
    )
    known.head = await process.feed.write(write)
    process.passing.wrote(write)
    await process.passing.pass_on([TENANT])
    await process.works()
    head = await process.feed.head(TENANT)
    assert (head.sent, head.heads_since) == (1, since)
    process.dies()


async def test_without_a_topic_nothing_is_owed_to_one(world: World, topic: Topic) -> None:
    """A topic that is turned on later starts with the next event."""
    fed = of(world)
    await fed.finished()
    await fed.taken()
    head = await fed.feed.head(TENANT)
    assert head.sent == head.number > 0
    later, process = fed_by(world, topic, fed.feed)
    await prune_feeds(later.world.context)
    assert topic.sent == []
    await later.finished(idempotency_key="2")
    await later.taken()
    assert topic.numbers()[0] == head.number + 1
    process.dies()


async def test_who_dies_before_the_send_is_made_up_for_by_the_hints(world: World, topic: Topic) -> None:
    """The bus redelivers them; the feed has their events, and its HEAD says that the topic lacks them."""
    fed, process = fed_by(world, topic)
    await fed.finished()
    hints = await fed.hints()
    context = changed(fed.world.context, relay=None)
    # in the feed, not in the topic: as in a process that dies there
    for hint in hints:
        known = await process.known.of(fed.feed, TENANT)
        await write_feed(context, [hint])
        fed.feed.put_sent(TENANT, 0)
        known.head = await fed.feed.head(TENANT)
    assert topic.sent == []
    for again in (process, Process(fed.feed, topic, world.clock)):
        topic.sent.clear()
        await write_feed(changed(context, relay=again.passing, known_feeds=again.known), hints)
        assert topic.sent == await fed.feed.events(TENANT, after=0, limit=100)
        again.dies()


async def test_a_topic_that_refuses_stops_itself_only(process: Process, topic: Topic, gauges: dict[str, float]) -> None:
    """One call tries it once; then a background task retries until it has the waiting events, in order and once."""
    topic.refusals = 4
    began = process.clock.now()
    for _ in range(5):
        await process.writes(TENANT, 3)
        await process.writes(OTHER, 2)
        await process.passing.pass_on([TENANT, OTHER])
        process.clock.advance(1)
    assert (topic.tries, topic.sent) == (1, [])
    assert (await process.feed.head(TENANT)).number == 15
    # waiting events are not kept in memory
    assert [one.at_hand for one in process.passing._tenants.values()] == [[], []]
    assert gauges == {"events_unsent": 25, "events_unsent_oldest_seconds": 4}
    await process.works()
    assert [each.number for each in topic.sent if each.event_id.startswith(TENANT)] == list(range(1, 16))
    assert [each.number for each in topic.sent if each.event_id.startswith(OTHER)] == list(range(1, 11))
    # 5, 10, 20 and 40 s after the previous failures, and half a minute until HEAD has it
    assert timedelta(seconds=100) <= process.clock.now() - began <= timedelta(seconds=120)
    assert gauges == {"events_unsent": 0, "events_unsent_oldest_seconds": 0}
    assert (await process.feed.head(TENANT)).sent == 15
    await process.writes(TENANT, 1)
    await process.passing.pass_on([TENANT])
    assert topic.numbers()[-1] == 16
    process.dies()


async def test_an_answer_that_is_lost_repeats_what_it_was_about(process: Process, topic: Topic) -> None:
    topic.refusals, topic.takes_all_the_same = 1, True
    await process.writes(TENANT, 2)
    await process.passing.pass_on([TENANT])
    await process.writes(TENANT, 2)
    await process.works()
    assert topic.numbers() == [1, 2, 1, 2, 3, 4]


async def test_a_send_has_room_for_many_tenants_and_a_bound(process: Process, topic: Topic) -> None:
    """The events of one batch of hints are one send; 100 events or 200 KB are the maximum of one."""
    tenants = [f"t{number}" for number in range(20)]
    for tenant in tenants:
        await process.writes(tenant, 3)
    await process.passing.pass_on(tenants)
    assert (topic.tries, len(topic.sent)) == (1, 60)
    await process.writes(TENANT, 250)
    await process.passing.pass_on([TENANT])
    assert topic.tries == 1 + 3
    sends = noted(topic, "send")
    await process.writes(TENANT, 30, size=24_000)
    await process.passing.pass_on([TENANT])
    assert max(sum(len(each.text.encode()) for each in events) for _, events in sends) <= 200_000
    assert topic.numbers()[60:] == list(range(1, 281))
    process.dies()


async def test_two_processes_write_in_turn(topic: Topic) -> None:
    """Each relays the events that the other wrote, so that first arrivals are in order."""
    feed, clock = MemoryFeed(), StillClock()
    both = [Process(feed, topic, clock), Process(feed, topic, clock)]
    for turn in range(6):
        process = both[turn % 2]
        process.known.forget(TENANT)
        await process.writes(TENANT, 2)
        await process.passing.pass_on([TENANT])
    assert first_arrivals(topic.sent)[TENANT] == list(range(1, 13))
    for process in both:
        await process.works()
    assert (await feed.head(TENANT)).sent == 12


async def test_two_calls_at_once_send_one_after_the_other(process: Process, topic: Topic) -> None:
    """Race passing: one of them sends the events that both find unsent, and in order."""
    sending = 0
    original = topic.send

    async def alone(events: Sequence[FeedEvent]) -> None:
        nonlocal sending
        sending += 1
        assert sending == 1
        await original(events)
        sending -= 1

    topic.send = alone  # type: ignore[method-assign]
    for _ in range(3):
        await process.writes(TENANT, 150)
        await asyncio.gather(*(process.passing.pass_on([TENANT]) for _ in range(3)), process.works())
    await process.works()
    assert first_arrivals(topic.sent)[TENANT] == list(range(1, 451))
    process.dies()


async def test_what_nobody_knows_of_is_found_each_hour(world: World, topic: Topic) -> None:
    """Its process died with it. An event of these minutes is left to its writer."""
    fed, process = fed_by(world, topic)
    await fed.finished()
    topic.refusals = 1
    await fed.taken()
    process.dies()
    for seconds, expected in ((60, 0), (120, 5)):
        world.clock.advance(seconds)
        hourly = Process(fed.feed, topic, world.clock)
        await prune_feeds(changed(fed.world.context, known_feeds=hourly.known, relay=hourly.passing))
        assert len(topic.sent) == expected
        hourly.dies()
    head = await fed.feed.head(TENANT)
    assert head.sent == head.number == 5
    await prune_feeds(changed(fed.world.context, known_feeds=hourly.known, relay=hourly.passing))
    assert len(topic.sent) == 5


async def test_a_tenant_that_never_posted_a_job_is_looked_at_too(world: World, topic: Topic) -> None:
    """The event of its gate or webhook is its only one: the event is relayed, and deleted by its age."""
    fed, process = fed_by(world, topic)
    await fed.feed.write(FeedWrite(tenant=OTHER, head=Head(), events=[event(OTHER, 1, world.clock)], seen={}))
    process.dies()
    for days, expected in ((1, 1), (8, 0)):
        world.clock.advance(timedelta(days=days).total_seconds())
        hourly = Process(fed.feed, topic, world.clock)
        await prune_feeds(changed(fed.world.context, known_feeds=hourly.known, relay=hourly.passing))
        assert topic.numbers() == [1]
        assert len(await fed.feed.events(OTHER, after=0, limit=9)) == expected
        hourly.dies()


async def test_what_went_before_it_was_sent_is_gone_for_the_topic(
    process: Process, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """The number of deleted events is logged, and the remaining ones are relayed."""
    topic.refusals = 1
    await process.writes(TENANT, 5)
    await process.passing.pass_on([TENANT])
    assert await process.feed.remove(TENANT, before=process.clock.now() + timedelta(1), limit=3) == 3
    await process.works()
    assert topic.numbers() == [4, 5]
    assert '"event": "EVENTS_NEVER_SENT", "tenant_id": "tenant_a", "count": 3' in caplog.text
    topic.refusals = 1
    await process.writes(TENANT, 2)
    await process.passing.pass_on([TENANT])
    await process.feed.remove(TENANT, before=process.clock.now() + timedelta(1), limit=9)
    await process.works()
    assert (topic.numbers(), (await process.feed.head(TENANT)).sent) == ([4, 5], 7)


async def test_a_tenant_that_cannot_be_read_holds_up_no_other(process: Process, topic: Topic) -> None:
    topic.refusals = 1
    await process.writes(TENANT, 2)
    await process.writes(OTHER, 2)
    await process.passing.pass_on([TENANT, OTHER])
    failing(process.feed, "events", only=lambda tenant, **_: tenant == TENANT, at=[1, 2])
    await process.works()
    assert [each.event_id for each in topic.sent] == ["tenant_b:1:0", "tenant_b:2:0", "tenant_a:1:0", "tenant_a:2:0"]


async def test_a_batch_that_is_cut_off_is_passed_on(process: Process, topic: Topic) -> None:
    """Its time was over in the middle of the send, and its hints come again to a process that lives on."""

    async def hangs(_events: Sequence[FeedEvent]) -> None:
        await asyncio.sleep(3600)

    await process.writes(TENANT, 2)
    original, topic.send = topic.send, hangs  # type: ignore[method-assign]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await process.passing.pass_on([TENANT])
    topic.send = original  # type: ignore[method-assign]
    await process.works()
    assert topic.numbers() == [1, 2]


async def test_memory_is_bounded(process: Process, topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million tenants during an outage: the process keeps the last ones, the hourly check finds the others."""
    monkeypatch.setattr(module, "_MAX_TENANTS", 10)
    topic.refusals = 1
    tenants = [f"t{number}" for number in range(25)]
    for tenant in tenants:
        await process.writes(tenant, 1)
        await process.passing.pass_on([tenant])
    await process.works()
    assert len(topic.sent) == 10
    process.clock.advance(120)
    for tenant in tenants:
        await process.passing.find_unsent(tenant)
        await process.passing.catch_up(process.clock.now() + timedelta(seconds=1))
    assert len(first_arrivals(topic.sent)) == 25
    process.dies()


@pytest.mark.parametrize(
    ("tenants", "each"), [(20, 50), pytest.param(20, 500, marks=pytest.mark.long, id="10,000 events")]
)
async def test_processes_that_die_at_random_leave_nothing_out(tenants: int, each: int) -> None:
    """Three processes that die, a topic that refuses, lost responses: the topic gets each event, none before its
    predecessor, and the HEADs agree at the end.
    """
    chance, topic, clock = random.Random(7), Topic(), StillClock()
    feed = MemoryFeed()
    processes = [Process(feed, topic, clock) for _ in range(3)]
    names = [f"t{number}" for number in range(tenants)]
    left = dict.fromkeys(names, each)
    while left:
        place = chance.randrange(3)
        process = processes[place]
        asked = chance.sample(sorted(left), min(len(left), 4))
        for tenant in asked:
            count = min(left[tenant], chance.randint(1, 9))
            process.known.forget(tenant)
            await process.writes(tenant, count)
            left[tenant] -= count
            if not left[tenant]:
                del left[tenant]
        topic.refusals = chance.random() < 0.2
        topic.takes_all_the_same = chance.random() < 0.5
        if chance.random() < 0.1:
            # before the send; the hints come to another one
            process.dies()
            processes[place] = process = Process(feed, topic, clock)
        await process.passing.pass_on(asked)
        if chance.random() < 0.2:
            topic.refusals = 0
            await process.works()
    topic.refusals = 0
    for process in processes:
        await process.works()
    clock.advance(600)
    hourly = Process(feed, topic, clock)
    for tenant in names:
        await hourly.passing.find_unsent(tenant)
    await hourly.passing.catch_up(clock.now() + timedelta(minutes=2))
    hourly.dies()
    last: dict[str, int] = {}
    for one in topic.sent:
        tenant = one.event_id.partition(":")[0]
        assert one.number <= last.get(tenant, 0) + 1
        last[tenant] = max(last.get(tenant, 0), one.number)
    assert last == dict.fromkeys(names, each)
    heads: list[Head] = [await feed.head(tenant) for tenant in names]
    assert [head.sent for head in heads] == [each] * tenants
