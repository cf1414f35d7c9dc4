"""Many due jobs of one tenant on the real tables: each is checked once, the longest due first."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.adapters.tables.account import transact
from shared.adapters.tables.active import inserts
from shared.adapters.tables.index import TablesIndex
from shared.core.records.canonical import encode_key
from shared.operations.sweeper.report import SweepReport
from shared.operations.sweeper.sweep import sweep
from shared.ports.index import FIRST_CHECK, ActiveRow
from tests.adapters.conftest import Storage
from tests.jobs import START, planned
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import built

_JOB = planned("job").job
_LONG = [pytest.mark.long, pytest.mark.timeout(1800)]
#: jobs of a transaction, with two rows each
_BATCH = 50


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
@pytest.mark.parametrize(
    ("count", "in_a_round"),
    [(300, 64), pytest.param(20_000, 256, marks=_LONG)],
)
async def test_every_due_job_of_a_large_tenant_is_looked_at(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, count: int, in_a_round: int
) -> None:
    """Their ids are in another order than their times; a sweep whose time ends halfway leaves the rest to the next."""
    assert isinstance(storage.index, TablesIndex)
    await insert(storage.index, count)
    # the jobs have no rows of their own: this test is not about the content of the checks
    world = built(MemoryLedger())
    context = replace(world.context, index=storage.index)
    world.clock.time = START + FIRST_CHECK + timedelta(seconds=count)
    looked_at: list[ActiveRow] = []

    async def repair(context: Any, orchestrations: Any, active: ActiveRow, report: SweepReport) -> None:
        looked_at.append(active)
        if len(looked_at) == count // 2:
            world.clock.advance(60)
        # it is found waiting, and due again after its lease
        await storage.index.reschedule_check(active, context.clock.now() + timedelta(minutes=16))

    monkeypatch.setattr("shared.operations.sweeper.looks.repair", repair)
    monkeypatch.setattr("shared.operations.sweeper.turns._ROUND", in_a_round)
    first = await sweep(context, world.orchestrations)
    assert first.more
    assert count // 2 <= first.looked_at < count // 2 + in_a_round
    assert not (await sweep(context, world.orchestrations)).more
    first_looks: dict[str, datetime] = {}
    for row in looked_at:
        first_looks.setdefault(row.job_id, row.check_at)
    assert len(first_looks) == count
    assert list(first_looks.values()) == sorted(first_looks.values())
    # a busy Azurite exceeds the time limit of a call: such a check is repeated after all others
    for _ in range(3):
        again = await sweep(context, world.orchestrations)
        if not again.looked_at:
            return
    raise AssertionError(f"{again.looked_at} are due again and again")


async def insert(index: TablesIndex, count: int) -> None:
    """Rows of active jobs, due a second apart; the first id is the last due."""
    jobs = [
        replace(_JOB, job_id=f"job_{number:06}", created_at=START + timedelta(seconds=count - number))
        for number in range(count)
    ]
    await index._tenants.wake(_JOB.tenant, START)
    table = await index._rows.account.table(index._rows.name)
    for first in range(0, count, _BATCH):
        operations = [inserts(encode_key(job.tenant), job, None) for job in jobs[first : first + _BATCH]]
        await transact(table, [each for both in operations for each in both])
