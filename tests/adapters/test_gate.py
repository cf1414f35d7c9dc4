"""The GATE row of release 0.2.0."""

from dataclasses import replace
from datetime import timedelta

import pytest

from shared.adapters.tables.account import read_row
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.keys import GATE_ROW
from shared.core.states import JobStatus
from tests.adapters.conftest import Storage
from tests.jobs import START, planned


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
@pytest.mark.parametrize("active", [2, None])
async def test_a_job_of_release_0_2_0_gives_its_place_back(storage: Storage, active: int | None) -> None:
    """Its GATE row counts down once, however often the end is written: a rolled back release goes on counting there."""
    assert isinstance(storage.index, TablesIndex)
    table = await storage.index._account.table(storage.index._table)
    job = replace(planned("job_1").job, gated=True)
    await storage.index.reserve(job, replacing=None)
    if active is not None:
        await table.upsert_entity({"PartitionKey": "tenant_a", "RowKey": GATE_ROW, "active": active})
    ended = replace(job, status=JobStatus.SUCCEEDED, event_seq=9, completed_at=START)
    for _ in range(2):
        await storage.index.close(ended, claim_expires_at=START + timedelta(days=30))
    row = await read_row(table, "tenant_a", GATE_ROW)
    assert (row["active"] if row is not None else None) == (1 if active is not None else None)
    assert await storage.index.read_active("tenant_a", "job_1") is None
