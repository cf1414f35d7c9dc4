"""The page of quotas in a browser over a real stack: limits, dispatch limits, breakers and changes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.api.live import Live
from tests.dashboard.screen import DEADLINE_MS, Screens, act

pytestmark = pytest.mark.needs("browser")
expect.set_options(timeout=DEADLINE_MS)


def set_limits(api: Live, name: str, **limits: Any) -> None:
    """Sets limits of a quota over all tenants."""
    operator = api.operator()
    quota = operator.get("/v1/quotas", params={"name": name}).json()["quotas"][0]
    change = {**limits, "reason": "the capacity of its replicas"}
    match = {"If-Match": quota["etag"]}
    operator.patch(f"/v1/quotas/{quota['id']}", params={"name": name}, json=change, headers=match).raise_for_status()


def test_a_dispatch_limit_shows_no_number_of_waiting_jobs(screens: Screens, api: Live) -> None:
    """The API does not count jobs that wait for a service or lane. An operator can hold the limit."""
    set_limits(api, "service:sis", max_active=1000)
    page = screens.open("quotas")
    row = page.get_by_role("button", name="service:sis")
    expect(row).to_contain_text("1000")
    expect(row).not_to_contain_text("waiting jobs")
    row.click()
    expect(page.get_by_role("button", name="Throttle", exact=True)).to_have_count(0)
    act(page, "Hold", "Hold", "it loads a new model")
    expect(row).to_contain_text("held by")
    act(page, "Resume", "Resume", "it is loaded")
    expect(row).not_to_contain_text("held by")


def test_a_closed_breaker_is_shown_with_the_limits(screens: Screens, api: Live) -> None:
    """Also in the log of changes."""
    set_limits(api, "type:EMBEDDING", breaker={"min_calls": 50})
    breaker = "circuit breaker at 50% failed of at least 50 jobs"
    page = screens.open("quotas")
    row = page.get_by_role("button", name="type:EMBEDDING")
    expect(row).to_contain_text(breaker)
    row.click()
    expect(page.get_by_role("listitem").filter(has_text=f"Limits changed, {breaker}")).to_be_visible()


def test_the_log_of_a_quota_begins_with_the_newest_change(screens: Screens, api: Live) -> None:
    """The API lists the oldest first; the page shows 20 and names the number of all."""
    for limit in range(101, 123):
        set_limits(api, "lane:15", max_active=limit)
    page = screens.open("quotas")
    page.get_by_role("button", name="lane:15").click()
    changes = page.get_by_role("listitem").filter(has_text="Limits changed")
    expect(changes).to_have_count(20)
    expect(changes.first).to_contain_text("at most 122 directives in flight")
    expect(changes.last).to_contain_text("at most 103 directives in flight")
    expect(page.get_by_text("The page shows the newest 20 of 22 changes")).to_be_visible()


def test_a_list_of_quotas_names_its_end(screens: Screens) -> None:
    """Only the first page is shown."""
    page = screens.open("overview", fresh=True)

    def with_more(route: Route) -> None:
        found = route.fetch().json()
        route.fulfill(json=found | {"next": "more"})

    page.route("**/v1/quotas?*", with_more)
    page.goto(page.url.replace("overview", "quotas"))
    expect(page.get_by_text(re.compile(r"The page shows the first \d+ quotas"))).to_be_visible()
