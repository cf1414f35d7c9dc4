"""Ten cells of the matrix on a running stack: a row in Azurite is deleted, or damaged, while jobs run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.data.tables import TableServiceClient, UpdateMode

from shared.core.gates.rules import Gate, GateKind
from tests.isolation.faults import Kind, scrambled
from tests.isolation.row_types import type_of
from tests.running_stack import SMALL_INVOICE, RunningStack
from tests.stack.test_jobs import documents, until_ended
from tests.waiting import wait_until

pytestmark = pytest.mark.long

_INDEX, _FEED, _GATES = "luciusindex", "luciusfeed", "luciusgates"
#: rows of the victim, or in a shared partition those without a tenant
CELLS = [
    ("LIST", _INDEX, Kind.MISSING),
    ("LIST", _INDEX, Kind.UNDECODABLE),
    ("GATES", _INDEX, Kind.MISSING),
    ("GATELOG", _INDEX, Kind.MISSING),
    ("GATELOG", _INDEX, Kind.UNDECODABLE),
    ("=guard SWEEP", _INDEX, Kind.UNDECODABLE),
    ("=guard FOLD", _INDEX, Kind.UNDECODABLE),
    ("HEAD", _FEED, Kind.MISSING),
    ("SEEN", _FEED, Kind.UNDECODABLE),
    ("services", _GATES, Kind.UNDECODABLE),
]


@pytest.fixture(scope="module")
def uri(stack: RunningStack) -> str:
    return documents(stack).upload(SMALL_INVOICE)


@pytest.fixture
def tables(stack: RunningStack) -> Iterator[TableServiceClient]:
    with TableServiceClient.from_connection_string(stack.storage_connection) as client:
        yield client


def _posted(stack: RunningStack, uri: str, tenant: str, count: int = 1) -> list[str]:
    body = {
        "schema_version": "1.0",
        "tenant_id": tenant,
        "request_type": "OCR",
        "input_ref": {"uri": uri},
        "output_ref": {"uri": f"{stack.blob}/results"},
        "payload": {},
    }
    answers = [
        stack.http.post("/v1/orchestrate", json={**body, "idempotency_key": str(uuid.uuid4())}) for _ in range(count)
    ]
    return [str(answer.raise_for_status().json()["jobId"]) for answer in answers]


def _spoil(tables: TableServiceClient, table: str, row_type: str, tenant: str, kind: Kind) -> int:
    """Damages the rows. Returns the number of rows at fault now."""
    client = tables.get_table_client(table)
    spoilt = 0
    for row in list(client.list_entities()):
        partition, key = row["PartitionKey"], row["RowKey"]
        if type_of(partition, key) != row_type or (partition.startswith("live-") and partition != tenant):
            continue
        try:
            if kind is Kind.MISSING:
                client.delete_entity(partition, key)
            else:
                client.update_entity(scrambled(dict(row)), mode=UpdateMode.REPLACE)
        except ResourceNotFoundError:
            # the app removed it meanwhile
            continue
        spoilt += 1
    return spoilt


@pytest.mark.parametrize(("row_type", "table", "kind"), CELLS, ids=[f"{row}-{kind}" for row, _, kind in CELLS])
def test_a_cell_on_the_stack(
    stack: RunningStack, tables: TableServiceClient, uri: str, row_type: str, table: str, kind: Kind
) -> None:
    """One job runs and two wait for the quota; then a row is at fault, and jobs of three tenants come. All succeed."""
    victim = f"live-{uuid.uuid4().hex[:8]}"
    path, rule = f"/v1/quotas/{Gate(GateKind.TENANT, victim).id}", {"max_active": 1, "reason": "test"}
    set_ = stack.http.patch(path, params={"tenant": victim}, json=rule, headers={"If-Match": "*"})
    assert set_.status_code == 200, set_.text
    jobs = _posted(stack, uri, victim, 3)
    wait_until(lambda: _spoil(tables, table, row_type, victim, kind), f"there is no row {row_type}")
    for tenant in (victim, f"{victim}-b", f"{victim}-c"):
        jobs += _posted(stack, uri, tenant)
    assert {until_ended(stack, job_id)["status"] for job_id in jobs} == {"SUCCEEDED"}
