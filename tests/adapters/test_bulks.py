"""Bulk operations, items and work, in memory and on the real tables (R65); and as one caller sees them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.access.caller import ANYONE, Caller
from shared.adapters.scoped.stores import TenantBulks
from shared.core.bulks import Bulk, BulkAction, BulkItem, BulkState, ItemState, Work
from shared.errors import AlreadyExists, Conflict
from shared.ports.bulks import BulkKey, Bulks, BulkSlot, BulkWrite, DueBulk, StoredBulk
from shared.refusals import TenantForbidden
from tests.adapters.conftest import Storage
from tests.jobs import START
from tests.memory_stores import MemoryBulks

KEY = BulkKey(key="k" * 64, bulk_id="bulk_1", body_hash="b")
#: a slot that no bulk operation has used
NEW = BulkSlot(number=0, bulk_id="")


def bulk(bulk_id: str = "bulk_1", tenant: str = "tenant_a", at: datetime = START, **members: Any) -> Bulk:
    words = {"label": "team:Ärzte", "status": ["QUEUED"]}
    return Bulk(
        bulk_id=bulk_id,
        tenant=tenant,
        action=BulkAction.REDRIVE,
        filter=words,
        reason="why",
        actor="app:1",
        created_at=at,
        look_at=at,
        **members,
    )


async def created(bulks: Bulks, made: Bulk | None = None, **parts: Any) -> StoredBulk:
    one = made or bulk()
    slot = BulkSlot(number=len(await bulks.slots(one.tenant)), bulk_id="")
    await bulks.create(one, **{"slot": slot, "key": None, "work": [], "items": [], **parts})
    stored = await bulks.read(one.tenant, one.bulk_id)
    assert stored is not None
    assert stored.bulk == one
    return stored


async def test_a_bulk_is_what_was_written(storage: Storage) -> None:
    """Every column, set or not; its items and its work in order; and of no other one."""
    bulks = storage.bulks
    items = [BulkItem(job_id="job_2"), BulkItem(job_id="job_1")]
    work = [Work(no=2, job_id="job_1", dependants_after=""), Work(no=1, job_id="job_2")]
    stored = await created(bulks, bulk(root="job_1", matched=2, last_no=2), work=work, items=items)
    done = BulkItem(job_id="job_2", state=ItemState.DONE, new_job_id="job_9", tried_at=START)
    changed = replace(stored.bulk, state=BulkState.CANCELLED, done=1, cursor="LIST:1", listed=True, wait_s=15)
    changed = replace(changed, fruitless=3, look_at=START + timedelta(minutes=1), ended_at=START + timedelta(hours=1))
    change = BulkWrite(before=stored, after=changed, items=[done], finished=[work[1]], added=[Work(no=3, job_id="j")])
    again = await bulks.write(change)
    assert await bulks.read("tenant_a", "bulk_1") == again
    assert again.bulk == changed
    assert await bulks.items("tenant_a", "bulk_1", after=None, limit=9) == [items[1], done]
    assert await bulks.items("tenant_a", "bulk_1", after="job_1", limit=9) == [done]
    assert await bulks.work("tenant_a", "bulk_1", limit=9) == [work[0], Work(no=3, job_id="j")]
    assert await bulks.read_item("tenant_a", "bulk_1", "job_2") == done
    assert await bulks.read_item("tenant_a", "bulk_1", "job_3") is None
    assert await bulks.read("tenant_b", "bulk_1") is None
    assert await bulks.items("tenant_a", "bulk_", after=None, limit=9) == []


async def test_a_change_is_whole_or_not_at_all(storage: Storage) -> None:
    """Under the ETag of the bulk operation; not if an item exists already, or a unit of work is missing."""
    bulks, work = storage.bulks, Work(no=1, job_id="job_1")
    stored = await created(bulks, work=[work], items=[BulkItem(job_id="job_1")])
    wrong = [
        BulkWrite(before=stored, after=stored.bulk, new_items=[BulkItem(job_id="job_1")], finished=[work]),
        BulkWrite(before=stored, after=stored.bulk, new_items=[BulkItem(job_id="j")], finished=[replace(work, no=2)]),
        BulkWrite(before=stored, after=stored.bulk, new_items=[BulkItem(job_id="j")], added=[work]),
        BulkWrite(before=replace(stored, etag='W/"old"'), after=stored.bulk, finished=[work]),
    ]
    for change in wrong:
        with pytest.raises((Conflict, AlreadyExists)):
            await bulks.write(replace(change, after=replace(stored.bulk, matched=7)))
        assert await bulks.read("tenant_a", "bulk_1") == stored
        assert await bulks.work("tenant_a", "bulk_1", limit=9) == [work]
        assert len(await bulks.items("tenant_a", "bulk_1", after=None, limit=9)) == 1


async def test_a_step_of_the_largest_size_is_one_transaction(storage: Storage) -> None:
    """Forty jobs are added, and twenty are held."""
    bulks = storage.bulks
    stored = await created(bulks)
    new = [BulkItem(job_id=f"job_{number:03d}") for number in range(40)]
    work = [Work(no=number, job_id=each.job_id) for number, each in enumerate(new)]
    stored = await bulks.write(BulkWrite(before=stored, after=stored.bulk, new_items=new, added=work))
    held = [Work(no=100 + each.no, job_id=each.job_id) for each in work[:20]]
    await bulks.write(BulkWrite(before=stored, after=stored.bulk, items=new[:20], finished=work[:20], added=held))
    assert [each.no for each in await bulks.work("tenant_a", "bulk_1", limit=99)][19:21] == [39, 100]


async def test_a_key_is_taken_once(storage: Storage) -> None:
    """The first bulk operation of its tenant gets it."""
    bulks = storage.bulks
    await created(bulks, bulk(key=KEY.key), key=KEY)
    with pytest.raises(AlreadyExists):
        await bulks.create(bulk("bulk_2"), slot=NEW, key=replace(KEY, bulk_id="bulk_2"), work=[], items=[])
    assert await bulks.read("tenant_a", "bulk_2") is None
    assert await bulks.find_key("tenant_a", KEY.key) == KEY
    assert await bulks.find_key("tenant_b", KEY.key) is None


async def test_a_slot_is_taken_once(storage: Storage) -> None:
    """With the bulk operation or not at all: neither twice as a new one, nor twice from its previous owner."""
    bulks = storage.bulks
    await created(bulks)
    [taken] = await bulks.slots("tenant_a")
    assert (taken.number, taken.bulk_id) == (0, "bulk_1")
    assert await bulks.slots("tenant_b") == []
    await created(bulks, bulk("bulk_2"), slot=taken)
    for stale in (replace(taken, etag=""), taken):
        with pytest.raises((AlreadyExists, Conflict)):
            await bulks.create(bulk("bulk_3"), slot=stale, key=None, work=[], items=[])
    assert await bulks.read("tenant_a", "bulk_3") is None
    await created(bulks, bulk("bulk_4"), slot=replace(NEW, number=19))
    assert [(each.number, each.bulk_id) for each in await bulks.slots("tenant_a")] == [(0, "bulk_2"), (19, "bulk_4")]


async def test_bulks_are_listed_by_id_and_removed_piece_by_piece(storage: Storage) -> None:
    """With all that is theirs, and nothing of another one."""
    bulks = storage.bulks
    items = [BulkItem(job_id=f"job_{number}") for number in range(5)]
    first = await created(bulks, bulk(key=KEY.key), key=KEY, items=items, work=[Work(no=1, job_id="job_1")])
    second = await created(bulks, bulk("bulk_10"), items=items[:1])
    assert await bulks.list_bulks("tenant_a", after=None, limit=9) == [first.bulk, second.bulk]
    assert await bulks.list_bulks("tenant_a", after="bulk_1", limit=9) == [second.bulk]
    assert not await bulks.remove(first.bulk, limit=4)
    assert await bulks.remove(first.bulk, limit=4)
    assert await bulks.remove(first.bulk, limit=4)
    assert await bulks.list_bulks("tenant_a", after=None, limit=9) == [second.bulk]
    assert await bulks.items("tenant_a", "bulk_1", after=None, limit=9) == []
    assert await bulks.find_key("tenant_a", KEY.key) is None
    assert len(await bulks.items("tenant_a", "bulk_10", after=None, limit=9)) == 1


async def test_the_directory_gives_what_is_due(storage: Storage) -> None:
    """Of all tenants, the earliest due first; rows can be put and dropped repeatedly."""
    bulks, later = storage.bulks, START + timedelta(days=1)
    rows = [
        DueBulk(tenant="tenant_b", bulk_id="bulk_2", due_at=START),
        DueBulk(tenant="Ärzte & Co", bulk_id="bulk_1", due_at=START + timedelta(seconds=1)),
        DueBulk(tenant="tenant_a", bulk_id="bulk_3", due_at=later),
    ]
    for row in [*rows, rows[0]]:
        await bulks.put_due(row)
    assert await bulks.due(now=later - timedelta(seconds=1), limit=9) == rows[:2]
    assert await bulks.due(now=later, limit=1) == rows[:1]
    assert await bulks.due(now=later, limit=9, after=rows[0]) == rows[1:]
    for _ in range(2):
        await bulks.drop_due(rows[0])
    assert await bulks.due(now=later, limit=9) == rows[1:]


async def test_a_purge_drops_entries_of_earlier_bulks(storage: Storage) -> None:
    """Running or ended, of its tenant. A younger one may be about to be created: its entry is written first."""
    bulks, ended = storage.bulks, START + timedelta(days=400)
    rows = [
        DueBulk(tenant="tenant_a", bulk_id="bulk_1", due_at=START),
        DueBulk(tenant="tenant_a", bulk_id="bulk_2", due_at=START),
        DueBulk(tenant="tenant_a", bulk_id="bulk_3", due_at=START),
        DueBulk(tenant="tenant_b", bulk_id="bulk_4", due_at=START),
        DueBulk(tenant="tenant_a", bulk_id="bulk_5", due_at=ended),
    ]
    for row in rows:
        await bulks.put_due(row)
    for _ in range(2):
        await bulks.drop_due_before(bulk("bulk_2"))
    assert await bulks.due(now=ended, limit=9) == [rows[0], rows[1], rows[3]]


CALLER = Caller(actor="a", scopes=frozenset(), tenant="tenant_a")
READER = Caller(actor="r", scopes=frozenset(), tenant="tenant_a", sees_all=True)
OTHER = bulk(tenant="tenant_b")
DUE = DueBulk(tenant="tenant_b", bulk_id="bulk_1", due_at=START)

READS: dict[str, Callable[[Bulks], Awaitable[object]]] = {
    "slots": lambda bulks: bulks.slots("tenant_b"),
    "read": lambda bulks: bulks.read("tenant_b", "bulk_1"),
    "find_key": lambda bulks: bulks.find_key("tenant_b", "k"),
    "read_item": lambda bulks: bulks.read_item("tenant_b", "bulk_1", "job_1"),
    "items": lambda bulks: bulks.items("tenant_b", "bulk_1", after=None, limit=1),
    "list_bulks": lambda bulks: bulks.list_bulks("tenant_b", after=None, limit=1),
}
WRITES: dict[str, Callable[[Bulks], Awaitable[object]]] = {
    "create": lambda bulks: bulks.create(OTHER, slot=NEW, key=None, work=[], items=[]),
    "write": lambda bulks: bulks.write(BulkWrite(before=StoredBulk(OTHER, "1"), after=OTHER)),
    "put_due": lambda bulks: bulks.put_due(DUE),
}
#: on the caller's own too
SWEEPS: dict[str, Callable[[Bulks], Awaitable[object]]] = {
    "work": lambda bulks: bulks.work("tenant_a", "bulk_1", limit=1),
    "remove": lambda bulks: bulks.remove(bulk(), limit=1),
    "due": lambda bulks: bulks.due(now=START, limit=1),
    "drop_due": lambda bulks: bulks.drop_due(replace(DUE, tenant="tenant_a")),
    "drop_due_before": lambda bulks: bulks.drop_due_before(bulk()),
}


@pytest.mark.parametrize("name", READS | WRITES | SWEEPS)
async def test_another_tenants_bulks_are_out_of_reach(name: str) -> None:
    """A caller that sees every tenant reads them, and changes nothing; no request does the work of workers."""
    bulks = MemoryBulks()
    with pytest.raises(PermissionError):
        await (READS | WRITES | SWEEPS)[name](TenantBulks(bulks, CALLER))
    if name in READS:
        await READS[name](TenantBulks(bulks, READER))
    if name in WRITES:
        with pytest.raises(TenantForbidden):
            await WRITES[name](TenantBulks(bulks, READER))
    assert await bulks.read("tenant_b", "bulk_1") is None


async def test_bulks_of_the_own_tenant_are_served() -> None:
    """As the store behind serves them."""
    for caller in (CALLER, ANYONE):
        own = TenantBulks(MemoryBulks(), caller, moving=True)
        stored = await created(own)
        await own.write(BulkWrite(before=stored, after=stored.bulk, new_items=[BulkItem(job_id="job_1")]))
        assert await own.read_item("tenant_a", "bulk_1", "job_1") == BulkItem(job_id="job_1")
        assert len(await own.items("tenant_a", "bulk_1", after=None, limit=9)) == 1
        assert await own.list_bulks("tenant_a", after=None, limit=9) == [stored.bulk]
        assert await own.find_key("tenant_a", "k") is None
        await own.put_due(replace(DUE, tenant="tenant_a"))


def test_every_method_of_the_bulks_is_decided_here() -> None:
    """A method that is added to the port must be scoped to a tenant or refused, and tested."""
    methods = {name for name, _ in inspect.getmembers(Bulks, inspect.isfunction) if not name.startswith("_")}
    assert methods == {*READS, *WRITES, *SWEEPS}
