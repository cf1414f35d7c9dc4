"""The direct transport and Microsoft's SDK agree: what one writes the other reads, and each error is the same (R45)."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableServiceClient

from shared.adapters.tables.account import SdkTable, TablesAccount, read_row, transact
from shared.adapters.tables.direct import DirectAccount, DirectTable
from shared.adapters.tables.table import Entity, Table
from shared.errors import AlreadyExists, Conflict, LedgerRefused, LedgerUnavailable, LuciusError
from shared.time_limits import StoreLimits

TRANSPORTS = ("direct", "sdk")
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


async def found(table: Table, query: str, **parameters: Any) -> list[Entity]:
    return [entity async for entity in table.query_entities(query, parameters=parameters)]


async def outcome(call: Awaitable[object]) -> object:
    """What it gives, or the class of what it raises."""
    try:
        return await call
    except LuciusError as error:
        return type(error)


@pytest.mark.parametrize(("writer", "reader"), list(itertools.product(TRANSPORTS, TRANSPORTS)))
async def test_rows_come_back_as_they_were_written(tables: dict[str, Table], writer: str, reader: str) -> None:
    """Every type, by a point read and a query, of a transaction and of single writes, with the ETag of the write."""
    keys = {"PartitionKey": "types", "RowKey": "transaction"}
    [new] = await transact(tables[writer], [("create", {**keys, **WRITTEN})])
    await tables[writer].upsert_entity({**keys, **WRITTEN, "RowKey": "upsert"}, mode=UpdateMode.REPLACE)
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
    """A row is written, found, changed and removed by its keys, whatever needs quoting in them."""
    for text in TEXTS:
        keys = {"PartitionKey": text, "RowKey": text[::-1]}
        [new] = await transact(tables[writer], [("create", {**keys, "text": text})])
        row = await tables[reader].get_entity(text, text[::-1])
        assert dict(row) == {**keys, "text": text}
        query = "PartitionKey eq @p and RowKey ge @r and text eq @t"
        assert [dict(each) for each in await found(tables[reader], query, p=text, r=text[::-1], t=text)] == [row]
        under = {"etag": new["etag"], "match_condition": MatchConditions.IfNotModified}
        await transact(tables[reader], [("update", {**keys, "more": text}, under)])
        await tables[writer].update_entity({**keys, "most": text})
        assert dict(await tables[reader].get_entity(**_named(keys))) == {
            **keys,
            "text": text,
            "more": text,
            "most": text,
        }
        await tables[writer].delete_entity(**_named(keys))
        assert await read_row(tables[reader], text, text[::-1]) is None


def _named(keys: dict[str, str]) -> dict[str, str]:
    return {"partition_key": keys["PartitionKey"], "row_key": keys["RowKey"]}


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_transaction_is_all_or_none(tables: dict[str, Table], name: str) -> None:
    """100 rows go in one, of every kind of operation; whatever is wrong with one leaves the others as they were."""
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
    """By both: what the one encodes is not larger than what the other does."""
    for name, table in tables.items():
        rows = [{"PartitionKey": name, "RowKey": f"{n}", "x": "x" * 30_000, "y": "y" * 30_000} for n in range(68)]
        assert len(await transact(table, [("create", row) for row in rows])) == 68


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_single_writes(tables: dict[str, Table], name: str) -> None:
    """A merge keeps columns and a replacement does not; a condition that fails is a conflict; no row is no error."""
    table, keys = tables[name], {"PartitionKey": "p", "RowKey": "r"}
    with pytest.raises(Conflict):
        await table.update_entity(keys)
    await table.upsert_entity({**keys, "a": 1})
    await table.upsert_entity({**keys, "b": 2})
    await table.update_entity({**keys, "c": 3})
    row = await table.get_entity("p", "r")
    assert row == {**keys, "a": 1, "b": 2, "c": 3}
    for stale in (table.update_entity(keys, **UNDER_STALE), table.delete_entity("p", "r", **UNDER_STALE)):
        with pytest.raises(Conflict):
            await stale
    etag = {"etag": row.metadata["etag"], "match_condition": MatchConditions.IfNotModified}
    await table.update_entity({**keys, "d": 4}, UpdateMode.REPLACE, **etag)
    assert await table.get_entity("p", "r") == {**keys, "d": 4}
    for refused in (table.upsert_entity({**keys, "n": 2**31}), table.update_entity(keys, etag=STALE)):
        with pytest.raises(LedgerRefused):
            await refused
    await table.delete_entity("p", "r")
    await table.delete_entity("p", "r")
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
    """Has no rows, and takes none."""
    async with TableServiceClient.from_connection_string(azurite) as service:
        await service.delete_table(own)
    table, keys = tables[name], {"PartitionKey": "p", "RowKey": "r"}
    assert await read_row(table, "p", "r") is None
    calls = (transact(table, [("create", keys)]), table.upsert_entity(keys), found(table, "PartitionKey eq @p", p="p"))
    for call in calls:
        with pytest.raises(Conflict):
            await call


#: of a store that answers wrongly; the waits of the retries are as short as can be
#: to connect takes long only where the machine has no time for it
LIMITS = StoreLimits(connect_s=10, read_s=0.5, retries=2, backoff_s=0.01)
KEYS = {"PartitionKey": "p", "RowKey": "r"}
CALLS: dict[str, Callable[[Table], Awaitable[object]]] = {
    "a point": lambda table: read_row(table, "p", "r"),
    "a query": lambda table: found(table, "PartitionKey eq @p", p="p"),
    "a transaction": lambda table: transact(table, [("create", KEYS), ("delete", {**KEYS, "RowKey": "s"})]),
    "a merge": lambda table: table.upsert_entity(KEYS),
    "a replacement": lambda table: table.update_entity(KEYS, UpdateMode.REPLACE),
    "a removal": lambda table: table.delete_entity("p", "r"),
}
JSON = "Content-Type: application/json\r\n"
CODE = '{"odata.error":{"code":"ServerSays","message":{"lang":"en","value":"why"}}}'


def answer(status: int, body: str = "", headers: str = JSON, *, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} Status\r\n{headers}Content-Length: {size}\r\n\r\n{body}".encode()


def parts(*each: str) -> bytes:
    """An answer to a transaction."""
    inner = "".join(f"--changesetresponse_1\r\nContent-Type: application/http\r\n\r\n{part}\r\n" for part in each)
    body = (
        "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n"
        f"{inner}--changesetresponse_1--\r\n--batchresponse_1--\r\n"
    )
    return answer(202, body, "Content-Type: multipart/mixed; boundary=batchresponse_1\r\n")


TAKEN = 'HTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n'
REMOVED = "HTTP/1.1 204 No Content\r\n\r\n"
HTML = "Content-Type: text/html\r\n"
RETRY = JSON + "Retry-After: 0\r\n"

#: what the store sends at each request, and what that means where every call means the same; None: see the SDK
ANSWERS: dict[str, tuple[bytes | None, type[LuciusError] | None]] = {
    "nothing": (None, LedgerUnavailable),
    "an end": (b"", LedgerUnavailable),
    "half a line": (b"HTTP/1.1 20", LedgerUnavailable),
    "no HTTP": (b"220 mail.example.com ESMTP\r\n", LedgerUnavailable),
    "half a body": (answer(200, '{"value":[', length=100), LedgerUnavailable),
    "half a transaction": (answer(202, "--batchresponse_1", length=100), LedgerUnavailable),
    "a page": (answer(200, "<html>Welcome</html>", HTML), LedgerUnavailable),
    "text": (answer(200, "hello"), LedgerUnavailable),
    "no JSON for a transaction": (answer(202, "hello"), LedgerUnavailable),
    "a list": (answer(200, "[1]"), LedgerUnavailable),
    "no rows": (answer(200, '{"value":{"a":1}}'), None),
    "rows of numbers": (answer(200, '{"value":[1,2]}'), None),
    "a wrong instant": (answer(200, '{"value":[{"t":"x","t@odata.type":"Edm.DateTime"}]}'), None),
    "a wrong number": (answer(200, '{"n":"x","n@odata.type":"Edm.Int64"}'), None),
    "no part": (parts(), LedgerUnavailable),
    "one part of two": (parts(TAKEN), LedgerUnavailable),
    "no etag": (parts(REMOVED, REMOVED), LedgerUnavailable),
    "parts of garbage": (parts("garbage", "garbage"), LedgerUnavailable),
    "both taken": (parts(TAKEN, REMOVED), None),
    "a part busy": (parts(f"HTTP/1.1 503 Busy\r\n{JSON}\r\n{CODE}"), LedgerUnavailable),
    "a part too large": (parts(f"HTTP/1.1 413 Large\r\n{JSON}\r\n{CODE}"), None),
    "a part that conflicts": (parts(f"HTTP/1.1 412 Moved\r\n{JSON}\r\n{CODE}"), None),
    "a part not found": (parts("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\nwhat?"), LedgerUnavailable),
    **{
        f"{status}{how}": (answer(status, body, headers), error)
        for status, error in {
            302: LedgerUnavailable,
            400: LedgerRefused,
            401: LedgerUnavailable,
            403: LedgerUnavailable,
            408: LedgerUnavailable,
            413: LedgerRefused,
            429: LedgerUnavailable,
            500: LedgerUnavailable,
            501: LedgerUnavailable,
            502: LedgerUnavailable,
            503: LedgerUnavailable,
            504: LedgerUnavailable,
            507: LedgerUnavailable,
        }.items()
        for how, body, headers in (("", CODE, JSON), (" of a page", "<html>no</html>", HTML), (", wait", CODE, RETRY))
    },
    "404": (answer(404, CODE), None),
    "404 of a page": (answer(404, "<html>no</html>", HTML), None),
    "409": (answer(409, CODE), AlreadyExists),
    "409 of a page": (answer(409, "<html>no</html>", HTML), LedgerUnavailable),
    "412": (answer(412, CODE), Conflict),
    "412 in XML": (
        answer(
            412, "<m:error xmlns:m='m'><m:code>ConditionNotMet</m:code></m:error>", "Content-Type: application/xml\r\n"
        ),
        Conflict,
    ),
}


class Store:
    """Answers each request with the next of its answers, and the last again and again."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        #: of the requests
        self.heads: list[str] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = dict(line.lower().split(b": ", 1) for line in head.splitlines()[1:-1])
                await reader.readexactly(int(lines.get(b"content-length", 0)))
                self.heads.append(head.decode())
                response = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if response is None:
                    continue
                writer.write(response)
                await writer.drain()
                if (
                    not response.startswith(b"HTTP/1.1 ")
                    or b"Content-Length: 100" in response
                    or response.endswith(b" 20")
                ):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()


@asynccontextmanager
async def table_at(name: str, url: str) -> AsyncIterator[Table]:
    key = AzureNamedKeyCredential("a", "a2V5")
    async with TableServiceClient(url, credential=key, **LIMITS.options) as service:
        direct = DirectAccount(url, key, LIMITS)
        yield SdkTable(service.get_table_client("ledger")) if name == "sdk" else DirectTable(direct, "ledger")
        await direct.close()


async def result_of(name: str, call: str, *answers: bytes | None) -> tuple[object, int]:
    """The outcome, and how many requests it took."""
    store = Store(*answers)
    async with store.serving() as url, table_at(name, f"{url}/a") as table:
        result = await outcome(CALLS[call](table))
    return result, len(store.heads)


@pytest.mark.parametrize("call", CALLS)
async def test_a_store_that_answers_wrongly_means_the_same(call: str) -> None:
    """Late, half, garbage or an error: the same result or error after as many requests, and no error but ours.

    A transaction is sent once where its answer is lost: it may have been committed.
    """
    turns = asyncio.Semaphore(8)  # so that none waits for its turn as long as its limit

    async def one(name: str, answer: bytes | None) -> tuple[object, int]:
        async with turns:
            return await result_of(name, call, answer)

    direct, sdk = [
        dict(zip(ANSWERS, await asyncio.gather(*(one(name, answer) for answer, _ in ANSWERS.values())), strict=True))
        for name in TRANSPORTS
    ]
    assert direct == sdk
    meant = {what: error for what, (_, error) in ANSWERS.items() if error is not None}
    assert {what: direct[what][0] for what in meant} == meant


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("first", ["503", "500, wait", "429, wait", "502", "an end"])
async def test_a_store_that_comes_back(call: str, first: str) -> None:
    """What is tried again gets the good answer, by both."""
    good = {
        "a point": answer(200, '{"a":1}'),
        "a query": answer(200, '{"value":[]}'),
        "a transaction": parts(TAKEN, REMOVED),
    }
    answers = (ANSWERS[first][0], good.get(call, answer(204, headers="")))
    direct, sdk = [await result_of(name, call, *answers) for name in TRANSPORTS]
    assert direct == sdk


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ("", [LIMITS.backoff_s]),
        ("Retry-After: 7\r\n", [7, 7]),
        ("Retry-After: 0\r\n", [LIMITS.backoff_s]),
        ("Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n", [LIMITS.backoff_s]),
    ],
)
@pytest.mark.parametrize("name", TRANSPORTS)
async def test_waits(name: str, headers: str, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first retry comes at once and the second after a wait, or both when the store says."""
    slept: list[float] = []

    async def sleep(seconds: float, *_: object) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    for call in ("a point", "a transaction"):
        slept.clear()
        result, requests = await result_of(name, call, answer(503, CODE, JSON + headers))
        assert (result, requests, [seconds for seconds in slept if seconds]) == (LedgerUnavailable, 3, waits)


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_proxy_of_the_environment_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is asked through it, unless the environment excepts the store's host."""
    proxy = Store(answer(200, '{"a":1}'))
    async with proxy.serving() as url:
        monkeypatch.setenv("http_proxy", url)
        async with table_at(name, "http://ledger.invalid/a") as table:
            assert await table.get_entity("p", "r") == {"a": 1}
        assert proxy.heads[0].startswith("GET http://ledger.invalid/a/ledger(")
        monkeypatch.setenv("no_proxy", "ledger.invalid")
        async with table_at(name, "http://ledger.invalid/a") as table:
            with pytest.raises(LedgerUnavailable):
                await table.get_entity("p", "r")


class Tokens:
    """A credential that counts; every token lives for an hour, or is over soon."""

    def __init__(self, lives_s: float = 3600) -> None:
        self.asked: list[str | None] = []
        self._lives_s = lives_s

    async def get_token(self, *scopes: str, tenant_id: str | None = None, **_: Any) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",)
        self.asked.append(tenant_id)
        await asyncio.sleep(0)
        if tenant_id == "gone":
            raise ClientAuthenticationError("no such tenant")
        return AccessToken(f"token{len(self.asked)}", int(time.time() + self._lives_s))

    async def close(self) -> None: ...

    async def __aenter__(self) -> Tokens:
        return self

    async def __aexit__(self, *_: object) -> None: ...


def challenge(tenant: str) -> bytes:
    header = f"Bearer authorization_uri=https://login.microsoftonline.com/{tenant}/oauth2/authorize resource_id=x"
    return answer(401, CODE, f"{JSON}WWW-Authenticate: {header}\r\n")


@pytest.mark.parametrize(
    ("lives_s", "answers", "asked", "sent"),
    [
        pytest.param(3600, [answer(200, "{}")], [None], ["token1", "token1", "token1"], id="kept"),
        pytest.param(60, [answer(200, "{}")], [None] * 3, ["token1", "token2", "token3"], id="over soon"),
        pytest.param(
            3600,
            [challenge("t1"), answer(200, "{}")],
            [None, "t1"],
            ["token1", "token2", "token2", "token2"],
            id="of the account's tenant",
        ),
        pytest.param(
            3600, [challenge("t1")], [None, *["t1"] * 3], [f"token{n}" for n in (1, 2, 2, 3, 3, 4)], id="refused again"
        ),
        pytest.param(3600, [challenge("gone")], [None, *["gone"] * 3], ["token1"], id="none to be had"),
        pytest.param(3600, [answer(401, CODE)], [None] * 3, ["token1", "token2", "token3"], id="refused for good"),
    ],
)
async def test_tokens(lives_s: float, answers: list[bytes], asked: list[str | None], sent: list[str]) -> None:
    """One is kept until shortly before its end, and replaced once when it is refused."""
    store, tokens = Store(*answers), Tokens(lives_s)
    async with store.serving() as url:
        account = DirectAccount(f"{url}/a", tokens, LIMITS)
        table = DirectTable(account, "ledger")
        results = [await outcome(table.get_entity("p", "r")) for _ in range(3)]
        await account.close()
    assert (tokens.asked, [re.findall("Bearer (.*)\r", head)[0] for head in store.heads]) == (asked, sent)
    assert results == [{} if answers[-1] == answer(200, "{}") else LedgerUnavailable] * 3


async def test_calls_at_once_share_a_token() -> None:
    """The first of them fetches it, and the others wait for it."""
    store, tokens = Store(answer(200, "{}")), Tokens()
    async with store.serving() as url:
        account = DirectAccount(f"{url}/a", tokens, LIMITS)
        table = DirectTable(account, "ledger")
        assert await asyncio.gather(*(table.get_entity("p", "r") for _ in range(20))) == [{}] * 20
        await account.close()
    assert (tokens.asked, len(store.heads)) == ([None], 20)
