"""A row that the store refuses permanently is named by its key, and an end or a dependency continues without it."""

from __future__ import annotations

from typing import Any

import pytest

from shared.adapters.tables.active import settle
from shared.adapters.tables.table import naming
from shared.adapters.tables.table_rows import TableRows
from shared.errors import LedgerRefused
from tests.fake_tables import FakeAccount

ROWS: list[Any] = [("create", {"PartitionKey": "p", "RowKey": row}) for row in ("first", "second")]


@pytest.mark.parametrize(
    ("message", "key"),
    [("1:The entity is too large", "p second"), ("RequestBodyTooLarge", "p first"), ("77:What", "p first")],
)
def test_the_error_has_the_key(message: str, key: str) -> None:
    """The store gives the place of the row in a transaction, or none."""
    with pytest.raises(LedgerRefused, match=f"^{key}: {message}"), naming(ROWS):
        raise LedgerRefused(message)


async def test_a_dependency_ends_without_its_list(caplog: pytest.LogCaptureFixture) -> None:
    """DEPFAILED is refused: the waiting job is notified of the end nevertheless, once."""
    account = FakeAccount()
    table: Any = await account.table("index")
    await table.submit_transaction([("create", {"PartitionKey": "tenant_a", "RowKey": "DEP:job_1:job_2"})])

    async def refuse(_table: str, _partition: str, row: str, verb: str, _under_etag: bool) -> None:
        if row.startswith("DEPFAILED") and verb == "upsert":
            raise LedgerRefused("EntityTooLarge")

    account.watch = refuse
    await settle(TableRows(account, "index"), [], "tenant_a", "job_1", "job_2", succeeded=False)
    assert [key for _, _, key, _ in account.rows()] == []
    assert "DEPFAILED:job_1:job_2" in caplog.text
