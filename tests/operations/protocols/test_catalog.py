import asyncio
from dataclasses import dataclass, field

import pytest

from shared.adapters.protocol_files import load_schemas, load_services
from shared.errors import ConfigurationUnavailable
from shared.operations.protocols.catalog import Catalog
from shared.operations.protocols.overrides import CatalogState
from tests.jobs import ROOT, registry
from tests.operations.conftest import StillClock
from tests.operations.support import ocr, version_of

EVERY_S = 30


@dataclass
class Store:
    values: dict[str, str] = field(default_factory=ocr)
    sentinel: str | None = None
    away: bool = False
    reads: int = 0

    async def version(self) -> str | None:
        if self.away:
            raise ConfigurationUnavailable("the store is away")
        await asyncio.sleep(0)
        return self.sentinel

    async def read(self) -> dict[str, str]:
        self.reads += 1
        return self.values


def catalog(store: Store | None, clock: StillClock) -> Catalog:
    return Catalog(
        store,
        CatalogState(registry()),
        schemas=load_schemas(ROOT / "protocols"),
        services=load_services(ROOT / "infra" / "bicep" / "topology.json"),
        clock=clock,
        refresh_s=EVERY_S,
    )


async def test_it_looks_once_an_interval() -> None:
    """Tens at once make one read; the next comes when the interval is over."""
    store, clock = Store(), StillClock()
    known = catalog(store, clock)
    assert {version_of(one) for one in await asyncio.gather(*(known.refresh() for _ in range(30)))} == {2}
    assert store.reads == 1
    store.values = ocr(version=3)
    clock.advance(EVERY_S - 1)
    assert version_of(await known.refresh()) == 2
    clock.advance(1)
    assert version_of(await known.refresh()) == 3


async def test_a_sentinel_that_stands_spares_the_reading() -> None:
    """With the sentinel key, the others are read again only when it changes."""
    store, clock = Store(sentinel="1"), StillClock()
    known = catalog(store, clock)
    await known.refresh()
    store.values = ocr(version=3)
    clock.advance(EVERY_S)
    assert (version_of(await known.refresh()), store.reads) == (2, 1)
    store.sentinel = "2"
    clock.advance(EVERY_S)
    assert (version_of(await known.refresh()), store.reads) == (3, 2)


async def test_an_outage_leaves_what_was_good() -> None:
    """At the start the packaged files are used, later the last read ones; health reports the outage until its end."""
    store, clock = Store(away=True), StillClock()
    known = catalog(store, clock)
    assert (await known.refresh()).registry.request_types == registry().request_types
    assert known.state() == {"source": "app-configuration", "read_at": None, "problems": ["the store is away"]}
    store.away = False
    clock.advance(EVERY_S)
    assert version_of(await known.refresh()) == 2
    assert known.state()["problems"] == []
    store.away = True
    clock.advance(EVERY_S)
    assert version_of(await known.refresh()) == 2
    assert known.state()["problems"] == ["the store is away"]


async def test_without_a_store_the_files_rule() -> None:
    """Without a configured store nothing is read."""
    known = catalog(None, StillClock())
    assert (await known.refresh()).registry.request_types == registry().request_types
    assert known.state() == {"source": "files"}


async def test_a_store_that_hangs_holds_up_the_first_request_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both reads together have one limit (R43)."""
    monkeypatch.setattr("shared.operations.protocols.catalog._CHECK_S", 0.05)

    class Hanging(Store):
        async def read(self) -> dict[str, str]:
            await asyncio.Event().wait()
            return {}

    known = catalog(Hanging(), StillClock())
    assert (await known.refresh()).registry.request_types == registry().request_types
    assert known.state()["problems"] == ["no response within 0.05 s"]
