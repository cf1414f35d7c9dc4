"""One browser for the tests of the dashboard; its jobs are played by a scripted service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests import machine
from tests.api.live import Live
from tests.dashboard.scene import Scene, play
from tests.dashboard.screen import DEADLINE_MS, Screens


@pytest.fixture(scope="package")
def scene(api: Live) -> Scene:
    return play(api)


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=machine.path_of("browser"), timeout=DEADLINE_MS)
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def pages(browser: Browser, api: Live) -> Screens:
    return Screens(browser, api)


@pytest.fixture
def screens(pages: Screens) -> Iterator[Screens]:
    """Pages of the dashboard. A message in a console, an error and a violation of the policy fail the test."""
    yield pages
    pages.end_test()
