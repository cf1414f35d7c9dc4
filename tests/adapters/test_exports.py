"""Lost tables are restored from an export: the drill on Azurite by the commands of the guide, and each failure."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from azure.data.tables.aio import TableServiceClient

from scripts import ledger_exports
from shared import settings as settings_module
from shared import telemetry
from shared.adapters.memory_tables import MemoryAccount
from shared.adapters.tables import exports
from shared.adapters.tables.export_format import ROLES, Manifest, read_manifest
from shared.adapters.tables.exports import TablesExports
from shared.adapters.tables.keys import JOB_ROW, feed_event_row
from shared.adapters.tables.restore import Restore
from shared.core.jobs.states import JobStatus
from shared.errors import ExportLate, ExportUnfit, LedgerUnavailable, OtherStoreVersion
from shared.operations.sweeper import exports as sweeper_exports
from shared.operations.sweeper.exports import export_tables
from shared.ports.exports import Exported
from shared.refusals import CursorExpired
from shared.store_wiring import export_files, table_names, tables_account
from tests.adapters.exported_app import (
    NAMES,
    MemoryFiles,
    app,
    feed_is_written,
    goes_on,
    page,
    restored,
    rows_of,
    running,
    succeeded,
)
from tests.jobs import ROOT, START
from tests.operations.conftest import World
from tests.operations.support import service_sends, submitted


async def test_lost_tables_come_back_and_jobs_go_on(
    azurite: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drill of docs/guides/restore.md. Ended jobs stay, living ones continue with a new task hub, cursors expire.

    An interrupted restore leaves a store that no app reads, and can be continued.
    """
    own = uuid.uuid4().hex[:8]
    names = {role: f"lucius{role}{own}" for role in ROLES}
    monkeypatch.setenv("LUCIUS_TABLE_CONNECTION", azurite)
    monkeypatch.setenv("LUCIUS_BLOB_CONNECTION", azurite)
    monkeypatch.setenv("LUCIUS_AUTH_MODE", "none")
    bus = "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k"
    monkeypatch.setenv("LUCIUS_SERVICEBUS_CONNECTION", bus)
    for role, name in names.items():
        monkeypatch.setenv(f"LUCIUS_{role.upper()}_TABLE", name)
    settings = settings_module.load()
    assert table_names(settings) == names

    async def command(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(ledger_exports.main, list(words))
        return code, "".join(capsys.readouterr()).strip()

    account = tables_account(settings)
    world, hints = app(account, settings=settings)
    ended, living = await succeeded(world, 1), await running(world, 2)
    await feed_is_written(world, hints)
    _, cursor = await page(world, "earliest")
    before = await rows_of(account, names)
    code, taken = await command("take")
    assert code == 0
    name = taken.split()[0]
    # events after the export, which are lost
    await service_sends(world, living, "RESULT", 22)
    await feed_is_written(world, hints)
    await succeeded(world, 3)
    async with TableServiceClient.from_connection_string(azurite) as service:
        for table in names.values():
            await service.delete_table(table)
    await account.close()

    files, account = export_files(settings), tables_account(settings)
    opened = {role: await account.open_unchecked(table) for role, table in names.items()}
    whole, reads = files.get_bytes, itertools.count()

    async def interrupted(blob: str) -> bytes:
        if "ledger/" in blob and next(reads) == 1:
            raise LedgerUnavailable("the machine is gone")
        return await whole(blob)

    monkeypatch.setattr(files, "get_bytes", interrupted)
    with pytest.raises(LedgerUnavailable):
        await Restore(opened, files).run(name)
    with pytest.raises(OtherStoreVersion, match="run it again"):
        await account.table(names["ledger"])
    assert await command("restore", name) == (0, f"{name} {len(before) - 1} rows restored; start the app")
    code, refused = await command("restore", name)
    assert (code, refused.count("\n")) == (1, 0)
    assert "is not empty" in refused
    assert name in (await command("list"))[1]

    assert await rows_of(account, names) == before
    world, hints = app(account, world, settings)
    assert (await world.job(ended)).job.status is JobStatus.SUCCEEDED
    assert await submitted(world, request_type="OCR", payload={}, doc_id="doc-1") == ended
    with pytest.raises(CursorExpired):
        await page(world, cursor)
    types, cursor = await page(world, "earliest")
    assert types[-1] == "job.started"
    await goes_on(world, living)
    await feed_is_written(world, hints)
    assert (await page(world, cursor))[0][-1] == "job.completed"
    await account.close()
    await files.close()


async def small() -> tuple[MemoryAccount, World, MemoryFiles]:
    account = MemoryAccount()
    world, hints = app(account)
    await succeeded(world, 1)
    await running(world, 2)
    await feed_is_written(world, hints)
    return account, world, MemoryFiles()


async def test_an_export_of_many_runs_is_that_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is over after its first part; the rows are those of the tables."""
    account, world, files = await small()
    monkeypatch.setattr(exports, "_PART_CHARACTERS", 1)
    monkeypatch.setattr(exports, "_PAGE", 2)
    for _ in range(100):
        exported = await TablesExports(account, NAMES, files).go_on(world.clock.now(), lambda: True)
        if exported is not None:
            break
    assert exported is not None
    new = await restored(account, files, exported.name)
    assert await rows_of(new, NAMES) | {} == {
        **await rows_of(account, NAMES),
        ("tenants", "schema", "schema"): {"PartitionKey": "schema", "RowKey": "schema", "version": 2, "": []},
    }


def test_a_manifest_of_100_000_feeds_is_7_mb() -> None:
    """The size in docs/guides/restore.md, with UUIDs as ids of tenants; the manifest is written with each part."""
    feeds = {str(uuid.UUID(int=number)): feed_event_row(number) for number in range(100_000)}
    assert len(Manifest("20261127T030000Z-1f2e3d4c", START, feeds=feeds).text()) < 7_000_000


def taken_over(files: MemoryFiles) -> dict[str, bytes]:
    """Returns the manifest as another process takes it over."""
    [name] = [blob for blob in files.kept if blob.endswith("/manifest.json")]
    return {name: json.dumps(json.loads(files.kept[name]) | {"writer": "another"}).encode()}


async def test_two_that_export_at_once_leave_one_whole_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer and a command: each writes its own parts, and the manifest names those of one of them.

    A process that finds another writer in the manifest stops.
    """
    account, world, files = await small()
    monkeypatch.setattr(exports, "_PART_CHARACTERS", 1)
    now, second = world.clock.now(), TablesExports(account, NAMES, files)
    put = files.put_bytes

    async def put_slowly(name: str, content: bytes) -> None:
        await asyncio.sleep(0)
        await put(name, content)

    monkeypatch.setattr(files, "put_bytes", put_slowly)
    both = (second.go_on(now, lambda: False), TablesExports(account, NAMES, files).go_on(now, lambda: False))
    done = await asyncio.gather(*both, return_exceptions=True)
    assert any(isinstance(each, Exported) for each in done), done
    [name] = await files.folders()
    manifest = await read_manifest(files, name)
    assert len({part.blob.rsplit("-")[-1] for table in manifest.tables for part in table.parts}) == 1
    found = await rows_of(await restored(account, files, name), NAMES)
    assert found.keys() - {("tenants", "schema", "schema")} == (await rows_of(account, NAMES)).keys()

    files.kept.clear()
    assert await TablesExports(account, NAMES, files).go_on(now, lambda: True) is None
    stopped = second.go_on(now, lambda: bool(files.kept.update(taken_over(files))))
    with pytest.raises(LedgerUnavailable):
        await stopped


def test_the_page_of_a_restore_sets_all_that_the_commands_need() -> None:
    """Of a deployment's account, without the app's other settings."""
    page = (ROOT / "docs" / "guides" / "restore.md").read_text()
    words = [word for line in page.splitlines() if line.startswith("export ") for word in line.split()[1:]]
    settings = ledger_exports.load(dict(word.split("=", 1) for word in words))
    assert settings.table_endpoint == "https://LEDGER_ACCOUNT.table.core.windows.net"
    assert settings.blob_endpoint == "https://LEDGER_ACCOUNT.blob.core.windows.net"


async def test_what_cannot_be_restored_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export that is torn, damaged, lacks a part, or is of another release; none of that name; tables with rows."""
    account, world, files = await small()
    now = world.clock.now()
    monkeypatch.setattr(exports, "_PART_CHARACTERS", 1)
    assert await TablesExports(account, NAMES, files).go_on(now, lambda: True) is None
    [name] = await files.folders()
    empty = MemoryAccount()

    async def refused(kept: dict[str, bytes], target: MemoryAccount = empty) -> str:
        other = MemoryFiles()
        other.kept = kept
        with pytest.raises(ExportUnfit) as unfit:
            await Restore({role: target.of(NAMES[role]) for role in ROLES}, other).run(name)
        assert not [*empty.rows()]
        assert "\n" not in str(unfit.value)
        return str(unfit.value)

    assert "not complete" in await refused(files.kept)
    exported = await TablesExports(account, NAMES, files).go_on(now, lambda: False)
    assert exported is not None
    part = next(blob for blob in files.kept if "/ledger/" in blob)
    manifest = f"{name}/manifest.json"
    assert "damaged" in await refused({**files.kept, part: b"x"})
    assert "lacks" in await refused({blob: content for blob, content in files.kept.items() if blob != part})
    assert "lacks" in await refused({})
    later = files.kept[manifest].replace(b'"store_version": 2', b'"store_version": 3')
    assert "store version 3" in await refused({**files.kept, manifest: later})
    assert "cannot be read" in await refused({**files.kept, manifest: b"{"})
    assert "is not empty" in await refused(files.kept, account)


async def test_a_job_whose_history_is_torn_does_not_end_every_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """An EVENT row of a living and of an ended job is lost: both are exported as they are."""
    monkeypatch.setattr(exports, "_READ_AGAIN_S", 0)
    account, world, files = await small()
    for part in account.of(NAMES["ledger"]).partitions.values():
        part.remove(max(key for key in part.keys if key < JOB_ROW))
    exported = await TablesExports(account, NAMES, files).go_on(world.clock.now(), lambda: False)
    assert exported is not None
    found = await rows_of(await restored(account, files, exported.name), NAMES)
    assert found.keys() == (await rows_of(account, NAMES)).keys() | {("tenants", "schema", "schema")}


async def test_a_run_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the table is slow, before its part is full; a hanging table is abandoned.

    The timer then does its other work.
    """
    account, world, files = await small()
    assert await TablesExports(account, NAMES, files).go_on(world.clock.now(), lambda: True) is None
    [name] = await files.folders()
    assert (await read_manifest(files, name)).rows == 1

    class Hanging:
        async def go_on(self, now: Any, is_over: Any) -> None:
            await asyncio.Event().wait()

    settings = replace(world.context.settings, export_days=2.0)
    monkeypatch.setattr(sweeper_exports, "_GRACE", timedelta(milliseconds=10))
    context = replace(world.context, settings=settings, exports=Hanging())  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        await export_tables(context, world.clock.now())


async def test_two_apps_export_into_one_container() -> None:
    """Neither continues or removes an export of the other."""
    account, world, files = await small()
    now = world.clock.now()
    one, other = (TablesExports(account, NAMES, files, source) for source in ("one", "other"))
    assert await one.go_on(now, lambda: True) is None
    first = await other.go_on(now, lambda: False)
    second = await one.go_on(now, lambda: False)
    assert first is not None
    assert second is not None
    assert first.name != second.name
    world.clock.advance(86400)
    assert await one.go_on(world.clock.now(), lambda: False) is not None
    await one.remove_before(world.clock.now())
    assert first.name in await files.folders()
    assert second.name not in await files.folders()


async def test_an_export_by_hand_begins_another_on_the_same_day() -> None:
    """It has later rows than the export of the day."""
    account, world, files = await small()
    given = TablesExports(account, NAMES, files)
    first = await given.go_on(world.clock.now(), lambda: False)
    world.clock.advance(60)
    await succeeded(world, 3)
    await given.begin(world.clock.now())
    second = await given.go_on(world.clock.now(), lambda: False)
    assert first is not None
    assert second is not None
    assert second.rows > first.rows
    assert await given.go_on(world.clock.now(), lambda: False) is None


async def test_an_export_that_takes_days_is_dropped_and_the_next_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would never be complete; the metric of a failed run notifies the operator."""
    account, world, files = await small()
    monkeypatch.setattr(exports, "_PART_CHARACTERS", 1)
    given = TablesExports(account, NAMES, files)
    assert await given.go_on(world.clock.now(), lambda: True) is None
    world.clock.advance(3 * 86400)
    with pytest.raises(ExportLate):
        await given.go_on(world.clock.now(), lambda: True)
    assert files.kept == {}
    assert await given.go_on(world.clock.now(), lambda: False) is not None


async def test_old_exports_go_and_the_last_complete_one_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One export a day, by the timer; a failed run is counted and raises nothing."""
    account, world, files = await small()
    counted = Counter[str]()
    monkeypatch.setattr(telemetry, "increment", lambda name, result: counted.update([f"{name} {result}"]))
    settings = replace(world.context.settings, export_days=2.0)
    context = replace(world.context, settings=settings, exports=TablesExports(account, NAMES, files))
    for _ in range(4):
        until = world.clock.now() + timedelta(minutes=5)
        await export_tables(context, until)
        await export_tables(context, until)
        world.clock.advance(86400)
    assert len(await files.folders()) == 3
    last = (await files.folders())[-1]
    files.kept[f"{last}/manifest.json"] = b"{"

    class Away:
        async def go_on(self, now: Any, is_over: Any) -> None:
            raise LedgerUnavailable

    await export_tables(replace(context, exports=Away()), START)  # type: ignore[arg-type]
    world.clock.advance(30 * 86400)
    await TablesExports(account, NAMES, files).remove_before(world.clock.now())
    [kept] = await files.folders()
    assert (await read_manifest(files, kept)).complete
    assert counted == {"ledger_exports_total completed": 4, "ledger_exports_total failed": 1}
