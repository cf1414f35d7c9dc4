"""Sign-in at the stack's own issuer: both redirects, a read-only token, one that expires, and failures."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.api.live import Live
from tests.dashboard.scene import Scene
from tests.dashboard.screen import Screens
from tests.dashboard.test_states import answer
from tests.stack.scripted_service import TENANT

pytestmark = pytest.mark.needs("browser")


def begin(page: Page) -> None:
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Local token issuer").wait_for()


def test_a_reader_signs_in_and_the_token_ends(screens: Screens, scene: Scene, api: Live) -> None:
    """Back at the same URL without the code; nothing is stored; after the token's end the page redirects again."""
    view = f"jobs/{scene.queued}?tab=events"
    # the clock is of a whole context, so the page has its own
    page = screens.open(view, token="", color_scheme="light")
    page.clock.install()
    begin(page)
    page.get_by_role("textbox", name="Tenant").fill(TENANT)
    page.get_by_role("checkbox", name="orch:operate").uncheck()
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("tab", name="Events")).to_be_visible()
    assert page.url == f"{api.stack.api}/v1/dashboard#/{view}"
    assert page.evaluate("[sessionStorage.length, JSON.stringify(localStorage).includes('eyJ')]") == [0, False]
    expect(page.get_by_text(f"tenant {TENANT}").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^(Cancel|Pause)$"))).to_have_count(0)
    expect(page.get_by_role("link", name="Submit")).to_have_count(0)

    page.route("**/v1/jobs**", answer(401, "TOKEN_INVALID"))
    page.clock.fast_forward(120_000)
    page.evaluate("location.hash = '#/jobs'")
    expect(page.get_by_role("alert")).to_have_text("Your sign-in has expired. Sign in again.")
    assert page.url == f"{api.stack.api}/v1/dashboard#/jobs"


def test_a_token_that_is_refused_at_once_makes_no_loop(screens: Screens) -> None:
    """As with a wrong clock: the page shows the reason, and requests no other token by itself."""
    page = screens.open("jobs", token="")
    begin(page)
    page.route("**/v1/jobs**", answer(401, "TOKEN_INVALID"))
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("The app refused the token: the detail of TOKEN_INVALID")


def test_failures_on_the_way_are_shown(screens: Screens, api: Live) -> None:
    """The user cancels; a code comes from elsewhere, or with another state; the issuer is away."""
    page = screens.open("jobs", token="")
    begin(page)
    page.get_by_role("button", name="Cancel").click()
    alert = page.get_by_role("alert")
    expect(alert).to_have_text(f"{api.stack.issuer} refused the sign-in: access_denied")
    code = f"#code=c&state=s&iss={api.stack.issuer}"
    for stored, text in (("null", "started in another tab"), ('{"state": "mine", "hash": "#/jobs"}', '"state"')):
        page.evaluate("args => { [sessionStorage['lucius.sign-in'], location.hash] = args }", [stored, code])
        page.reload()
        expect(alert).to_contain_text(text)
    page.route("**/.well-known/**", lambda route: route.abort())
    page.get_by_role("button", name="Sign in").click()
    expect(alert).to_contain_text(f"{api.stack.issuer} does not respond")
