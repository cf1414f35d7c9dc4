"""The allocation record of a quota over all tenants, and its requests (R54)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.core.gates.allocation import Account, AllocationRecord
from shared.core.gates.breaker import Breaker, BreakerState, JobEnd
from shared.errors import AlreadyExists, Conflict
from tests.adapters.conftest import Storage
from tests.jobs import START

GATE = "0f3a5b7c9d1e2f40"


def allocation_record(tenants: int = 1) -> AllocationRecord:
    """Numbers that 32 bits do not hold."""
    end = JobEnd(START + timedelta(microseconds=7), 3, False, "tenant/ü")
    breaker = Breaker(
        state=BreakerState.HALF_OPEN, epoch=3, ring=(end, replace(end, good=True)), cooldown_s=60, allow=2
    )
    account = Account(granted=3, slot_time=10**13, counted_ms=10**12, is_waiting=True, tokens_granted=7)
    return AllocationRecord(
        gate_id=GATE,
        epoch=4,
        accounts={f"tenant/{number:04d}": account for number in range(tenants)},
        allocated_at=START,
        unmet=True,
        opened_at=START + timedelta(microseconds=1),
        opening="tenant_b",
        uncounted=frozenset({"tenant/0000", "tenant_ö"}),
        breaker=replace(breaker, opened_at=START, opened_by=(2, 3), waits_since=START),
        credit=36_000_000_000_000,
        credit_at=START,
    )


@pytest.mark.parametrize("tenants", [0, 1, 1000])
async def test_a_book_is_read_as_it_was_written(storage: Storage, tenants: int) -> None:
    """One of a thousand tenants too."""
    assert await storage.allocations.read(GATE) is None
    await storage.allocations.write(allocation_record(tenants), before=None)
    stored = await storage.allocations.read(GATE)
    assert stored is not None
    assert stored.record == allocation_record(tenants)
    empty = AllocationRecord(gate_id=GATE)
    await storage.allocations.write(empty, before=stored)
    stored = await storage.allocations.read(GATE)
    assert stored is not None
    assert stored.record == empty


async def test_of_two_writes_one_is_refused(storage: Storage) -> None:
    """An allocation is written for the record that it read, or not at all."""
    await storage.allocations.write(allocation_record(), before=None)
    with pytest.raises(AlreadyExists):
        await storage.allocations.write(allocation_record(), before=None)
    stored = await storage.allocations.read(GATE)
    await storage.allocations.write(replace(allocation_record(), epoch=5), before=stored)
    with pytest.raises(Conflict):
        await storage.allocations.write(replace(allocation_record(), epoch=6), before=stored)
    found = await storage.allocations.read(GATE)
    assert found is not None
    assert found.record.epoch == 5


async def test_asks_stay_until_they_are_answered(storage: Storage) -> None:
    """A tenant that requests again after the read stays; a repeated answer is harmless."""
    assert await storage.allocations.asks(GATE) == []
    for number in range(150):
        await storage.allocations.ask(GATE, f"tenant/{number}")
    await storage.allocations.ask("1" * 16, "other")
    asks = await storage.allocations.asks(GATE)
    assert {ask.tenant for ask in asks} == {f"tenant/{number}" for number in range(150)}
    await storage.allocations.ask(GATE, "tenant/7")
    await storage.allocations.answer(GATE, asks)
    await storage.allocations.answer(GATE, asks)
    assert [ask.tenant for ask in await storage.allocations.asks(GATE)] == ["tenant/7"]
    assert [ask.tenant for ask in await storage.allocations.asks("1" * 16)] == ["other"]
