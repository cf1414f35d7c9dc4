"""The compiler, in one process for all tests of the templates: its start takes 4 s of CPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.checks import every
from infra.checks.compiler import Compiler
from infra.checks.snapshots import Snapshot
from tests.jobs import ROOT


@pytest.fixture(scope="session")
def compiler() -> Iterator[Compiler]:
    """For tests that are marked `needs("bicep")`."""
    with Compiler() as process:
        yield process


@pytest.fixture(scope="session")
def evaluated(compiler: Compiler) -> dict[str, Snapshot]:
    """Returns the snapshot of each parameter file of the repository, by its name."""
    return {each.file.stem: each for each in every.evaluated(compiler, ROOT)}
