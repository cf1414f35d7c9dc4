"""A process's copy of the directory of quotas: its reads, the time at which it notices a change, and an outage of the
store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.tables.directory import row_of_tenant
from shared.core.gates.rules import EVERY, Directory, Gate, GateKind, GateState, Rule
from shared.errors import LedgerUnavailable
from shared.operations.process import gate_directory
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.sweeper.sweep import sweep
from shared.ports.admissions import DirectoryRows
from shared.settings import load
from tests.directory_table import DirectoryTable, directory_over
from tests.jobs import START
from tests.memory_stores import MemoryAdmissions
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile
from tests.operations.support import limited
from tests.worlds.gates import posted, statuses

SETTINGS = load(
    {
        "LUCIUS_STORAGE_BACKEND": "memory",
        "LUCIUS_AUTH_MODE": "none",
        "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    }
)
TYPE, PLATFORM = Gate(GateKind.TYPE, EVERY, "OCR"), Gate.over_all(GateKind.PLATFORM)


class Process:
    """A process's copy of a directory, at a time in seconds."""

    def __init__(self, directory: Any, chance: Callable[[], float] = lambda: 0.0) -> None:
        self.copy, self._directory, self._chance = GateDirectory(), directory, chance

    async def at(self, second: float) -> Directory:
        return await self.copy.read(self._directory, SETTINGS, START + timedelta(seconds=second), self._chance)


async def test_a_refresh_reads_one_row_until_something_changes() -> None:
    """Then it reads the group of the change."""
    table = DirectoryTable()
    directory, process = directory_over(table), Process(directory_over(table))
    for number in range(100):
        await directory.enter_tenant(f"tenant_{number}", START)
    await process.at(0)
    entities = table.entities
    for second in range(1, 101):
        await process.at(second)
    assert table.entities == entities + 10
    await directory.put_default(TYPE, Rule(max_active=1), START)
    entities = table.entities
    assert (await process.at(110)).defaults == {(GateKind.TYPE, "OCR"): Rule(max_active=1)}
    assert table.entities == entities + 2


@pytest.mark.parametrize("chance", [0.0, 0.3, 1.0])
async def test_a_change_is_known_after_ten_seconds(chance: float) -> None:
    """A change of each kind, at any time, and with any jitter."""
    directory = MemoryAdmissions()
    process = Process(directory, lambda: chance)
    await directory.enter_tenant("gone", START)
    for second in range(0, 100, 13):
        await process.at(second)
        await directory.enter_tenant(f"tenant_{second}", START)
        await directory.put_over_all(PLATFORM, GateState(gate=PLATFORM, rule=Rule(max_active=second + 1)), START)
        assert f"tenant_{second}" in (known := await process.at(second + 10)).tenants
        assert known.over_all[PLATFORM.id].max_active == second + 1
    await directory.remove_tenant("gone")
    await directory.put_over_all(PLATFORM, None, START)
    known = await process.at(200)
    assert (known.over_all, "gone" in known.tenants) == ({}, False)


async def test_a_change_during_a_refresh_is_known_after_the_next_one() -> None:
    """After the versions or the rows were read; at the first read, of all groups, and at one of a group."""
    directory, changes = MemoryAdmissions(), list[Awaitable[None]]()

    class Meeting(MemoryAdmissions):
        async def versions(self) -> dict[str, int]:
            return await self._then_change(await directory.versions())

        async def group(self, name: str) -> DirectoryRows:
            return await self._then_change(await directory.group(name))

        async def groups(self) -> dict[str, DirectoryRows]:
            return await self._then_change(await directory.groups())

        async def _then_change(self, found: Any) -> Any:
            if changes:
                await changes.pop(0)
            return found

    process = Process(Meeting())
    changes += [directory.enter_tenant("tenant_a", START), directory.enter_tenant("tenant_b", START)]
    await process.at(0)
    assert {*(await process.at(10)).tenants} == {"tenant_a", "tenant_b"}
    await directory.note_settings(START)
    changes += [directory.remove_tenant("tenant_a"), directory.enter_tenant("tenant_c", START)]
    await process.at(20)
    assert {*(await process.at(30)).tenants} == {"tenant_b", "tenant_c"}


async def test_a_process_knows_its_own_change_at_once() -> None:
    """Also one that it makes while it reads."""
    directory = MemoryAdmissions()
    process = Process(directory)
    await process.at(0)
    await directory.enter_tenant("tenant_a", START)
    process.copy.forget()
    assert {*(await process.at(1)).tenants} == {"tenant_a"}

    async def changed() -> None:
        await directory.enter_tenant("tenant_b", START)
        process.copy.forget()

    meanwhile(directory, "versions", changed, after=True)
    await process.at(20)
    assert {*(await process.at(20)).tenants} == {"tenant_a", "tenant_b"}


async def test_a_group_that_cannot_be_read_keeps_its_last_rows() -> None:
    """The other groups count, and it is read again in two seconds."""
    table = DirectoryTable()
    directory, process = directory_over(table), Process(directory_over(table))
    await directory.put_default(TYPE, Rule(max_active=1), START)
    await process.at(0)
    await directory.put_default(TYPE, Rule(max_active=2), START)
    await directory.put_over_all(PLATFORM, GateState(gate=PLATFORM, rule=Rule(max_active=9)), START)

    def throttled(kind: str, key: str) -> None:
        if key.startswith("DEFAULT"):
            raise LedgerUnavailable("the ledger answered 503")

    table.before = throttled
    known = await process.at(10)
    assert known.defaults == {(GateKind.TYPE, "OCR"): Rule(max_active=1)}
    assert known.over_all[PLATFORM.id].max_active == 9
    table.before = lambda *_: None
    assert (await process.at(12)).defaults == {(GateKind.TYPE, "OCR"): Rule(max_active=2)}


async def test_rows_of_a_backup_without_a_new_version_are_known_after_half_an_hour() -> None:
    table = DirectoryTable()
    directory, process = directory_over(table), Process(directory_over(table), lambda: 1.0)
    await directory.enter_tenant("tenant_a", START)
    rows = table.rows
    await directory.remove_tenant("tenant_a")
    assert (await process.at(0)).tenants == {}
    for key in {*rows} - {"VERSION"}:
        table.put(rows[key])
    assert (await process.at(1790)).tenants == {}
    assert (await process.at(1800)).tenants == {"tenant_a": START}


async def test_versions_that_are_lost_or_of_a_later_release_take_nothing_away() -> None:
    """VERSION is removed by hand, or has groups that this release does not know: rows stay, and changes are known."""
    table = DirectoryTable()
    directory, process = directory_over(table), Process(directory_over(table))
    await directory.enter_tenant("tenant_a", START)
    await process.at(0)
    table.remove("directory", "VERSION")
    await process.at(10)
    entities = table.entities
    assert {*(await process.at(20)).tenants} == {"tenant_a"}
    assert table.entities == entities + 1
    await directory.put_default(TYPE, Rule(max_active=1), START)
    table.put({**table.rows["VERSION"], "REGION_1": 7, "TENANTS_20": 8})
    table.put({**table.rows[row_of_tenant("tenant_a")], "RowKey": "TENANTS:20", "tenants": f'{{"b": ["{START}"]}}'})
    known = await process.at(30)
    assert ({*known.tenants}, len(known.defaults)) == ({"tenant_a", "b"}, 1)


async def test_a_row_of_tenants_that_becomes_undecodable_keeps_what_it_had(caplog: pytest.LogCaptureFixture) -> None:
    """And is reported once."""
    table = DirectoryTable()
    directory, process = directory_over(table), Process(directory_over(table))
    await directory.enter_tenant("tenant_a", START)
    await process.at(0)
    [key] = [key for key in table.rows if key != "VERSION"]
    table.put({**table.rows[key], "tenants": "{"})
    for column in list(table.rows["VERSION"])[2:]:
        table.put({**table.rows["VERSION"], column: -1})
    for second in (10, 20, 30):
        assert (await process.at(second)).tenants == {"tenant_a": START}
    assert [record.message for record in caplog.records] == [f'{{"event": "ROW_UNDECODABLE", "row": "{key}"}}']


async def test_one_caller_tries_and_no_other_waits() -> None:
    """The store does not respond for a while: requests use the copy; without one they fail at once."""
    directory, hangs = MemoryAdmissions(), asyncio.Event()
    tries = 0

    async def versions() -> dict[str, int]:
        nonlocal tries
        tries += 1
        if tries > 1:
            await hangs.wait()
        raise LedgerUnavailable("503")

    with_copy, without = Process(directory), Process(directory)
    await with_copy.at(0)
    directory.versions = versions  # type: ignore[method-assign]
    for process, first in ((with_copy, 10.0), (without, 0.0)):
        tries = 0
        hangs.clear()
        if process is with_copy:
            await process.at(first)
        else:
            with pytest.raises(LedgerUnavailable):
                await process.at(first)
            with pytest.raises(LedgerUnavailable):
                await process.at(first + 1)
        assert tries == 1
        waits = asyncio.ensure_future(process.at(first + 2))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(process.at(first + 2)) for _ in range(3)]
        await asyncio.sleep(0)
        assert [other.done() and other.exception() is not None for other in others] == [process is without] * 3
        assert [other.done() for other in others] == [True] * 3
        assert tries == 2
        hangs.set()
        await asyncio.gather(waits, return_exceptions=True)


async def test_a_store_that_hangs_holds_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A try ends after three seconds, here after ten milliseconds; the copy is in effect."""
    monkeypatch.setattr(gate_directory, "_TRY_S", 0.01)
    directory = MemoryAdmissions()
    process = Process(directory)
    await directory.enter_tenant("tenant_a", START)
    await process.at(0)

    async def versions() -> dict[str, int]:
        await asyncio.Event().wait()
        raise AssertionError("not reached")

    directory.versions = versions  # type: ignore[method-assign]
    known = await asyncio.gather(*(process.at(10) for _ in range(3)))
    assert [{*each.tenants} for each in known] == [{"tenant_a"}] * 3


async def test_a_process_that_starts_without_the_directory_stages_new_jobs(world: World) -> None:
    """They start once it can be read."""
    starting = limited(world)
    with failing(world.index.admissions, "versions"):
        [job_id] = await posted(starting, 1)
        assert await statuses(starting, [job_id]) == ["THROTTLED"]
    world.clock.advance(61)
    await sweep(starting.context, starting.orchestrations)
    assert await statuses(starting, [job_id]) == ["QUEUED"]


async def test_250_processes_stay_below_a_tenth_of_what_a_partition_gives() -> None:
    """With a thousand tenants, and a change each ten seconds: counted in rows, and in rows of 1 KiB, as documented.

    A partition of Azure Tables gives 2,000 rows of 1 KiB a second
    (https://learn.microsoft.com/azure/storage/tables/scalability-targets).
    """
    table, chance = DirectoryTable(), random.Random(33)
    directory = directory_over(table)
    for number in range(1_000):
        await directory.enter_tenant(f"customer-{number:04d}-europe", START)
    gates = [Gate.over_all(GateKind.PLATFORM_TYPE, f"TYPE_{number}") for number in range(10)]
    for gate in gates:
        await directory.put_over_all(gate, GateState(gate=gate, rule=Rule(max_active=100)), START)
    for number in range(5):
        await directory.put_default(Gate(GateKind.TYPE, EVERY, f"TYPE_{number}"), Rule(max_active=9), START)
    processes = [Process(directory_over(table), chance.random) for _ in range(250)]
    table.entities = table.kibs = 0
    for process in processes:
        await process.at(0)
    # each process reads all groups again after 22.5 minutes on average
    all_again = [count / (22.5 * 60) for count in (table.entities, table.kibs)]
    seconds = 60
    for half in range(1, 2 * (20 + seconds) + 1):
        if half == 2 * 20:
            # processes and changes have come apart
            table.entities = table.kibs = 0
        if half % 60 == 0:
            gate = gates[half // 60]
            await directory.put_over_all(gate, GateState(gate=gate, rule=Rule(max_active=half)), START)
        elif half % 20 == 0:
            await directory.enter_tenant(f"customer-{half:04d}-america", START)
        for process in processes:
            await process.at(half / 2)
    rows, kibs = (
        round(count / seconds + whole) for count, whole in zip((table.entities, table.kibs), all_again, strict=True)
    )
    assert rows < kibs < 2_000 / 10
    page = Path(__file__).parents[3] / "docs" / "decisions" / "0046-the-directory-has-a-version.md"
    assert f"{rows} rows and {kibs} KiB a second" in page.read_text("utf-8").replace("\n", " ")
