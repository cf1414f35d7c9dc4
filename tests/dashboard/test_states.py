"""The page with refused, missing or unreachable data; buttons by rights; phones; and accessibility."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.api.live import Live
from tests.dashboard.scene import Scene
from tests.dashboard.screen import Screens
from tests.jobs import ROOT
from tests.stack.scripted_service import TENANT

pytestmark = pytest.mark.needs("browser")
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"


def test_the_root_leads_here_and_a_token_is_asked_for(screens: Screens, api: Live) -> None:
    page = screens.open(token="")
    page.goto(f"{api.stack.api}/")
    assert page.url.startswith(f"{api.stack.api}/v1/dashboard")
    page.get_by_label("Access token").fill("not-a-token")
    page.get_by_role("button", name="Use this token").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_reader_sees_no_buttons_and_no_other_tenant(screens: Screens, scene: Scene, api: Live) -> None:
    page = screens.open(f"jobs/{scene.queued}", token=api.token(tenant=TENANT, scope="orch:read"))
    expect(page.get_by_role("tab", name="Timeline")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    expect(page.get_by_text("tenant tenant_a").first).to_be_visible()
    page.evaluate("location.hash = '#/jobs'")
    expect(page.get_by_text("Live")).to_be_visible()
    other = screens.open(f"jobs/{scene.queued}", token=api.token(tenant="another"))
    expect(other.get_by_role("alert")).to_contain_text("JOB_NOT_FOUND")


def test_a_missing_scope_is_explained(screens: Screens, api: Live) -> None:
    page = screens.open("quotas", token=api.token(tenant=TENANT, scope="orch:quota"))
    expect(page.get_by_role("alert")).to_contain_text("Your token does not allow this")


def answer(status: int, code: str, **headers: str) -> Any:
    """A handler of a route that refuses each request like this."""
    body = {"code": code, "detail": f"the detail of {code}", "errors": [], "correlation_id": "corr-1"}

    def refuse(route: Route) -> None:
        route.fulfill(status=status, headers=headers, content_type="application/problem+json", body=json.dumps(body))

    return refuse


def test_a_refusal_has_detail_code_and_retry(screens: Screens, scene: Scene) -> None:
    page = screens.open("submit", fresh=True)
    page.route("**/v1/jobs?**", answer(429, "LIMIT_REACHED", **{"Retry-After": "7"}))
    page.get_by_role("link", name="Jobs").click()
    alert = page.get_by_role("alert")
    for text in ("Limit reached", "the detail of LIMIT_REACHED", "7 seconds", "corr-1"):
        expect(alert).to_contain_text(text)
    page.unroute("**/v1/jobs?**")
    page.route("**/v1/jobs?**", answer(503, "LEDGER_UNAVAILABLE"))
    alert.get_by_role("button", name="Retry").click()
    expect(alert).to_contain_text("Temporarily unavailable")
    page.unroute("**/v1/jobs?**")
    alert.get_by_role("button", name="Retry").click()
    expect(page.get_by_role("link", name=scene.retried[:12])).to_be_visible()


def test_a_lost_connection_and_a_gap(screens: Screens, scene: Scene) -> None:
    """The rows stay; the page shows that it reconnects; after a gap the list is read again."""
    page = screens.open(f"jobs?tenant={TENANT}", fresh=True)
    expect(page.get_by_text("Live")).to_be_visible()
    page.route("**/v1/dashboard/events**", lambda route: route.abort())
    expect(page.get_by_text("Reconnecting")).to_be_visible()
    expect(page.get_by_role("link", name=scene.retried[:12])).to_be_visible()
    page.unroute("**/v1/dashboard/events**")
    gap = 'retry: 60000\n\nid: x\nevent: gap\ndata: {"earliest": "x"}\n\n'
    page.route("**/v1/dashboard/events**", lambda route: route.fulfill(content_type="text/event-stream", body=gap))
    with page.expect_request("**/v1/jobs?**"):
        expect(page.get_by_text("Live")).to_be_visible()


JOBS = ("jobs", "jobs/{job}", "jobs/{job}?tab=steps", "jobs/{run}?tab=run")
VIEWS = ("overview", *JOBS, "quotas", "incidents", "submit")


def faults(page: Page) -> list[str]:
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0]['failureSummary']}" for each in found]


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1280)])
def test_every_view_is_accessible_and_fits(screens: Screens, scene: Scene, scheme: Any, width: int) -> None:
    page = screens.open(width=width, color_scheme=scheme, bypass_csp=True)
    page.evaluate(AXE.read_text())
    # a phone has no keyboard: without this button the header has two rows
    expect(page.get_by_role("button", name="Keyboard shortcuts")).to_be_visible(visible=width > 720)
    found = {}
    for view in VIEWS:
        target = view.format(job=scene.retried, run=scene.run)
        page.evaluate("target => { location.hash = `#/${target}` }", target)
        page.get_by_role("heading", level=1).first.wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        assert page.evaluate("document.documentElement.scrollWidth") <= width, view
        found[view] = faults(page)
    assert found == {view: [] for view in VIEWS}


@pytest.mark.long
def test_ten_thousand_jobs_are_a_few_rows_of_the_document(screens: Screens) -> None:
    """To the last row and back, the document has the rows in view and a few more.

    The focus stays in a row that stays, else in the list, also in a browser that moves elements without their focus.
    """

    def jobs(route: Route) -> None:
        line = {"tenant_id": TENANT, "request_type": "OCR", "status": "SUCCEEDED", "current_step_id": None, "seq": 5}
        times = {"labels": {"batch": "one"}, "created_at": "2026-01-27T10:00:00Z", "links": {}}
        lines = [{"jobId": f"job_{number:032x}", **line, **times} for number in range(10_000)]
        route.fulfill(json={"jobs": lines, "next": None, "partial": False})

    page = screens.open("submit", fresh=True)
    page.route("**/v1/jobs?**", jobs)
    page.evaluate("delete Element.prototype.moveBefore")
    page.get_by_role("link", name="Jobs").click()
    rows, listed = page.locator(".vlist-body > .vlist-row"), page.locator(".vlist")
    staying = page.locator('[aria-rowindex="11"]').get_by_role("link")
    staying.focus()
    # more than half of the rows leave in one step
    listed.evaluate("list => { list.scrollTop = 11 * list.querySelector('.vlist-body > *').offsetHeight }")
    expect(page.locator('[aria-rowindex="2"]')).to_have_count(0)
    expect(staying).to_be_focused()
    ends = {True: 9_999, False: 0}
    for end, number in ends.items():
        focused = rows.first.get_by_role("link")
        focused.focus()
        listed.evaluate("(list, end) => { list.scrollTop = end ? list.scrollHeight : 0 }", end)
        # the elements show other rows now: none of them has the focus
        expect(listed).to_be_focused()
        row = page.locator(f'[aria-rowindex="{number + 2}"]')
        expect(row.get_by_role("link", name=f"job_{number:032x}"[:12])).to_be_visible()
        assert rows.count() < 60
