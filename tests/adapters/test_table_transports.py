"""The direct transport and Microsoft's SDK are equivalent: they read each other's rows, with the same errors (R45)."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import aiohttp
import pytest
from azure.core import MatchConditions
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableServiceClient

from shared.adapters.tables.account import SdkTable, TablesAccount, read_row, transact
from shared.adapters.tables.direct import DirectTable
from shared.adapters.tables.table import Table, delete_row, merge_row, put_row, replace_row, upsert_row
from shared.errors import AlreadyExists, Conflict, LedgerRefused, LuciusError
from tests.adapters.transports import TRANSPORTS, found

STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""
UNDER_STALE: dict[str, Any] = {"etag": STALE, "match_condition": MatchConditions.IfNotModified}

#: of keys and of text: quoting of OData, of URLs, of JSON and of the parts of a transaction
TEXTS = [
    "it's",
    "''",
    "a b+c%20d&e=f",
    "(x,y)='z'",
    "ümlaut 日本 \N{GRINNING FACE}",
    "$batch()",
    "--changeset_lucius--",
    '{"odata.error":1}',
    "a:b;c@d~e!f*",
    "2026-01-01T00:00:00Z",
    "Edm.Guid",
]
#: each as it is written, and as it is read where that differs
VALUES: dict[str, Any] = {
    "text": "plain",
    "empty": "",
    "lines": "a\r\n\r\n--changeset_lucius\r\nHTTP/1.1 500\t\0\u2028\x7f",
    "half_a_pair": "\ud800",
    "an_instant_in_text": "2026-01-01T00:00:00.0000000Z",
    "a_number_in_text": "12",
    "yes": True,
    "no": False,
    "zero": 0,
    "least": -(2**31),
    "most": 2**31 - 1,
    "large": ((2**53 + 1, "Edm.Int64"), 2**53 + 1),
    "small_but_long": ((7, "Edm.Int64"), 7),
    "whole_float": 3.0,
    "float": 0.1,
    "tiny": -1e-300,
    "infinite": float("inf"),
    "least_of_all": -float("inf"),
    "instant": datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
    "whole_second": datetime(1970, 1, 1, tzinfo=UTC),
    "elsewhere": datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    "guid": uuid.UUID("12345678-1234-5678-1234-567812345678"),
    "bytes": b"\0\xff'",
    "nothing": None,
}
WRITTEN = {name: value[0] if isinstance(value, tuple) else value for name, value in VALUES.items()}
READ = {name: value[1] if isinstance(value, tuple) else value for name, value in VALUES.items() if value is not None}


@pytest.fixture
def own() -> str:
    """A name for a table of the test's."""
    return f"table{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def tables(azurite: str, own: str) -> AsyncIterator[dict[str, Table]]:
    """One table of the same Azurite by each transport."""
    accounts = {
        name: TablesAccount.connect(
            connection=azurite, endpoint=None, credential=None, version_table=f"tenants{own}", transport=name
        )
        for name in TRANSPORTS
    }
    tables = {name: await account.table(own) for name, account in accounts.items()}
    assert [type(tables[name]) for name in TRANSPORTS] == [DirectTable, SdkTable]
    yield tables
    for account in accounts.values():
        await account.close()


@pytest.mark.parametrize(("writer", "reader"), list(itertools.product(TRANSPORTS, TRANSPORTS)))
async def test_rows_come_back_as_they_were_written(tables: dict[str, Table], writer: str, reader: str) -> None:
    """Every type, by a point read and a query, of a transaction and of single writes, with the ETag of the write."""
    keys = {"PartitionKey": "types", "RowKey": "transaction"}
    [new] = await transact(tables[writer], [("create", {**keys, **WRITTEN})])
    await tables[writer].write(put_row({**keys, **WRITTEN, "RowKey": "upsert"}))
    row = await tables[reader].get_entity("types", "transaction")
    assert (dict(row), row.metadata) == ({**keys, **READ}, new)
    rows = await found(tables[reader], "PartitionKey eq @p", p="types")
    assert [dict(each) for each in rows] == [{**keys, **READ}, {**keys, **READ, "RowKey": "upsert"}]
    assert rows[0].metadata == new
    assert {type(value) for value in row.values()} == {str, bool, int, float, datetime, uuid.UUID, bytes}
    query = "PartitionKey eq @p and instant eq @i and yes eq @y and most eq @n"
    marked = await found(tables[reader], query, p="types", i=VALUES["instant"], y=True, n=2**31 - 1)
    assert marked == rows


@pytest.mark.parametrize(("writer", "reader"), [("direct", "sdk"), ("sdk", "direct")])
async def test_any_text_is_a_key(tables: dict[str, Table], writer: str, reader: str) -> None:
    """A row is written, found, changed and deleted by its keys, with any characters that need quotes."""
    for text in TEXTS:
        keys = {"PartitionKey": text, "RowKey": text[::-1]}
        [new] = await transact(tables[writer], [("create", {**keys, "text": text})])
        row = await tables[reader].get_entity(text, text[::-1])
        assert dict(row) == {**keys, "text": text}
        query = "PartitionKey eq @p and RowKey ge @r and text eq @t"
        assert [dict(each) for each in await found(tables[reader], query, p=text, r=text[::-1], t=text)] == [row]
        under = {"etag": new["etag"], "match_condition": MatchConditions.IfNotModified}
        await transact(tables[reader], [("update", {**keys, "more": text}, under)])
        await tables[writer].write(merge_row({**keys, "most": text}))
        assert dict(await tables[reader].get_entity(**_named(keys))) == {
            **keys,
            "text": text,
            "more": text,
            "most": text,
        }
        await tables[writer].write(("delete", keys))
        assert await read_row(tables[reader], text, text[::-1]) is None


def _named(keys: dict[str, str]) -> dict[str, str]:
    return {"partition_key": keys["PartitionKey"], "row_key": keys["RowKey"]}


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_transaction_is_all_or_none(tables: dict[str, Table], name: str) -> None:
    """100 rows in one, of every kind of operation; any fault of one leaves the others unchanged."""
    table = tables[name]
    create = [("create", {"PartitionKey": "p", "RowKey": f"{n:03}", "n": n, "m": 0}) for n in range(100)]
    assert len({each["etag"] for each in await transact(table, create)}) > 1
    etag = (await table.get_entity("p", "001")).metadata["etag"]
    under = {"mode": UpdateMode.REPLACE, "etag": etag, "match_condition": MatchConditions.IfNotModified}
    metadata = await transact(
        table,
        [
            ("delete", {"PartitionKey": "p", "RowKey": "000"}),
            ("update", {"PartitionKey": "p", "RowKey": "001", "n": 10}, under),
            ("update", {"PartitionKey": "p", "RowKey": "002", "n": 20}, {"mode": UpdateMode.MERGE}),
            ("upsert", {"PartitionKey": "p", "RowKey": "003", "n": 30}, {"mode": UpdateMode.REPLACE}),
            ("upsert", {"PartitionKey": "p", "RowKey": "new", "n": 40}),
        ],
    )
    rows = await found(
        table, "PartitionKey eq @p and ( RowKey lt @four or RowKey eq @new )", p="p", four="004", new="new"
    )
    assert [(row["RowKey"], row["n"], row.get("m")) for row in rows] == [
        ("001", 10, None),
        ("002", 20, 0),
        ("003", 30, None),
        ("new", 40, None),
    ]
    assert [each.get("etag") for each in metadata] == [None, *(row.metadata["etag"] for row in rows)]
    before = await found(table, "PartitionKey eq @p", p="p")
    good = ("update", {"PartitionKey": "p", "RowKey": "005", "n": -1}, {"mode": UpdateMode.REPLACE})
    row: dict[str, Any] = {"PartitionKey": "p", "RowKey": "001"}
    gone = {"PartitionKey": "p", "RowKey": "000"}
    wrong: list[tuple[Any, type[LuciusError]]] = [
        (("create", row), AlreadyExists),
        (("update", row, UNDER_STALE), Conflict),
        (("delete", row, UNDER_STALE), Conflict),
        (("update", gone), Conflict),
        (("delete", gone), Conflict),
        (good, LedgerRefused),  # a row twice
        (("create", {**gone, "RowKey": "a/b"}), LedgerRefused),
        (("create", {**gone, "long": "x" * 33_000}), LedgerRefused),
        (("create", {**gone, "PartitionKey": "q"}), LedgerRefused),
        (("create", {**gone, "n": 2**31}), LedgerRefused),
        (("create", {**gone, "n": (2**63, "Edm.Int64")}), LedgerRefused),
        (("create", {**gone, "n": object()}), LedgerRefused),
        (("create", {**gone, "n": datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))}), LedgerRefused),
        (("update", row, {"etag": STALE}), LedgerRefused),
        (("update", row, {"match_condition": MatchConditions.IfNotModified}), LedgerRefused),
        (("delete", {**gone, "RowKey": 1}), LedgerRefused),
        (("delete", {**gone, "RowKey": "\ud800"}), LedgerRefused),
        (("forget", row), LedgerRefused),
    ]
    for operation, error in wrong:
        with pytest.raises(error) as raised:
            await transact(table, [good, operation])
        assert isinstance(raised.value, error), operation
    for too_many in (
        [*create, ("create", gone)],
        [("create", {**each, "x": "x" * 30_000, "y": "y" * 30_000}) for _, each in create],
    ):
        with pytest.raises(LedgerRefused):
            await transact(table, too_many)
    assert await found(table, "PartitionKey eq @p", p="p") == before


async def test_a_transaction_of_nearly_four_mib_is_taken(tables: dict[str, Table]) -> None:
    """By both: the encoding of one is not larger than the other's."""
    for name, table in tables.items():
        rows = [{"PartitionKey": name, "RowKey": f"{n}", "x": "x" * 30_000, "y": "y" * 30_000} for n in range(68)]
        assert len(await transact(table, [("create", row) for row in rows])) == 68


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_read_has_the_type_of_long_numbers(tables: dict[str, Table], name: str) -> None:
    """So a column is written again with its type, for any value."""
    key = {"PartitionKey": "p", "RowKey": "long"}
    await tables[name].write(upsert_row({**key, "short": 7, "long": (7, "Edm.Int64"), "text": "7"}))
    [queried] = [row async for row in tables[name].query_entities("RowKey eq @row", parameters={"row": "long"})]
    for row in (await tables[name].get_entity("p", "long"), queried):
        assert list(row.int64) == ["long"]


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_single_writes(tables: dict[str, Table], name: str) -> None:
    """A merge keeps columns and a replacement does not; a condition that fails is a conflict; no row is no error."""
    table, keys = tables[name], {"PartitionKey": "p", "RowKey": "r"}
    with pytest.raises(Conflict):
        await table.write(merge_row(keys))
    await table.write(upsert_row({**keys, "a": 1}))
    await table.write(upsert_row({**keys, "b": 2}))
    await table.write(merge_row({**keys, "c": 3}))
    row = await table.get_entity("p", "r")
    assert row == {**keys, "a": 1, "b": 2, "c": 3}
    for stale in (merge_row(keys, STALE), delete_row("p", "r", STALE)):
        with pytest.raises(Conflict):
            await table.write(stale)
    await table.write(replace_row({**keys, "d": 4}, row.etag))
    assert await table.get_entity("p", "r") == {**keys, "d": 4}
    for refused in (upsert_row({**keys, "n": 2**31}), ("update", keys, {"etag": STALE})):
        with pytest.raises(LedgerRefused):
            await table.write(refused)
    await table.write(delete_row("p", "r"))
    await table.write(delete_row("p", "r"))
    assert await read_row(table, "p", "r") is None


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_query_goes_on_where_a_page_ended(tables: dict[str, Table], name: str) -> None:
    """Over keys that need quoting, with the selected columns only."""
    table = tables[name]
    keys = sorted(f"{n} it's 100% ü" for n in range(7))
    await transact(table, [("create", {"PartitionKey": "p&q", "RowKey": key, "a": 1, "b": key}) for key in keys])
    query = table.query_entities("PartitionKey eq @p", parameters={"p": "p&q"}, select=["b"], results_per_page=3)
    assert [row async for row in query] == [{"b": key} for key in keys]
    assert await found(table, "PartitionKey eq @p", p="nobody") == []


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_table_that_is_gone(tables: dict[str, Table], name: str, own: str, azurite: str) -> None:
    """It has no rows, and accepts none."""
    async with TableServiceClient.from_connection_string(azurite) as service:
        await service.delete_table(own)
    table, keys = tables[name], {"PartitionKey": "p", "RowKey": "r"}
    assert await read_row(table, "p", "r") is None
    calls = (
        transact(table, [("create", keys)]),
        table.write(upsert_row(keys)),
        found(table, "PartitionKey eq @p", p="p"),
    )
    for call in calls:
        with pytest.raises(Conflict):
            await call


async def test_the_store_keeps_connections_for_longer_than_its_clients(azurite: str) -> None:
    """A transaction sent into a connection that the store just closes is not sent again: it may be committed."""
    endpoint = dict(part.split("=", 1) for part in azurite.split(";") if part)["TableEndpoint"]
    async with aiohttp.ClientSession() as session, session.get(endpoint) as answer:
        kept = re.search(r"timeout=(\d+)", answer.headers["Keep-Alive"])
        assert isinstance(session.connector, aiohttp.TCPConnector)
        assert kept is not None
        assert int(kept[1]) > session.connector._keepalive_timeout
