"""Rows of the last hour's minutes: added once by any number of sweepers; an undecodable row stops no other."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from shared.adapters.tables.keys import MINUTES_PARTITION, minute_row
from shared.adapters.tables.minutes import TablesMinutes
from shared.core.overview.minutes import ACK, KEPT_FOR, MINUTE, MinuteCounts
from shared.errors import LedgerUnavailable
from tests.fake_tables import FakeAccount
from tests.jobs import START

END = ("acme", "SUCCEEDED", "")
NOW = START + 2 * MINUTE
SINCE = START - KEPT_FOR


def counts(number: int = 1) -> MinuteCounts:
    return MinuteCounts(ends=Counter({END: number}), latencies={("ocr", ACK): Counter({3: number})})


def minutes() -> tuple[FakeAccount, TablesMinutes]:
    account = FakeAccount()
    return account, TablesMinutes(account, "index")


def keys(account: FakeAccount) -> list[str]:
    return sorted(row["RowKey"] for row in account.of("index").all_rows)


async def test_rows_of_processes_become_one_a_minute() -> None:
    """A read returns the same before and after the fold; a late row is added to its minute."""
    account, store = minutes()
    for writer in ("a", "b"):
        await store.add({START: counts(2), START + MINUTE: counts(1)}, writer)
    before = await store.read(SINCE)
    await store.fold(NOW, {"QUEUED": 3})
    assert keys(account) == [minute_row(START + number * MINUTE) for number in range(3)]
    found = await store.read(SINCE)
    assert found == {**before, NOW: MinuteCounts(active={"QUEUED": 3})}
    assert found[START] == counts(4)

    await store.add({START: counts(10)}, "c")
    await store.fold(NOW + MINUTE, None)

    assert (await store.read(SINCE))[START] == counts(14)
    assert (await store.read(START + MINUTE)).keys() == {START + MINUTE, NOW}


async def test_two_sweepers_at_once_count_once() -> None:
    """The one that is behind has read the same rows: its transactions fail, and nothing of them is there."""
    account, store = minutes()
    await store.fold(START, {"QUEUED": 1})
    await store.add({START: counts(), START + MINUTE: counts()}, "a")
    behind = TablesMinutes(account, "index")
    stale = await behind._since("")

    async def as_before(since: str) -> Any:
        return stale

    behind._since = as_before  # type: ignore[method-assign]
    await store.fold(NOW, None)
    await store.add({START: counts()}, "b")
    await behind.fold(NOW, None)
    await store.fold(NOW, None)

    found = await store.read(SINCE)
    assert (found[START].ends[END], found[START + MINUTE].ends[END]) == (2, 1)
    assert found[START].active == {"QUEUED": 1}


async def test_a_fold_that_dies_in_between_counts_once() -> None:
    """After any of its transactions: the next one does the rest."""
    account, store = minutes()
    for number in range(3):
        await store.add({START + number * MINUTE: counts()}, "a")

    def die(*_: Any) -> None:
        account.committed = lambda *_: None
        raise LedgerUnavailable("killed")

    account.committed = die
    try:
        await store.fold(NOW, None)
    except LedgerUnavailable:
        await store.fold(NOW, None)

    assert sum((each.ends[END] for each in (await store.read(SINCE)).values()), 0) == 3
    assert len(keys(account)) == 3


async def test_sixty_minutes_are_kept() -> None:
    """Older rows are deleted, also those of processes without a sweep, and undecodable ones."""
    account, store = minutes()
    for number in range(150):
        await store.add({START + number * MINUTE: counts()}, "a")
    account.of("index").put({"PartitionKey": MINUTES_PARTITION, "RowKey": minute_row(START), "ends": "{"})
    now = START + 149 * MINUTE

    await store.fold(now, {})

    assert list(await store.read(SINCE)) == [now - number * MINUTE for number in range(60, -1, -1)]
    assert len(keys(account)) == 61


async def test_a_row_that_cannot_be_read_is_replaced() -> None:
    """A reader leaves it out; the next fold of its minute starts again."""
    account, store = minutes()
    account.of("index").put({"PartitionKey": MINUTES_PARTITION, "RowKey": minute_row(START), "ends": "{"})
    await store.add({START + MINUTE: counts()}, "a")
    assert (await store.read(SINCE)).keys() == {START + MINUTE}

    await store.add({START: counts()}, "a")
    await store.fold(NOW, None)

    assert (await store.read(SINCE))[START] == counts()


async def test_many_rows_take_several_folds() -> None:
    """A transaction has a hundred operations at most, and nothing is lost between two."""
    account, store = minutes()
    for number in range(150):
        await store.add({START: counts()}, f"{number}")
    await store.fold(NOW, None)
    assert (await store.read(SINCE))[START] == counts(150)
    assert len(keys(account)) == 52
    await store.fold(NOW, None)
    assert keys(account) == [minute_row(START)]
    assert (await store.read(SINCE))[START] == counts(150)


async def test_a_fold_of_an_hour_is_one_query() -> None:
    """For any number of jobs that ended in it."""
    account, store = minutes()
    for number in range(60):
        await store.add({NOW - number * MINUTE: counts(1_000_000)}, "a")
    await store.fold(NOW, {})
    account.calls.clear()
    await store.add({NOW: counts()}, "b")
    await store.fold(NOW, {"QUEUED": 10**6})
    assert account.calls == {MINUTES_PARTITION: 3}
    assert len(await store.read(NOW - timedelta(hours=1))) == 60
