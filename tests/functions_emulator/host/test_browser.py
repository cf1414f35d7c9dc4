"""The page at /emulator in Chromium without scripts, as a person uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests import machine
from tests.functions_emulator.host.process import SOON_S, START_TIMEOUT_S, Host

#: A busy machine paints slowly; an element that is there costs no waiting.
expect.set_options(timeout=SOON_S * 1000)

pytestmark = pytest.mark.needs("browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = machine.path_of("browser")
        running = playwright.chromium.launch(executable_path=path, timeout=START_TIMEOUT_S * 1000)
        yield running
        running.close()


@pytest.fixture
def page(browser: Browser, host: Host) -> Iterator[Page]:
    context = browser.new_context(base_url=host.url, java_script_enabled=False)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    yield page
    context.close()
    assert problems == []


def press(page: Page, name: str) -> None:
    """Clicks a button whose form leads to a page."""
    with page.expect_navigation():
        page.get_by_role("button", name=name).click()


def status(page: Page) -> str:
    return page.locator("tr", has=page.locator("th", has_text="status").first).locator("td").first.inner_text()


def test_an_instance_is_found_suspended_resumed_and_given_its_event(page: Page, host: Host) -> None:
    """By the links and buttons of the page, from the overview to the end; the timeline shows all of it."""
    host.start("approval", 600, "seen-in-browser")
    host.wait_for("seen-in-browser", "Running")
    page.goto("/emulator")
    page.get_by_label("id begins with").fill("seen-in")
    press(page, "find")
    row = page.locator("tbody tr", has_text="seen-in-browser")
    expect(row).to_contain_text("event approve")
    expect(row).to_contain_text("timer 0 at")
    with page.expect_navigation():
        row.get_by_role("link").click()
    expect(page.locator("ol.timeline > li").last).to_contain_text("FireAt")
    expect(page.get_by_role("heading", level=1)).to_have_text("seen-in-browser")

    press(page, "suspend")
    host.wait_for("seen-in-browser", "Suspended")
    page.reload()
    assert status(page) == "Suspended"
    press(page, "resume")
    host.wait_for("seen-in-browser", "Running")

    page.reload()
    page.get_by_label("event name").fill("approve")
    page.get_by_label("JSON").fill('{"by": "a person"}')
    press(page, "raise event")
    assert host.wait_for("seen-in-browser")["output"] == {"by": "a person"}
    page.reload()
    assert status(page) == "Completed"
    timeline = page.locator("ol.timeline > li")
    expect(timeline.first).to_contain_text("ExecutionStarted")
    expect(timeline.last).to_contain_text("ExecutionCompleted")
    expect(page.locator("ol.timeline")).to_contain_text("a person")
    expect(page.get_by_role("button")).to_have_count(0)


def test_an_instance_is_terminated_with_a_reason(page: Page, host: Host) -> None:
    """The reason becomes the output."""
    host.start("approval", 600, "stopped-in-browser")
    host.wait_for("stopped-in-browser", "Running")
    page.goto("/emulator/instances/stopped-in-browser")
    page.get_by_label("reason").fill("no longer wanted")
    press(page, "terminate")
    assert host.wait_for("stopped-in-browser")["output"] == "no longer wanted"
    page.reload()
    assert status(page) == "Terminated"


@pytest.mark.parametrize(("scheme", "is_dark"), [("light", False), ("dark", True)])
def test_light_and_dark_as_the_reader_prefers(
    browser: Browser, host: Host, scheme: Literal["light", "dark"], is_dark: bool
) -> None:
    """The background follows prefers-color-scheme; every text has a contrast of 4.5 to 1 (WCAG AA)."""
    host.wait_for(host.start("chain", "x", f"shown-{scheme}"))
    page = browser.new_page(base_url=host.url, color_scheme=scheme)
    try:
        page.goto(f"/emulator/instances/shown-{scheme}")
        back = _luminance(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"), is_dark)
        assert (back < 0.5) == is_dark
        for selector in ("h1", "th", "td", "a", "pre", ".soft", ".Completed"):
            colour = page.locator(selector).first.evaluate("one => getComputedStyle(one).color")
            text = _luminance(colour, is_dark)
            light, dark = max(text, back), min(text, back)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, f"{selector}: {colour}"
    finally:
        page.close()


def test_nothing_runs_off_a_phones_screen(browser: Browser, host: Host) -> None:
    """At 375 pixels parts of the page scroll, but not the page."""
    host.wait_for(host.start("chain", "x" * 300, "narrow"))
    page = browser.new_page(base_url=host.url, viewport={"width": 375, "height": 700})
    try:
        for path in ("/emulator", "/emulator/instances/narrow"):
            page.goto(path)
            assert page.evaluate("document.documentElement.scrollWidth") <= 375, path
    finally:
        page.close()


def _luminance(colour: str, is_dark: bool) -> float:
    """The luminance of `rgb(r, g, b)` by WCAG 2.2; without a background the scheme's own counts, black or white."""
    red, green, blue, *alpha = (float(part) for part in re.findall(r"[\d.]+", colour))
    if alpha == [0.0]:
        return 0.006 if is_dark else 1.0  # Chromium's dark canvas is #121212
    parts = [part / 255 for part in (red, green, blue)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
