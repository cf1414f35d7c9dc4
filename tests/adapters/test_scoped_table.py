"""The tables as one caller reaches them: the ways in which a partition could be taken for one of the caller's (R24)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.access.caller import ANYONE, NOBODY, Caller
from shared.adapters.memory_tables import MemoryAccount
from shared.adapters.scoped.reach import Reach
from shared.adapters.scoped.stores import TenantFeed, TenantHooks, TenantIndex, TenantUsage
from shared.adapters.scoped.table import SHARED, ScopedTable, ScopedTables, Sharing
from shared.adapters.tables import keys
from shared.adapters.tables.account import read_row, transact
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.table import NotThere, Table, delete_row, merge_row, upsert_row
from shared.core.jobs.routing import PLATFORM
from shared.core.records.canonical import encode_key
from shared.core.webhooks.webhooks import Hook, SecretVersion
from shared.errors import LedgerRefused
from shared.ports.feed import Head
from shared.ports.hooks import HookWrite
from shared.refusals import TenantForbidden
from tests.fake_tables import FakeAccount
from tests.jobs import START, planned

ACME = Caller(actor="a", scopes=frozenset(), tenant="acme")
READER = replace(ACME, sees_all=True)
MOVER = Caller(actor="m", scopes=frozenset(), tenant=None, moves_all=True)
#: of a table without tenants' partitions
GATES = "gates"


async def scoped(account: MemoryAccount, caller: Caller, name: str = "index", *, moving: bool = False) -> Table:
    return await ScopedTables(account, Reach(caller, moving), [GATES, "tenants"]).table(name)


def row(partition: str, key: str = "r", **columns: Any) -> dict[str, Any]:
    return {"PartitionKey": partition, "RowKey": key, **columns}


async def filled(*partitions: str, table: str = "index", **columns: Any) -> MemoryAccount:
    account = MemoryAccount()
    for partition in partitions:
        await account.of(table).write(upsert_row(row(partition, **columns)))
    return account


async def found(table: Table, query: str, **parameters: Any) -> list[str]:
    return [each["PartitionKey"] async for each in table.query_entities(query, parameters=parameters)]


#: each method of `Table`, at one partition
READS: dict[str, Callable[[Table, str], Awaitable[object]]] = {
    "get": lambda table, partition: read_row(table, partition, "r"),
    "query": lambda table, partition: found(table, "PartitionKey eq @p", p=partition),
    "query of keys": lambda table, partition: found(
        table, "PartitionKey eq @p and RowKey gt @first and RowKey lt @end", p=partition, first="", end="z"
    ),
}
WRITES: dict[str, Callable[[Table, str], Awaitable[object]]] = {
    "transaction": lambda table, partition: transact(table, [("upsert", row(partition))]),
    "upsert": lambda table, partition: table.write(upsert_row(row(partition))),
    "update": lambda table, partition: table.write(merge_row(row(partition))),
    "delete": lambda table, partition: table.write(delete_row(partition, "r")),
}


@pytest.mark.parametrize("tenant", ["acme", "a/ä#", "=platform", "=2F", "%61cme", "directory", "tenants", "*"])
async def test_each_tenant_reaches_its_own_partition(tenant: str) -> None:
    """Also a tenant whose name is encoded, or is that of a partition in a table without tenants."""
    table = await scoped(await filled(encode_key(tenant)), replace(ACME, tenant=tenant))
    for call in (READS | WRITES).values():
        await call(table, encode_key(tenant))


@pytest.mark.parametrize(
    "partition",
    [
        *("acme2", "acm", "Acme", "acme ", " acme", "acme:x", "=61cme", "%61cme", "a=63me", "bob", "*"),
        *("", keys.GUARD_PARTITION, *(each for each in SHARED if not each.startswith("="))),
    ],
)
@pytest.mark.parametrize("name", READS | WRITES)
async def test_no_other_partition_is_taken_for_it(name: str, partition: str) -> None:
    """Neither a longer nor a shorter name, another case, another spelling of the key, none, the sweeper's, or a name
    that is shared in another table.
    """
    account = await filled(partition)
    for caller in (ACME, NOBODY, replace(MOVER, moves_all=False)):
        with pytest.raises(PermissionError):
            await (READS | WRITES)[name](await scoped(account, caller, moving=True), partition)
    assert [each for _, each, *_ in account.rows()] == [partition]


@pytest.mark.parametrize("name", READS | WRITES)
async def test_to_see_all_is_not_to_move_all(name: str) -> None:
    """A reader of all changes its own tenant's rows only; one that moves all reads nothing in a read-only request."""
    account = await filled("bob", "acme")
    call = (READS | WRITES)[name]
    for caller, moving, is_refused in (
        (READER, True, name in WRITES and TenantForbidden),
        (MOVER, False, name in READS and PermissionError),
        (MOVER, True, None),
        (ANYONE, False, None),
    ):
        table = await scoped(account, caller, moving=moving)
        if not is_refused:
            await call(table, "bob")
            await account.of("index").write(upsert_row(row("bob")))
            continue
        with pytest.raises(is_refused):
            await call(table, "bob")
        assert len([*account.rows()]) == 2
    await call(await scoped(account, READER), "acme")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "RowKey ge @p",
        "tenant eq @p and PartitionKey eq @p",
        "PartitionKey ge @p",
        "PartitionKey ge @p and PartitionKey lt @p",
        "PartitionKey eq 'acme'",
        "PartitionKey eq @p and PartitionKey ge @p",
        "PartitionKey eq @p or RowKey ge @p",
        "PartitionKey eq @p and RowKey ge @p or RowKey lt @p",
        "PartitionKey eq @p and not RowKey ge @p",
        "not PartitionKey eq @p",
        "(PartitionKey eq @p) or true",
        "PartitionKey eq @p\n or RowKey ge @p",
    ],
)
@pytest.mark.parametrize("caller", [ACME, READER])
async def test_a_query_names_one_partition(caller: Caller, query: str) -> None:
    """A range of partitions, or a filter that other partitions may fit, is refused for each caller."""
    table = await scoped(await filled("acme", "bob"), caller)
    with pytest.raises(PermissionError):
        await found(table, query, p="acme")


async def test_a_query_of_a_range_of_keys_stays_in_its_partition() -> None:
    table = await scoped(await filled("acme", "acme2", "bob"), ACME)
    assert await found(table, "PartitionKey eq @p and RowKey ge @first", p="acme", first="") == ["acme"]


async def test_what_is_no_tenants_is_refused_to_those_who_see_all() -> None:
    for call in (READS | WRITES).values():
        with pytest.raises(PermissionError, match="sweep"):
            await call(await scoped(MemoryAccount(), replace(READER, moves_all=True)), keys.GUARD_PARTITION)


async def test_a_tenant_without_a_name_has_nothing() -> None:
    """A caller that sees all may name a blank tenant, and gets an empty list; a caller without a tenant may not."""
    for call in READS.values():
        assert not await call(await scoped(MemoryAccount(), READER), "")
    for caller in (NOBODY, replace(NOBODY, tenant=None)):
        for call in (READS | WRITES).values():
            with pytest.raises(PermissionError):
                await call(await scoped(MemoryAccount(), caller, moving=True), "")


async def test_each_row_of_a_transaction_is_asked_for() -> None:
    """A row of another tenant in second place is refused before anything is sent."""
    account = await filled("bob")
    table = await scoped(account, ACME)
    for operations in ([("upsert", row("acme")), ("delete", row("bob"))], [("create", row("bob"), {})]):
        with pytest.raises(PermissionError):
            await transact(table, operations)
    assert [each for _, each, *_ in account.rows()] == ["bob"]
    with pytest.raises(LedgerRefused):
        await (await scoped(account, ANYONE)).submit_transaction([("upsert", row("acme")), ("upsert", row("bob"))])


@pytest.mark.parametrize("partition", [name for name, each in SHARED.items() if each is Sharing.BY_COLUMN])
async def test_rows_of_a_shared_partition_are_their_tenants(partition: str) -> None:
    """Each names its tenant; one that names none is for callers of all tenants."""
    account = MemoryAccount()
    for key, columns in {"1": {"tenant": "acme"}, "2": {"tenant": "acme2"}, "3": {}}.items():
        await account.of(GATES).write(upsert_row(row(partition, key, **columns)))

    async def seen(caller: Caller, *, moving: bool = False) -> list[str]:
        rows = (await scoped(account, caller, GATES, moving=moving)).query_entities(
            "PartitionKey eq @p", parameters={"p": partition}
        )
        return [each["RowKey"] async for each in rows]

    assert (await seen(ACME), await seen(NOBODY), await seen(READER)) == (["1"], [], ["1", "2", "3"])
    assert (await seen(MOVER), await seen(MOVER, moving=True)) == ([], ["1", "2", "3"])
    table = await scoped(account, ACME, GATES)
    assert (await table.get_entity(partition, "1"))["tenant"] == "acme"
    with pytest.raises(NotThere):
        await table.get_entity(partition, "2")
    await table.write(upsert_row(row(partition, "1", tenant="acme", more=1)))
    for refused in (
        table.write(upsert_row(row(partition, "2", tenant="acme2"))),
        table.write(upsert_row(row(partition, "9"))),
        table.write(delete_row(partition, "1")),
    ):
        with pytest.raises(PermissionError):
            await refused
    with pytest.raises(TenantForbidden):
        await (await scoped(account, READER, GATES)).write(upsert_row(row(partition, "2", tenant="acme2")))


async def test_a_table_without_tenants_has_the_listed_partitions_only() -> None:
    """Another one, as that of allocations, is refused even to a tenant that has its name."""
    names = {name for name in vars(keys) if name.endswith("_PARTITION")}
    partitions = {getattr(keys, name) for name in names}
    unlisted = partitions - SHARED.keys()
    assert unlisted == {
        *(keys.GUARD_PARTITION, keys.FEED_PARTITION, keys.MINUTES_PARTITION),
        *(keys.SERVICES_PARTITION, keys.BOOKS_PARTITION, keys.ASKS_PARTITION, keys.PROTOCOLS_PARTITION),
    }
    for partition in unlisted:
        for caller in (READER, replace(ACME, tenant=partition)):
            for call in (READS | WRITES).values():
                with pytest.raises(PermissionError):
                    await call(await scoped(MemoryAccount(), caller, GATES), partition)


async def test_the_feed_of_no_tenant_is_a_partition_as_any_other() -> None:
    account = await filled(encode_key(PLATFORM))
    assert await found(await scoped(account, READER), "PartitionKey eq @p", p=encode_key(PLATFORM)) != []
    with pytest.raises(PermissionError):
        await READS["get"](await scoped(account, ACME), encode_key(PLATFORM))


async def test_what_one_request_learned_opens_nothing_to_the_next() -> None:
    """The stores of two callers share the memory of the process, and no row; another tenant is not even woken."""
    account = FakeAccount()
    index = TablesIndex(account, "index", "tenants")
    own, other = (TenantIndex(index, replace(ACME, tenant=tenant), moving=True) for tenant in ("acme", "acme2"))
    job = planned("job_1", tenant_id="acme").job
    with pytest.raises(PermissionError):
        await other.reserve(job, replacing=None)
    assert [*account.rows()] == []
    await own.reserve(job, replacing=None)
    with pytest.raises(PermissionError):
        await other.reserve(replace(job, job_id="job_2", idempotency_hash="h"), replacing=None)
    with pytest.raises(PermissionError):
        await other.read_active("acme", "job_1")
    assert (await own.tenants(), await other.tenants()) == (["acme"], [])
    # the tenant is awake, so its next job does not wake it again, through any store of this process
    account.calls.clear()
    again = TenantIndex(index, ACME, moving=True)
    await again.reserve(replace(job, job_id="job_2", idempotency_hash="h"), replacing=None)
    assert account.calls == {"acme": 1}


async def test_a_foreign_change_of_a_webhook_enters_no_tenant() -> None:
    account = MemoryAccount()
    hook = Hook(
        id="hook_1",
        tenant="bob",
        url=None,
        created_at=START,
        created_by="system",
        updated_at=START,
        first=0,
        secret=SecretVersion(version=1, key_id="k", salt="s"),
    )
    with pytest.raises(PermissionError):
        await TenantHooks(TablesHooks(account, "feed"), ACME, moving=True).write(
            HookWrite(tenant="bob", head=Head(), hooks=1, after=hook)
        )
    assert [*account.rows()] == []


async def test_which_feed_it_is_is_read_once_a_process() -> None:
    account = FakeAccount()
    feed = TablesFeed(account, "feed", lambda: START)
    assert await TenantFeed(feed, ACME).identity() == await TenantFeed(feed, NOBODY).identity() == await feed.identity()
    assert account.calls[keys.FEED_PARTITION] == 3  # not there, created, read


def test_every_method_of_a_table_is_checked() -> None:
    """A method that is added to the protocol must check the partition, and be tested here."""
    names = {"get_entity", "query_entities", "submit_transaction", "write"}
    for kind in (Table, ScopedTable):
        assert {name for name in vars(kind) if not name.startswith("_")} == names


@pytest.mark.parametrize(
    ("store", "served"),
    [
        (TenantFeed, {"identity", "head", "read_seen", "events"}),
        (
            TenantHooks,
            {"read", "all_of", "write", "log", "delivery", "pending", "hooks_with_pending", "list_ended", "note"},
        ),
        (TenantUsage, {"hours", "sources", "add_refused", "see_source"}),
    ],
)
async def test_a_request_does_nothing_that_is_a_sweeps(store: Any, served: set[str]) -> None:
    """Each method that no request needs is refused, with any arguments."""
    methods = {name for name in dir(store) if not name.startswith("_")}
    for name in methods - served:
        with pytest.raises(PermissionError, match="sweep"):
            await getattr(store, name)()
    assert served < methods


async def test_a_store_that_is_over_no_tables_is_not_scoped() -> None:
    with pytest.raises(AssertionError):
        TenantIndex(object(), ACME)
