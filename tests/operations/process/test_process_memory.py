"""A process's memory of its tenants is bounded, and forgotten values cost one more read or write."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.tables import tenants
from shared.adapters.tables.table import RowOperation
from shared.adapters.tables.tenants import TenantRows
from shared.operations.process import recent_ends, usage_buffer
from shared.operations.process.recent_ends import RecentEnds
from shared.operations.process.usage_buffer import UsageBuffer
from tests.jobs import START, Story
from tests.memory_stores import MemoryUsage
from tests.operations.conftest import World


class Upserts:
    """A table that counts writes by row."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()

    async def table(self, _name: str) -> Upserts:
        return self

    async def write(self, operation: RowOperation) -> None:
        self.rows[operation[1]["RowKey"]] += 1


async def test_a_tenant_that_was_woken_long_ago_is_woken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was woken first is forgotten first."""
    monkeypatch.setattr(tenants, "MAX_REMEMBERED", 3)
    table: Any = Upserts()
    rows = TenantRows(table, "tenants")
    for tenant in "abcdd":
        await rows.wake(tenant, START)
    assert table.rows == Counter("abcd")
    await rows.wake("b", START)
    await rows.wake("a", START)
    assert table.rows == Counter("aabcd")


async def test_ends_of_tenants_beyond_the_bound_are_left_to_the_sweeper(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_ends, "MAX_TENANTS", 2)
    recent, record = RecentEnds(), Story().record

    async def ends(tenant: str, number: int) -> None:
        now = START + timedelta(minutes=number)
        job = replace(record.job, tenant=tenant, job_id=f"{tenant}_{number}", completed_at=now)
        ended = replace(record, job=job)
        await recent.clear_and_note(world.orchestrations, ended, claim_ends=now + timedelta(days=30), now=now)

    for number, tenant in enumerate("abac"):
        await ends(tenant, number)
    world.orchestrations.purged.clear()
    await ends("b", 9)
    # that of `b` is forgotten, that of `a` was made after it
    assert world.orchestrations.purged == []
    await ends("c", 10)
    assert "c_3" in world.orchestrations.purged


async def test_peaks_beyond_the_bound_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_buffer, "_MAX_KEPT", 2)
    usage, counts, key = MemoryUsage(), UsageBuffer(), ("OCR", "")
    for tenant in ("a", "b", "c"):
        await counts.raise_peaks(usage, tenant, {key: 5}, START)
    await counts.raise_peaks(usage, "a", {key: 3}, START)
    [hour] = await usage.hours("a", START.replace(minute=0), START + timedelta(hours=1))
    assert hour.peaks == {key: 5}
