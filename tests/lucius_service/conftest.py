"""One probe service that the tests of the kit share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.lucius_service.fixtures import account, bus, bus_config, environment, invoker, workspace
from tests.lucius_service.service_process import SharedProbe

__all__ = ["account", "bus", "bus_config", "environment", "invoker", "workspace"]


@pytest.fixture(scope="session")
def health_port() -> int:
    """A free port for the health probes of the shared service."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


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
