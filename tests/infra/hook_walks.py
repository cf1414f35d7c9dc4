"""Checkouts in which the hooks of azd run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infra.walk import Walk

HERE = {"AZURE_SUBSCRIPTION_ID": "sub-1", "AZURE_ENV_NAME": "dev", "AZURE_LOCATION": "westeurope"}


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    """With an azd environment `dev` in the subscription `sub-1`."""
    with Walk.begun(tmp_path, azd=dict(HERE)) as walk:
        walk.environment.update(HERE)
        yield walk


def preprovision(walk: Walk, **environment: str) -> Any:
    return walk.run("sh infra/hooks/preprovision.sh", **environment)
