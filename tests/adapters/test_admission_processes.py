"""Four processes at one admission state, and at a limit over several, on real tables, with an auditor that shares no
code with the app.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from contextlib import ExitStack

import pytest
from azure.data.tables import TableClient, TableServiceClient

from tests.jobs import ROOT

PROCESSES, LIMIT = 4, 7
#: for all of them to end, on a busy machine
PATIENCE_S = 240.0


ONE = ("tenant_a",)
MANY = ("tenant_a", "tenant_b", "tenant_c")


class Auditor:
    """Reads the tenants' rows over and over with Microsoft's own client, one query at a time."""

    def __init__(self, connection: str, own: str, tenants: tuple[str, ...]) -> None:
        self._connection, self._table, self._tenants = connection, f"index{own}", tenants
        self.violations: list[str] = []
        self.looks = self.most = self.waited = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Auditor:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with TableClient.from_connection_string(self._connection, self._table) as table:
            while not self._stop.is_set():
                self._look(table)

    def _look(self, table: TableClient) -> None:
        states = [row.get("state", "ADMITTED") for row in active_rows(table, self._tenants)]
        inside, waiting = states.count("ADMITTED"), states.count("WAITING")
        self.looks, self.most = self.looks + 1, max(self.most, inside)
        self.waited = max(self.waited, waiting)
        if inside > LIMIT:
            self.violations.append(f"{inside} are inside")


def active_rows(table: TableClient, tenants: tuple[str, ...]) -> list[dict[str, object]]:
    """Returns all rows of one time in one page, since Azurite responds to a query in one turn."""
    partitions = " or ".join(f"PartitionKey eq '{tenant}'" for tenant in tenants)
    pages = table.query_entities(
        f"({partitions}) and RowKey ge 'ACTIVE:' and RowKey lt 'ACTIVE;'", results_per_page=1000
    ).by_page()
    return [dict(row) for row in next(pages, iter(()))]


@pytest.fixture
def own() -> str:
    return uuid.uuid4().hex[:12]


def at_once(azurite: str, own: str, jobs: int, tenants: tuple[str, ...] = ONE) -> Auditor:
    asked = {"connection": azurite, "own": own, "tenants": tenants, "limit": LIMIT}
    asked |= {"processes": PROCESSES, "count": jobs // PROCESSES}
    command = [sys.executable, "-m", "tests.adapters.posting_process", json.dumps(asked)]
    with (
        TableServiceClient.from_connection_string(azurite) as service,
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
        ExitStack() as closing,
    ):
        closing.callback(process.terminate)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        service.create_table_if_not_exists(f"index{own}")
        deadline = time.monotonic() + PATIENCE_S
        with Auditor(azurite, own, tenants) as auditor:
            for _ in range(2):
                process.stdin.write("on\n")
                process.stdin.flush()
                # no job ends before the queue is read
                while not (auditor.most >= LIMIT and auditor.waited):
                    assert time.monotonic() < deadline, "they do not post"
                    time.sleep(0.05)
            assert process.wait(deadline - time.monotonic()) == 0
    return auditor


def check(azurite: str, own: str, jobs: int, auditor: Auditor, tenants: tuple[str, ...] = ONE) -> None:
    """Checks the remaining rows: every job has ended, and the admission state counts no job."""
    print(f"{auditor.looks} looks, {auditor.most} inside and {auditor.waited} in line at the most")
    assert auditor.violations == []
    assert auditor.most == LIMIT
    assert auditor.waited > 0
    with TableClient.from_connection_string(azurite, f"index{own}") as table:
        rows = [row for tenant in tenants for row in table.query_entities(f"PartitionKey eq '{tenant}'")]
        admissions = [table.get_entity(tenant, "GATES") for tenant in tenants]
    kinds = [str(row["RowKey"]).split(":")[0] for row in rows]
    assert [kind for kind in ("ACTIVE", "DUE", "WAIT", "FREED") if kind in kinds] == []
    assert {kind: kinds.count(kind) for kind in ("CLAIM", "LIST", "ENDED")} == dict.fromkeys(
        ("CLAIM", "LIST", "ENDED"), jobs
    )
    for admission in admissions:
        assert (json.loads(admission["inside"]), admission["staged"], json.loads(admission["lines"])) == ({}, 0, {})


def test_posts_of_three_tenants_at_once_from_four_processes(azurite: str, own: str) -> None:
    """Never more than 7 active jobs over all tenants, and all jobs end."""
    check(azurite, own, 24, at_once(azurite, own, 24, MANY), MANY)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_posts_of_three_tenants(azurite: str, own: str) -> None:
    """The same for two hundred."""
    check(azurite, own, 200, at_once(azurite, own, 200, MANY), MANY)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_posts_at_once_from_four_processes(azurite: str, own: str) -> None:
    """The same for two hundred of one tenant, at its own limit."""
    check(azurite, own, 200, at_once(azurite, own, 200))
