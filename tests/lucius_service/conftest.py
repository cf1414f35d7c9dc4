"""One probe service that the tests of the kit share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.up.ports import find_free
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.fixtures import LANES, account, bus, bus_config, environment, invoker, workspace
from tests.lucius_service.service_process import SharedProbe, running_probe
from tests.servicebus_emulator.process import Bus, start_bus

__all__ = ["account", "bus", "bus_config", "environment", "invoker", "workspace"]


@pytest.fixture(scope="session")
def health_port() -> int:
    """A free port for the health probes of the shared service."""
    return find_free()


@pytest.fixture(scope="session")
def shared_probe(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str], health_port: int
) -> Iterator[SharedProbe]:
    settings = {
        **environment,
        "LUCIUS_SERVICE_HEALTH_PORT": str(health_port),
        # two attempts fill it
        "LUCIUS_SERVICE_QUEUE_SIZE": "1",
    }
    probe = SharedProbe(tmp_path_factory.mktemp("probe") / "probe.log", settings)
    try:
        yield probe
        probe.stop()
    finally:
        probe.close()


@pytest.fixture(scope="session")
def quiet_bus(bus_config: Path) -> Iterator[Bus]:
    """Yields a bus whose replies no other process reads."""
    bus = start_bus("--config", bus_config)
    yield bus
    bus.stop()


@pytest.fixture(scope="session")
def quiet_probe(quiet_bus: Bus, account: BlobAccount, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bus]:
    """The same bus, with a probe service."""
    settings = {
        "LUCIUS_SERVICEBUS_CONNECTION": quiet_bus.connection_string,
        "LUCIUS_BLOB_CONNECTION": account.connection,
        "LUCIUS_SERVICEBUS_LANES": str(LANES),
        "LUCIUS_SERVICE_WORKERS": "4",
    }
    with running_probe(tmp_path_factory.mktemp("quiet") / "probe.log", settings):
        yield quiet_bus
