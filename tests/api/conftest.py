"""The live API: one stack for this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api import live
from tests.api.live import Live


@pytest.fixture(scope="package")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """With tokens on and no platform services."""
    running = live.start(tmp_path_factory.mktemp("api"))
    try:
        yield running
    finally:
        running.close()
        code = running.stack.stop()
    assert code == 0
