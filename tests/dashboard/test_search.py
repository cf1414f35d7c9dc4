"""The search of the dashboard and its keys, in a browser over a real stack."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.api.live import Live
from tests.dashboard.scene import Scene
from tests.dashboard.screen import DEADLINE_MS, Screens, short

pytestmark = pytest.mark.needs("browser")
expect.set_options(timeout=DEADLINE_MS)


def test_keys_and_the_search_lead_to_a_job(screens: Screens, scene: Scene) -> None:
    page = screens.open("jobs?filter=label%3Dbatch:one")
    page.get_by_role("link", name=short(scene.retried)).wait_for()
    for key in "jjkx":
        page.keyboard.press(key)
    expect(page.get_by_role("checkbox", name=f"Select {scene.retried}")).to_be_checked()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{scene.retried}")
    expect(page.get_by_role("slider")).to_be_visible()
    page.keyboard.press("h")
    page.wait_for_url("**asOf=*")
    page.keyboard.press("l")
    page.wait_for_url(f"**/jobs/{scene.retried}")
    page.keyboard.press("/")
    page.keyboard.type(scene.failed)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/jobs/{scene.failed}")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").get_by_role("button", name="Close").click()
    for key in "go":
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_the_search_finds_a_job(screens: Screens, scene: Scene, api: Live) -> None:
    """By the first characters of its id, its key, its correlation id or a label; else it says what to do."""
    job = api.operator().get(f"/v1/jobs/{scene.retried}").json()
    page = screens.open("overview")
    box = page.get_by_role("textbox", name="Search")

    def search(text: str) -> None:
        box.fill(text)
        box.press("Enter")

    search(scene.retried[:12])
    page.wait_for_url(f"**/jobs/{scene.retried}")
    for text, name in ((job["idempotency_key"], "idempotency_key"), (job["correlation_id"], "correlation_id")):
        search(text)
        expect(page.get_by_role("combobox", name="Filter")).to_have_value(f"{name}={text}")
        expect(page.get_by_role("link", name=re.compile("^job_"))).to_have_text([short(scene.retried)])
    search("batch:two")
    expect(page.get_by_role("link", name=short(scene.queued))).to_be_visible()
    for text, fault in (("job_", "No job has"), (f"job_{31 * '0'}", "begins with"), ("job:<b>", "No job has")):
        search(text)
        expect(page.get_by_role("search").get_by_role("alert")).to_contain_text(fault)
    _shows_no_fault_over_another_view(page, lambda: search(scene.retried[:12]))


def _shows_no_fault_over_another_view(page: Page, search: Callable[[], None]) -> None:
    """The request of a search fails after another view was opened."""
    held: list[Route] = []
    page.route("**/v1/jobs?*limit=1000*", lambda route: held.append(route))
    with page.expect_request("**/v1/jobs?*limit=1000*"):
        search()
    page.evaluate("location.hash = '#/incidents'")
    expect(page.get_by_role("heading", name="Incidents")).to_be_visible()
    with page.expect_event("requestfailed"):
        held[0].abort()
    page.unroute("**/v1/jobs?*limit=1000*")
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(page.get_by_role("search").get_by_role("alert")).to_have_count(0)
