"""The cost of a page of a list, counted at the SDK (its duration depends on the machine)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from azure.core.pipeline.transport import AioHttpTransport
from azure.data.tables import TableServiceClient
from azure.data.tables.aio import TableServiceClient as AsyncTableServiceClient

from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.keys import list_row
from shared.adapters.tables.listing import list_columns
from shared.core.filters import JobFilter
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import encode_key
from shared.operations.jobs.list_jobs import MAX_READ_MORE, list_jobs
from shared.operations.process.context import Context
from tests.azurite import running_azurite
from tests.jobs import START, planned
from tests.operations.conftest import World, world

__all__ = ["world"]  # a fixture of the operations' tests

TENANT = "tenant_a"
TABLE = "listed"
_BATCH = 100
_INSERTED = 3_000
_JOB = planned("job").job


class Counted(AioHttpTransport):
    """Sends requests unchanged; records the number of entities in each response."""

    def __init__(self) -> None:
        super().__init__()
        self.entities: list[int] = []

    async def send(self, request: Any, **options: Any) -> Any:
        response = await super().send(request, **options)
        if request.method == "GET":
            self.entities.append(len(json.loads(response.body()).get("value", ())))
        return response


@dataclass
class Listing:
    context: Context
    counted: Counted

    async def page(self, after: str | None = None, limit: int = 50, **job_filter: Any) -> tuple[list[str], str | None]:
        """The ids of a page and the position after it; `counted` has the page's requests alone."""
        self.counted.entities.clear()
        whose = JobFilter(tenant_id=TENANT, **job_filter)
        page = await list_jobs(self.context, whose, after=after, limit=limit)
        return [line.jobId for line in page.lines], page.after


def job_row(number: int) -> dict[str, Any]:
    """The LIST row of an ended job, a second younger than the one before; every 1,500th failed."""
    status = JobStatus.FAILED_FINAL if number % 1_500 == 0 else JobStatus.SUCCEEDED
    created_at = START + timedelta(seconds=number)
    job = replace(_JOB, job_id=f"job_{number}", status=status, created_at=created_at)
    key = list_row(created_at, job.job_id)
    return {"PartitionKey": encode_key(TENANT), "RowKey": key, **list_columns(job)}


def insert(connection: str, count: int) -> None:
    with TableServiceClient.from_connection_string(connection) as service:
        table = service.create_table(TABLE)
        for first in range(0, count, _BATCH):
            table.submit_transaction([("create", job_row(number)) for number in range(first, first + _BATCH)])


def stretch(file: Path, count: int) -> None:
    """Multiplies the rows that Azurite saved: an insert of 100,000 takes it more than an hour."""
    database = json.loads(file.read_text())
    [rows] = [each for each in database["collections"] if each["name"].endswith(f"${TABLE}")]
    template = json.dumps(rows["data"][0])
    rows["data"] = []
    for number in range(count):
        row, entity = job_row(number), json.loads(template)
        entity |= {"RowKey": row["RowKey"], "$loki": number + 1}
        created_at = row["created_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        changed = {name: row[name] for name in ("RowKey", "job_id", "status")}
        entity["properties"] |= {**changed, "created_at": created_at}
        rows["data"].append(entity)
    rows["maxId"] = count
    for index in rows["binaryIndices"].values():
        # the younger a row, the smaller its key
        index["values"] = list(range(count - 1, -1, -1))
    file.write_text(json.dumps(database))


@pytest.fixture(
    scope="module",
    params=[pytest.param(_INSERTED, id="3000"), pytest.param(100_000, id="100000", marks=pytest.mark.long)],
)
def storage_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yields an Azurite with a tenant that has this number of jobs."""
    if request.param <= _INSERTED:
        connection = request.getfixturevalue("azurite")
        insert(connection, request.param)
        yield connection
        return
    data = tmp_path_factory.mktemp("listing")
    with running_azurite(data, is_kept=True) as connection:
        insert(connection, _INSERTED)
    [file] = data.rglob("__azurite_db_table__.json")
    stretch(file, request.param)
    with running_azurite(data, is_kept=True) as connection:
        yield connection


@pytest.fixture
async def listing(storage_of: str, world: World) -> AsyncIterator[Listing]:
    counted = Counted()
    account = TablesAccount(
        AsyncTableServiceClient.from_connection_string(storage_of, transport=counted), "luciustenants"
    )
    index = TablesIndex(account, TABLE, "tenants")
    await index.list_jobs(TENANT, after=None, limit=1)  # the table is made sure of once a process
    yield Listing(replace(world.context, index=index), counted)
    await account.close()


async def test_an_unfiltered_page_is_one_query(listing: Listing) -> None:
    """The first page of 50, one in the middle and the last: each a query, of the page's rows and one more."""
    first, after = await listing.page()
    assert (len(first), listing.counted.entities) == (50, [51])
    second, _ = await listing.page(after=after)
    assert (len(second), listing.counted.entities) == (50, [51])
    assert not set(first) & set(second)
    _, after = await listing.page(until=START + timedelta(seconds=100))
    assert listing.counted.entities == [51]
    last, after = await listing.page(after=after, until=START + timedelta(seconds=100))
    assert (last[-1], after, listing.counted.entities) == ("job_0", None, [50])


async def test_a_filtered_page_reads_few_rows_more_than_it_shows(listing: Listing) -> None:
    """For any rare match; the pages continue each other, and none is lost."""
    after: str | None = None
    found: list[list[str]] = []
    for _ in range(16):
        page, after = await listing.page(after=after, statuses=frozenset({JobStatus.FAILED_FINAL}))
        assert sum(listing.counted.entities) <= len(page) + MAX_READ_MORE
        assert 1 <= len(listing.counted.entities) <= 3
        found.append(page)
    assert sum(map(len, found)) == 2  # of any 3,000 rows in a row, two failed
    assert max(map(len, found)) == 1


async def test_a_filtered_page_of_what_all_are_is_full(listing: Listing) -> None:
    """If nearly every row matches, a page costs the same as without a filter."""
    page, after = await listing.page(statuses=frozenset({JobStatus.SUCCEEDED}), limit=200)
    assert len(page) == 200
    assert after is not None
    assert sum(listing.counted.entities) <= 200 + MAX_READ_MORE
    assert len(listing.counted.entities) <= 3


async def test_a_window_of_time_is_found_at_once(listing: Listing) -> None:
    """`since` and `until` are a range of keys: no row outside it is read."""
    window = {"since": START + timedelta(seconds=10), "until": START + timedelta(seconds=20)}
    found, after = await listing.page(request_type="OCR_EMBEDDING_SIS", **window)
    assert (found, after) == ([f"job_{number}" for number in range(19, 9, -1)], None)
    assert listing.counted.entities == [10]
