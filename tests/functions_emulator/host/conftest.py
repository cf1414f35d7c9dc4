"""The host that most modules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functions_emulator.host.process import Host, start_host


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Serves the app `tour`. Modules that need another app or other options have their own fixture `host`."""
    running = start_host("tour", tmp_path_factory.mktemp("tour"))
    yield running
    stalls = running.stalls
    assert running.stop() == 0
    assert stalls == []
