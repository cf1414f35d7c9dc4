"""Other steps under a loaded version are refused: by the process that loaded it, and by every other one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from shared.adapters.tables.protocol_versions import TablesProtocolVersions
from shared.core.registry import Protocol, Registry, build_protocol
from shared.errors import LedgerUnavailable
from shared.operations.protocols import catalog as catalog_module
from shared.operations.protocols.catalog import Catalog
from shared.operations.protocols.overrides import CatalogState
from shared.operations.protocols.read_versions import read_versions
from shared.ports.protocol_versions import StoredVersion
from shared.ports.sweeps import SweepMark, WorkCounts
from tests.fake_tables import FakeAccount
from tests.jobs import START
from tests.memory_stores import MemorySweepMark
from tests.operations.conftest import StillClock
from tests.operations.faults import meanwhile

EVERY_S = 30
SERVICES = {"ocr": "OCR"}
SCHEMA = {"type": "object"}
#: other steps
OTHER: dict[str, Any] = {"steps": [{"step_id": "text", "step_type": "OCR", "service": "ocr"}]}


def definition(version: int = 1, **changes: Any) -> dict[str, Any]:
    step = {"step_id": "ocr", "step_type": "OCR", "service": "ocr", "payload_schema": "ocr.schema.json"}
    return {"protocol_id": "ocr", "version": version, "request_type": "OCR", "steps": [step], **changes}


def protocol(version: int = 1, **changes: Any) -> Protocol:
    return build_protocol("ocr.json", definition(version, **changes), {"ocr.schema.json": SCHEMA}, SERVICES)


@dataclass
class Rows(TablesProtocolVersions):
    """The real adapter over memory; counts its calls."""

    away: bool = False
    reads: int = 0
    account: FakeAccount = field(default_factory=FakeAccount)

    def __post_init__(self) -> None:
        super().__init__(self.account, "gates")

    async def read(self) -> list[StoredVersion]:
        self.reads += 1
        if self.away:
            raise LedgerUnavailable
        return await super().read()


@dataclass
class Store:
    """An App Configuration store with one protocol."""

    value: dict[str, Any]

    async def version(self) -> str | None:
        return json.dumps(self.value)

    async def read(self) -> dict[str, str]:
        return {"lucius:protocols:ocr": json.dumps(self.value)}


def catalog(rows: Rows, clock: StillClock, *packaged: Protocol, store: Store | None = None) -> Catalog:
    return Catalog(
        store,
        CatalogState(Registry(packaged)),
        schemas={"ocr.schema.json": SCHEMA},
        services=SERVICES,
        clock=clock,
        refresh_s=EVERY_S,
        versions=rows,
    )


async def loaded(known: Catalog) -> list[Protocol]:
    return list((await known.refresh()).registry.every_version)


async def test_a_deployment_with_other_steps_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """The steps of the first deployment stay, also in new processes; a higher version is taken; one query a process."""
    rows, clock = Rows(), StillClock()
    [first] = await loaded(catalog(rows, clock, protocol()))
    later = catalog(rows, clock, protocol(**OTHER))
    [kept] = await loaded(later)
    clock.advance(10 * EVERY_S)
    await later.refresh()
    assert (kept.digest, kept.schemas, rows.reads) == (first.digest, first.schemas, 2)
    [problem] = later.state()["problems"]
    assert problem.startswith("protocol ocr version 1 differs from its first loaded definition")
    [line] = [json.loads(each.getMessage()) for each in caplog.records if "PROTOCOL_VERSION" in each.getMessage()]
    assert (line["event"], line["reason"], line["version"]) == ("PROTOCOL_VERSION_REFUSED", "VERSION_CHANGED", 1)
    [raised] = await loaded(catalog(rows, clock, protocol(2, **OTHER)))
    assert raised.definition.steps[0].step_id == "text"


async def test_a_store_that_changes_a_version_is_refused_by_every_process() -> None:
    """A running process keeps its version, a new one gets the same; words and timings may change."""
    rows, clock, store = Rows(), StillClock(), Store(definition(2))
    running = catalog(rows, clock, protocol(), store=store)
    await running.refresh()
    store.value = definition(2, **OTHER)
    clock.advance(EVERY_S)
    for known in (running, catalog(rows, clock, protocol(), store=store)):
        [kept] = await loaded(known)
        assert kept.definition.steps[0].step_id == "ocr"
        assert len(known.state()["problems"]) == 1
    store.value = definition(2, description="in other words", total_timeout_s=60)
    clock.advance(EVERY_S)
    [changed] = await loaded(running)
    assert (changed.definition.total_timeout_s, running.state()["problems"]) == (60, [])


async def test_a_silent_table_stops_nothing() -> None:
    """The loaded version is used, and compared at a later refresh."""
    rows, clock = Rows(), StillClock()
    await catalog(rows, clock, protocol()).refresh()
    rows.away = True
    known = catalog(rows, clock, protocol(**OTHER))
    [unchecked] = await loaded(known)
    assert unchecked.definition.steps[0].step_id == "text"
    rows.away = False
    clock.advance(EVERY_S)
    [kept] = await loaded(known)
    assert kept.definition.steps[0].step_id == "ocr"


async def test_a_table_that_hangs_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that the store got meanwhile is compared at the next refresh, though nothing else changes."""
    rows, clock, store = Rows(), StillClock(), Store(definition(2))
    await catalog(rows, clock, protocol(2)).refresh()
    store.value = definition()
    known = catalog(rows, clock, protocol(), store=store)
    await known.refresh()
    store.value = definition(2, **OTHER)
    read = rows.read

    async def hangs() -> list[StoredVersion]:
        await asyncio.Event().wait()
        raise AssertionError

    rows.read = hangs  # type: ignore[method-assign]
    monkeypatch.setattr(catalog_module, "_CHECK_S", 0.01)
    clock.advance(EVERY_S)
    assert [each.definition.steps[0].step_id for each in await loaded(known)] == ["text"]
    rows.read = read  # type: ignore[method-assign]
    monkeypatch.setattr(catalog_module, "_CHECK_S", 10)
    clock.advance(EVERY_S)
    assert [each.definition.steps[0].step_id for each in await loaded(known)] == ["ocr"]


async def test_two_processes_load_a_new_version_at_once() -> None:
    """The one that writes its row first decides."""
    rows, clock = Rows(), StillClock()
    other = catalog(rows, clock, protocol(**OTHER))
    meanwhile(rows, "add", other.refresh)
    [kept] = await loaded(catalog(rows, clock, protocol()))
    assert kept.definition.steps[0].step_id == "text"


async def test_versions_with_their_jobs() -> None:
    """Every version ever loaded, with the counts of the last sweep and its share of new jobs; two queries."""
    rows, clock, marks = Rows(), StillClock(), MemorySweepMark()
    await catalog(rows, clock, protocol()).refresh()
    known = Registry([protocol(2), protocol(3, ramp_percent=5)])
    await catalog(rows, clock, *known.every_version).refresh()
    uncounted = await read_versions(known, rows, "OCR", marks, 1)
    assert [each.jobs for each in uncounted.versions] == [None, None, None]
    counts = WorkCounts()
    counts.versions.update({"OCR:1": 4, "OCR:3": 2, "OTHER:1": 9})
    await marks.write(0, SweepMark(ended_at=START, looked_at=0, actions=0, more=False, counts=counts))
    found = await read_versions(known, rows, "OCR", marks, 1)
    assert found.counted_at == START
    assert [(each.protocol.key[1], each.is_loaded, each.new_jobs_percent, each.jobs) for each in found.versions] == [
        (3, True, 5, 2),
        (2, True, 95, 0),
        (1, False, 0, 4),
    ]
    assert (await read_versions(known, rows, "OCR", None, 1)).counted_at is None


async def test_a_version_that_only_a_later_release_reads_is_left_out() -> None:
    """After a rollback its row is still there; the other versions are listed."""
    rows, clock = Rows(), StillClock()
    await catalog(rows, clock, protocol()).refresh()
    [row] = await rows.read()
    await rows.add(replace(row, version=2, definition={**row.definition, "version": 2, "of_a_later_release": True}))
    found = await read_versions(Registry([protocol()]), rows, "OCR", None, 1)
    assert [each.protocol.key for each in found.versions] == [("ocr", 1)]
