"""Rows that cannot be decoded: an error of LUCIUS with the row's key, or left out of a list and logged."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from shared.adapters.tables.protocol_versions import TablesProtocolVersions
from shared.adapters.tables.table_rows import MAX_LEFT_OUT
from shared.core.incidents import IncidentKind
from shared.errors import LuciusError, Undecodable
from tests.adapters.later_rows import BOOK, JOB, TENANT, Stores, kind_of, stores
from tests.fake_tables import FakeTable
from tests.jobs import START

FOR_EVER = START + timedelta(days=365)
DAY = date(1970, 1, 1)
BULK = f"bulk_{0:013d}{'f' * 16}"
CLAIM = "53b2df9567e71f1bafbb0cbe6df8fc5cd5ae6caffd1713f2add87d6a107bffa5"
SOURCE_GATE = "211a89605477c658"

Read = Callable[[Stores], Awaitable[Any]]


@dataclass(frozen=True)
class Reads:
    """The reads of a type of row."""

    #: each raises Undecodable
    strict: tuple[Read, ...] = ()
    #: each leaves the row out
    lists: tuple[Read, ...] = ()
    #: each starts from the beginning without the row
    restarts: tuple[Read, ...] = ()


def _open_incident(made: Stores) -> Awaitable[Any]:
    return made.incidents.find_open(IncidentKind.BREAKER, "0123456789abcdef")


async def _incident_log(made: Stores) -> Any:
    found = await made.incidents.read(TENANT, f"inc_{JOB}", START)
    assert found is not None
    return await made.incidents.log(found, after=0, limit=1)


READS: dict[str, Reads] = {
    "JOB": Reads(strict=(lambda made: made.ledger.read(JOB), lambda made: made.ledger.end_of(JOB))),
    "STEP": Reads(strict=(lambda made: made.ledger.read(JOB),)),
    "EVENT": Reads(strict=(lambda made: made.ledger.events(JOB),)),
    "CLAIM": Reads(strict=(lambda made: made.index.read_claim(TENANT, CLAIM),)),
    "ACTIVE": Reads(
        strict=(
            lambda made: made.index.read_active(TENANT, JOB),
            # a count without a job would admit another in its place
            lambda made: made.index.list_active(TENANT, after=None, limit=1),
        ),
        lists=(lambda made: made.index.list_active(TENANT, after=None, limit=1, unread=[]),),
    ),
    "DUE": Reads(lists=(lambda made: made.index.due(TENANT, now=FOR_EVER, limit=1),)),
    "ENDED": Reads(lists=(lambda made: made.index.due_for_clearing(TENANT, now=FOR_EVER, limit=1),)),
    "LIST": Reads(lists=(lambda made: made.index.list_jobs(TENANT, after=None, limit=1),)),
    "ARCHIVED": Reads(
        strict=(lambda made: made.ledger.find_archived(JOB),),
        lists=(lambda made: made.index.list_archived(TENANT, after=None, limit=1),),
    ),
    "DEAD": Reads(lists=(lambda made: made.index.dead_letters(TENANT, after=None, limit=1),)),
    "POSITION": Reads(restarts=(lambda made: made.index.read_position(0),)),
    "WAIT": Reads(lists=(lambda made: made.admissions.first_waiting(TENANT, 1, 1),)),
    "FREED": Reads(
        # a count without it would be too low once the row is taken
        strict=(lambda made: made.admissions.list_freed(TENANT, limit=1),),
        lists=(lambda made: made.admissions.list_freed(TENANT, limit=1, unread=[]),),
    ),
    "GATES": Reads(strict=(lambda made: made.admissions.read(TENANT),)),
    "GATELOG": Reads(lists=(lambda made: made.admissions.log(TENANT, SOURCE_GATE, after=0, limit=1),)),
    "BOOK": Reads(strict=(lambda made: made.allocations.read(BOOK),)),
    "asks": Reads(lists=(lambda made: made.allocations.asks(BOOK),)),
    "BULK": Reads(
        strict=(lambda made: made.bulks.read(TENANT, BULK),),
        lists=(lambda made: made.bulks.list_bulks(TENANT, after=None, limit=1),),
    ),
    "BULKITEM": Reads(
        strict=(lambda made: made.bulks.read_item(TENANT, BULK, JOB),),
        lists=(lambda made: made.bulks.items(TENANT, BULK, after=None, limit=1),),
    ),
    "BULKKEY": Reads(strict=(lambda made: made.bulks.find_key(TENANT, "f" * 64),)),
    # an omitted slot would look free, and a bulk operation without work would end
    "BULKSLOT": Reads(strict=(lambda made: made.bulks.slots(TENANT),)),
    "BULKWORK": Reads(strict=(lambda made: made.bulks.work(TENANT, BULK, limit=1),)),
    "bulks": Reads(lists=(lambda made: made.bulks.due(now=FOR_EVER, limit=1),)),
    "INCIDENT": Reads(
        strict=(lambda made: made.incidents.read(TENANT, f"inc_{JOB}", START),),
        lists=(lambda made: made.incidents.list_at(TENANT, after=None, limit=1),),
    ),
    "INCIDENT of no job": Reads(
        strict=(_open_incident,), lists=(lambda made: made.incidents.list_at(None, after=None, limit=1),)
    ),
    "INCIDENTLOG": Reads(lists=(_incident_log,)),
    "OF": Reads(lists=(lambda made: made.incidents.list_of_tenant(TENANT, after=None, limit=1),)),
    "OPEN": Reads(lists=(lambda made: made.incidents.list_open(after=None, limit=1),)),
    "SUBJECT": Reads(strict=(_open_incident,)),
    "HEAD": Reads(strict=(lambda made: made.feed.head(TENANT),)),
    "SEEN": Reads(strict=(lambda made: made.feed.read_seen(TENANT, JOB),)),
    # a page without it would be signed as complete
    "DAY": Reads(strict=(lambda made: made.heads.list_days(TENANT, START.date(), START.date(), limit=1),)),
    "COMPLETE": Reads(strict=(lambda made: made.heads.read_completed(TENANT),)),
    "FEED": Reads(strict=(lambda made: made.feed.identity(),)),
    "E": Reads(lists=(lambda made: made.feed.events(TENANT, after=0, limit=1),)),
    "=feeds": Reads(lists=(lambda made: made.feed.tenants(),)),
    # the deliveries of an omitted webhook would be deleted
    "HOOK": Reads(strict=(lambda made: made.hooks.read(TENANT, "hook_1"), lambda made: made.hooks.all_of(TENANT))),
    "HOOKLOG": Reads(lists=(lambda made: made.hooks.log(TENANT, "hook_1", after=0, limit=1),)),
    "PENDING": Reads(
        strict=(lambda made: made.hooks.delivery(TENANT, "hook_1", 1, "n"),),
        lists=(lambda made: made.hooks.pending(TENANT, None, limit=1),),
    ),
    "DELIVERY": Reads(
        strict=(lambda made: made.hooks.delivery(TENANT, "hook_1", 2, "n"),),
        lists=(lambda made: made.hooks.list_ended(TENANT, "hook_1", limit=1),),
    ),
    "=hooks": Reads(lists=(lambda made: made.hooks.list_noted(),)),
    "USAGE JOBS": Reads(lists=(lambda made: made.usage.hours(TENANT, START, FOR_EVER),)),
    "USAGE PEAK": Reads(lists=(lambda made: made.usage.hours(TENANT, START, FOR_EVER),)),
    "USAGE REJECTED": Reads(
        strict=(lambda made: made.usage.add_refused(TENANT, START, {("a", "b"): 1}),),
        lists=(lambda made: made.usage.hours(TENANT, START, FOR_EVER),),
    ),
    "USAGE FOLDING": Reads(restarts=(lambda made: made.usage.read_folding(TENANT, START),)),
    "SOURCE": Reads(lists=(lambda made: made.usage.sources(TENANT, after="", limit=1),)),
    "REFOLD": Reads(lists=(lambda made: made.usage.list_fold_again(FOR_EVER, after="", limit=1),)),
    "FOLD": Reads(strict=(lambda made: made.usage.read_position(0),)),
    "SWEEP": Reads(lists=(lambda made: made.marks.read(1),)),
    "MINUTE": Reads(lists=(lambda made: made.minutes.read(START),)),
    "SERVICE": Reads(lists=(lambda made: made.answers.read(),)),
    "PROTOCOL": Reads(lists=(lambda made: TablesProtocolVersions(made.account, "gates").read(),)),
    "rejected": Reads(lists=(lambda made: made.rejected.list_days(DAY, DAY, tenant=None, after=None, limit=1),)),
    "tenants": Reads(
        lists=(lambda made: made.index.tenants(), lambda made: made.index.awake_tenants(now=FOR_EVER)),
    ),
    # by their keys alone
    "DEP": Reads(),
    "DEPFAILED": Reads(),
    "CORRELATION": Reads(),
    # tests/adapters/test_directory.py
    "directory": Reads(),
}


async def test_each_type_of_row_is_covered() -> None:
    """A new type must define the work that stops."""
    made = await stores()
    tables = made.account.tables.items()
    assert {kind_of(name, row) for name, table in tables for row in table.all_rows} == {*READS}


def broken(made: Stores, kind: str, values: Callable[[str, Any], Any]) -> list[str]:
    """Returns the rows of the type with other values, and their keys; a value that is None is omitted."""
    keys = []
    for table in made.account.tables.values():
        for row in table.all_rows:
            if kind_of(_name(made, table), row) == kind:
                fixed = {name: row[name] for name in ("PartitionKey", "RowKey")}
                table.put({**{name: values(name, each) for name, each in row.items()}, **fixed})
                keys.append(f"{row['PartitionKey']} {row['RowKey']}")
    return keys


def _name(made: Stores, table: FakeTable) -> str:
    return next(name for name, each in made.account.tables.items() if each is table)


def nothing(name: str, value: Any) -> Any:
    """Columns by which the store itself filters are there."""
    return (
        value
        if name in ("wake_at", "due_at", "created_at", "ended_at", "first_at") and isinstance(value, datetime)
        else None
    )


def no_json(name: str, value: Any) -> Any:
    return "{" if isinstance(value, str) else value


def numbers(name: str, value: Any) -> Any:
    return value if isinstance(value, datetime) else 7


@pytest.mark.parametrize("kind", READS)
async def test_a_row_without_columns(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its key is in the error, or in the log."""
    caplog.set_level(logging.WARNING)
    reads = READS[kind]
    made = await stores()
    keys = broken(made, kind, nothing)
    for read in reads.strict:
        with pytest.raises(Undecodable) as raised:
            await read(made)
        assert raised.value.row in keys
    for read in (*reads.lists, *reads.restarts):
        caplog.clear()
        found = await read(made)
        logged = [json.loads(line) for line in caplog.messages]
        assert {line["row"] for line in logged if line["event"] == "ROW_UNDECODABLE"} <= {*keys}
        assert logged
        # an hour has other rows beside it
        assert not found or read in reads.restarts or kind.startswith("USAGE")


@pytest.mark.parametrize("values", [no_json, numbers])
@pytest.mark.parametrize("kind", READS)
async def test_nothing_but_an_error_of_lucius_leaves_the_adapters(kind: str, values: Any) -> None:
    """For any value of a column."""
    reads = READS[kind]
    made = await stores()
    broken(made, kind, values)
    for read in (*reads.strict, *reads.lists, *reads.restarts):
        try:
            await read(made)
        except LuciusError:
            assert read in reads.strict


async def test_a_page_goes_on_past_rows_that_cannot_be_decoded() -> None:
    """A page is shorter than its limit at the end of the list only."""
    made = await stores()
    table = made.account.of("index")
    [row] = made.of("WAIT")
    made.remove("WAIT")
    for number in range(10):
        # seven of ten are broken
        columns = {**row, "job_id": f"job_{number}"} if number % 4 == 3 or number == 8 else {}
        table.put({**columns, "PartitionKey": TENANT, "RowKey": f"WAIT:0001:{number:013d}:job_{number}"})

    two, five = [await made.admissions.first_waiting(TENANT, 1, limit) for limit in (2, 5)]
    assert [each.candidate.job_id for each in two] == ["job_3", "job_7"]
    assert [each.candidate.job_id for each in five] == ["job_3", "job_7", "job_8"]


async def test_a_source_that_gave_way_ends_no_page() -> None:
    """Its row came back with its last job alone, and is not of the list."""
    made = await stores()
    [row] = made.of("SOURCE")
    made.remove("SOURCE")
    for number, columns in enumerate(({"name": "a", "last_at": START}, row, row)):
        made.account.of("index").put({**columns, "PartitionKey": TENANT, "RowKey": f"SOURCE:{number}"})
    assert [each.cursor for each in await made.usage.sources(TENANT, after="", limit=1)] == ["SOURCE:1"]


async def test_a_list_ends_with_an_error_where_most_of_it_cannot_be_decoded() -> None:
    """So a query has an end in a store of another release."""
    made = await stores()
    made.remove("WAIT")
    for number in range(MAX_LEFT_OUT + 1):
        made.account.of("index").put({"PartitionKey": TENANT, "RowKey": f"WAIT:0001:{number:013d}:job_{number}"})
    with pytest.raises(Undecodable):
        await made.admissions.first_waiting(TENANT, 1, 2)


async def test_another_tenants_row_stops_no_one() -> None:
    """The awake tenants, of which one row is broken."""
    made = await stores()
    broken(made, "tenants", nothing)
    row = {"PartitionKey": "tenants", "RowKey": "tenant_b", "tenant": "tenant_b", "posted_at": START, "wake_at": START}
    made.account.of("tenants").put(row)
    assert await made.index.tenants() == ["tenant_b"]
    assert [each.tenant for each in await made.index.awake_tenants(now=FOR_EVER)] == ["tenant_b"]
