"""The rows of a tenant's feed: one transaction under HEAD's ETag, and nothing of it where it is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.tables.feed import TablesFeed
from shared.core.events.public_events import MAX_EVENT_BYTES
from shared.errors import Conflict
from shared.operations.events.feed_writer import MAX_ROWS
from shared.ports.feed import FeedEvent, FeedWrite, Head
from tests.adapters.conftest import Storage
from tests.jobs import START

TENANT = "tenant/ä"


def events(first: int, count: int, job_id: str = "job_1", text: str = "{}") -> list[FeedEvent]:
    return [
        FeedEvent(
            number=number, event_id=f"{job_id}:{number}:0", event_type="job.leased", job_id=job_id, at=START, text=text
        )
        for number in range(first, first + count)
    ]


def write(head: Head, found: list[FeedEvent], seen: Mapping[str, int], *new: str) -> FeedWrite:
    return FeedWrite(tenant=TENANT, head=head, events=found, seen=seen, new=frozenset(new))


async def test_events_follow_on_each_other(storage: Storage) -> None:
    feed = storage.feed
    assert (await feed.head(TENANT), await feed.read_seen(TENANT, "job_1")) == (Head(), 0)
    first = await feed.write(write(Head(), events(1, 2), {"job_1": 2}, "job_1"))
    assert (first.number, await feed.read_seen(TENANT, "job_1")) == (2, 2)
    assert await feed.head(TENANT) == first
    second = await feed.write(write(first, [*events(3, 1), *events(4, 1, "job_2")], {"job_1": 5, "job_2": 1}, "job_2"))
    # a row without public events
    third = await feed.write(write(second, [], {"job_1": 6}))
    assert (third.number, await feed.read_seen(TENANT, "job_1"), await feed.read_seen(TENANT, "job_2")) == (4, 6, 1)
    found = await feed.events(TENANT, after=0, limit=100)
    assert found == [*events(1, 3), *events(4, 1, "job_2")]
    assert await feed.events(TENANT, after=2, limit=1) == events(3, 1)
    assert await feed.events("another", after=0, limit=100) == []


async def test_how_far_a_feed_was_sent_is_stored_alone_or_with_events(storage: Storage) -> None:
    feed = storage.feed
    first = await feed.write(write(Head(), events(1, 3), {"job_1": 3}, "job_1"))
    sent = await feed.write(write(replace(first, sent=3), [], {}))
    assert await feed.head(TENANT) == sent
    assert (sent.number, sent.sent, sent.etag != first.etag) == (3, 3, True)
    last = await feed.write(write(sent, events(4, 1), {"job_1": 4}))
    assert (last.number, last.sent) == (4, 3)
    assert await feed.head(TENANT) == last


async def test_who_comes_second_writes_nothing(storage: Storage) -> None:
    feed = storage.feed
    head = await feed.write(write(Head(), events(1, 1), {"job_1": 1}, "job_1"))
    for stale in (Head(), replace(head, etag="W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\"")):
        with pytest.raises(Conflict):
            await feed.write(write(stale, events(2, 1), {"job_1": 2}))
    # its SEEN row shows that the feed had a part of it
    with pytest.raises(Conflict):
        await feed.write(write(head, events(2, 1), {"job_1": 2}, "job_1"))
    assert await feed.head(TENANT) == head
    assert await feed.read_seen(TENANT, "job_1") == 1
    assert len(await feed.events(TENANT, after=0, limit=10)) == 1


async def test_each_tenant_with_a_feed_is_listed(storage: Storage) -> None:
    """Before its HEAD, with any first write."""
    assert TENANT not in await storage.feed.tenants()
    head = await storage.feed.write(write(Head(), events(1, 1), {"job_1": 1}, "job_1"))
    await storage.feed.write(write(head, events(2, 1), {"job_1": 2}))
    assert [each for each in await storage.feed.tenants() if each == TENANT] == [TENANT]


async def test_a_job_is_forgotten(storage: Storage) -> None:
    feed = storage.feed
    head = await feed.write(write(Head(), events(1, 1), {"job_1": 1}, "job_1"))
    for _ in range(2):
        await feed.forget(TENANT, "job_1")
    assert await feed.read_seen(TENANT, "job_1") == 0
    assert await feed.head(TENANT) == head
    assert len(await feed.events(TENANT, after=0, limit=10)) == 1


async def test_the_largest_transaction_fits(storage: Storage) -> None:
    """The maximum of rows, and an event of the maximum size, in characters that JSON and XML escape."""
    text = '"' + "\\" * (MAX_EVENT_BYTES - 4) + '"'
    found = [*events(1, 1, text=text), *events(2, MAX_ROWS - 3)]
    await storage.feed.write(write(Head(), found, {"job_1": 9}, "job_1"))
    assert await storage.feed.events(TENANT, after=0, limit=200) == found


async def test_old_events_go_the_first_ones_first(storage: Storage) -> None:
    feed = storage.feed
    later = [replace(each, at=START + timedelta(days=1)) for each in events(4, 2)]
    head = await feed.write(write(Head(), [*events(1, 3), *later], {"job_1": 5}, "job_1"))
    assert await feed.remove(TENANT, before=START, limit=100) == 0
    assert await feed.remove(TENANT, before=START + timedelta(hours=1), limit=2) == 2
    assert await feed.remove(TENANT, before=START + timedelta(hours=1), limit=100) == 1
    assert await feed.remove(TENANT, before=START + timedelta(hours=1), limit=100) == 0
    assert await feed.events(TENANT, after=0, limit=10) == later
    assert (await feed.head(TENANT), await feed.read_seen(TENANT, "job_1")) == (head, 5)


INCIDENT, YOUNG = f"inc_{1:013d}_{'0' * 16}", f"inc_{2:013d}_{'f' * 16}"


async def with_incidents(feed: TablesFeed) -> Head:
    """SEEN rows of all kinds; of incidents that are no job's an old one and a young one."""
    kinds = dict.fromkeys(("job_1", "inc_job_1", "0123456789abcdef", INCIDENT), 2)
    head = await feed.write(replace(write(Head(), [], kinds, *kinds), at=START))
    return await feed.write(replace(write(head, [], {YOUNG: 1}, YOUNG), at=START + timedelta(hours=1)))


async def test_old_rows_of_incidents_go(storage: Storage) -> None:
    """Only rows of incidents without a job; also with two concurrent processes."""
    feed = storage.feed
    await with_incidents(feed)
    another = await feed.write(replace(write(Head(), [], {INCIDENT: 2}), tenant="another", at=START))
    assert await feed.forget_incidents(TENANT, before=START, limit=100) == 0
    before = START + timedelta(seconds=1)
    await asyncio.gather(*(feed.forget_incidents(TENANT, before=before, limit=100) for _ in range(2)))
    assert await feed.forget_incidents(TENANT, before=before, limit=100) == 0
    found = [await feed.read_seen(TENANT, key) for key in ("job_1", "inc_job_1", "0123456789abcdef", INCIDENT, YOUNG)]
    assert found == [2, 2, 2, 0, 1]
    assert await feed.read_seen("another", INCIDENT) == 2
    assert another.number == 0
    assert [await feed.forget_incidents("another", before=before, limit=1) for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_a_row_that_is_written_while_it_is_looked_at_stays(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An incident that was open for long is settled in that moment."""
    feed, head = storage.feed, await with_incidents(storage.feed)
    rows: Any = feed._rows
    real, later = rows.transact, START + timedelta(days=40)

    async def meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(rows, "transact", real)
        await feed.write(replace(write(head, [], {INCIDENT: 3}), at=later))
        return await real(*args)

    monkeypatch.setattr(rows, "transact", meanwhile)
    assert await feed.forget_incidents(TENANT, before=later, limit=100) == 2
    # all or nothing; the next read has the other one
    assert [await feed.read_seen(TENANT, key) for key in (INCIDENT, YOUNG)] == [3, 1]
    assert await feed.forget_incidents(TENANT, before=later, limit=100) == 1
    assert [await feed.read_seen(TENANT, key) for key in (INCIDENT, YOUNG)] == [3, 0]


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_the_table_has_an_id_of_its_own(storage: Storage) -> None:
    assert isinstance(storage.feed, TablesFeed)
    first = await storage.feed.identity()
    assert (len(first.feed_id), first.since) == (16, START)
    again = TablesFeed(storage.feed._rows.account, storage.feed._rows.name, lambda: START.replace(year=2030))
    assert await again.identity() == first
    other = TablesFeed(storage.feed._rows.account, f"{storage.feed._rows.name}b", lambda: START)
    assert (await other.identity()).feed_id != first.feed_id
