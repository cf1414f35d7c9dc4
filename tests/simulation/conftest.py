"""Simulated worlds without the log of the app."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The app's log of hundreds of worlds would hide the failure."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
