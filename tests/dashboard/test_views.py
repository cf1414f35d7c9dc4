"""Each view in a browser over a real stack: it opens, shows its facts, and its actions work."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from shared.api.dashboard import dashboard_metrics
from shared.core.overview.overview import Overview, Service
from shared.dashboard_assets import dashboard
from tests.api.live import Live
from tests.dashboard.scene import SCRIPT, Scene, submit
from tests.dashboard.screen import DEADLINE_MS, Screens, act, short
from tests.stack.scripted_service import TENANT

pytestmark = pytest.mark.needs("browser")
expect.set_options(timeout=DEADLINE_MS)


_SHOWN = """state => {
    Object.defineProperty(document, "visibilityState", { configurable: true, value: state });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def hide(page: Page, state: str) -> None:
    """As if another tab were chosen, or this one again."""
    page.evaluate(_SHOWN, state)


def test_jobs_are_listed_with_the_reason_why_they_wait(screens: Screens, scene: Scene) -> None:
    """The filters of living jobs have counts, unless the list is filtered by more than states and a tenant."""
    page = screens.open(f"jobs?tenant={scene.throttled_tenant}&filter=status%3DTHROTTLED")
    rows = page.get_by_role("row").filter(has_text="Throttled")
    expect(rows).to_have_count(2)
    expect(rows.first.get_by_text("the quota of tenant")).to_be_visible()
    filters = page.get_by_role("group", name="Filters")
    expect(filters.get_by_role("button", name="Waiting")).to_have_text("Waiting 3")
    filters.get_by_role("button", name="In progress").click()
    expect(page.get_by_text("No matching jobs")).to_be_visible()
    expect(filters.get_by_role("button")).to_have_text(
        ["All", "Not ended 3", "Waiting 3", "In progress 0", "Failed", "Succeeded"]
    )
    expect(filters.get_by_role("button", name="Waiting")).to_have_accessible_description(
        re.compile("^(Statuses as of|No sweep) ")
    )
    expect(filters.get_by_role("button", name="All")).to_have_accessible_description("")
    box = page.get_by_role("combobox", name="Filter")
    box.fill("status=THROTTLED label=batch:one")
    box.press("Enter")
    expect(filters.get_by_role("button", name="Waiting")).to_have_text("Waiting")
    expect(page.get_by_text("Live")).to_be_visible()


def test_a_new_job_appears_by_itself(screens: Screens, scene: Scene, api: Live) -> None:
    page = screens.open(f"jobs?tenant={TENANT}")
    expect(page.get_by_role("link", name=short(scene.retried))).to_be_visible()
    expect(page.get_by_text("Live")).to_be_visible()
    new = submit(api)
    expect(page.get_by_role("link", name=short(new))).to_be_visible()


def test_the_filter_is_in_the_url_and_helps_to_write_it(screens: Screens, scene: Scene) -> None:
    page = screens.open("jobs")
    box = page.get_by_role("combobox", name="Filter")
    box.fill("stat")
    page.get_by_role("option", name="status=").click()
    box.press_sequentially("FAILED")
    page.get_by_role("option", name="status=FAILED_FINAL").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=short(scene.failed)))
    expect(row).to_contain_text(re.compile(r"after [\d.]+ s.*ATTEMPTS_EXHAUSTED"))
    expect(page.get_by_role("link", name=short(scene.retried))).to_have_count(0)
    assert "filter=status%3DFAILED_FINAL" in page.url
    box.fill("colour=red")
    box.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("“colour=red” is not a filter")


def test_a_job_shows_its_attempts_and_the_late_reply(screens: Screens, scene: Scene) -> None:
    page = screens.open(f"jobs/{scene.retried}")
    timeline = page.get_by_role("table", name="Timeline of the job")
    expect(timeline.get_by_role("rowheader", name=re.compile("^ocr"))).to_have_count(2)
    expect(timeline.get_by_role("img", name=re.compile("RESULT of ocr attempt 1 ignored"))).to_be_visible()
    expect(timeline.get_by_text("BUSY")).to_be_visible()
    expect(page.get_by_text("after 2 attempts")).to_be_visible()


def test_the_bars_have_the_numbers_of_the_receipt(screens: Screens, scene: Scene, api: Live) -> None:
    """The page computes the time of each use from the events, by the rules of the receipt."""
    operator = api.operator()
    page = screens.open("jobs")
    spans = next(name for name in dashboard().assets if name.startswith("parts-spans"))
    for job_id in (scene.retried, scene.failed, scene.throttled[0]):
        job, events, receipt = (operator.get(f"/v1/jobs/{job_id}{path}").json() for path in ("", "/events", "/receipt"))
        drawn = page.evaluate(
            """async ([url, steps, events, until]) => {
                const { timelineOf } = await import(url);
                const sums = {};
                for (const row of timelineOf(steps, events, until).rows)
                    for (const { use, from, to } of row.spans) sums[`${use}_s`] = (sums[`${use}_s`] ?? 0) + to - from;
                return sums;
            }""",
            [f"{api.stack.api}/v1/dashboard/assets/{spans}", job["steps"], events["events"], receipt["until"]],
        )
        expected = {name: value for name, value in receipt["total"].items() if value >= 0.002}
        assert {name: pytest.approx(value, abs=0.005) for name, value in expected.items()} == {
            name: value for name, value in drawn.items() if name in expected
        }, job_id


def test_a_job_as_it_was(screens: Screens, scene: Scene) -> None:
    page = screens.open(f"jobs/{scene.retried}", fresh=True)
    slider = page.get_by_role("slider")
    slider.fill("3")
    expect(page.get_by_text("The job as of event 3")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("In progress")
    assert "asOf=3" in page.url
    page.reload()
    page.get_by_label("Access token").wait_for()


def test_the_tabs_of_a_job(screens: Screens, scene: Scene) -> None:
    page = screens.open(f"jobs/{scene.retried}?tab=events")
    page.get_by_role("button", name="RESULT").last.click()
    expect(page.get_by_text('"prev_hash"')).to_be_visible()
    page.get_by_role("tab", name="Steps").click()
    expect(page.get_by_text("pages 4")).to_be_visible()
    page.get_by_role("tab", name="Request").click()
    expect(page.get_by_text("invoice-1")).to_be_visible()
    page.get_by_role("tab", name="Audit").click()
    expect(page.get_by_text("Complete hash chain")).to_be_visible()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download the bundle").click()
    assert json.loads(started.value.path().read_text())["job"]["job_id"] == scene.retried


def test_the_controls_of_a_job(screens: Screens, scene: Scene, api: Live) -> None:
    """Each action but Admit; the reason is in the job's history, and the page leads to the new job."""
    job_id = submit(api, labels={"batch": "controls"})
    page = screens.open(f"jobs/{job_id}")
    act(page, "Pause", "Pause job", SCRIPT)
    act(page, "Resume", "Resume job")
    act(page, "Cancel", "Cancel job")
    expect(page.locator(".facts")).to_contain_text("Cancel")
    events = api.operator().get(f"/v1/jobs/{job_id}/events").json()["events"]
    assert next(each["reason"] for each in events if each["type"] == "PAUSE_REQUESTED") == SCRIPT
    page.goto(f"{api.stack.api}/v1/dashboard#/jobs/{scene.failed}")
    act(page, "Redrive", "Redrive job")
    expect(page.get_by_text("Redrive of")).to_be_visible()
    page.get_by_role("link", name=short(scene.failed)).click()
    expect(page.get_by_text("Redriven by")).to_be_visible()
    page.goto(f"{api.stack.api}/v1/dashboard#/jobs/{scene.retried}")
    act(page, "Replay", "Replay job")
    expect(page.get_by_text("Replay of")).to_be_visible()
    page.goto(f"{api.stack.api}/v1/dashboard#/jobs/{scene.throttled[1]}")
    page.get_by_role("button", name="Priority").click()
    page.get_by_role("dialog").get_by_label("Priority").select_option("high")
    page.get_by_role("dialog").get_by_label("Reason").fill("an audit")
    page.get_by_role("button", name="Change priority").click()
    expect(page.locator(".facts")).to_contain_text("priority high")


def test_many_jobs_at_once(screens: Screens, api: Live) -> None:
    """The dry run counts them before the action; without a reason there is none."""
    jobs = [submit(api, labels={"batch": "many"}) for _ in range(2)]
    page = screens.open(f"jobs?tenant={TENANT}&filter=label%3Dbatch:many")
    page.get_by_role("button", name="Cancel", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("2 jobs match now")
    expect(dialog.get_by_role("button", name="Cancel", exact=True)).to_be_disabled()
    dialog.get_by_label("Reason").fill("a wrong batch")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="of 2 jobs")).to_contain_text("Ended")
    operator = api.operator()
    assert {operator.get(f"/v1/jobs/{each}").json()["status"] for each in jobs} <= {"CANCELLING", "CANCELLED"}


def test_a_hidden_tab_makes_no_requests(screens: Screens, scene: Scene, api: Live) -> None:
    """An open overview makes 12 a minute; when the tab is shown again, it loads its data at once."""
    # the clock is of a whole context, so the page has its own
    page = screens.open(token="", color_scheme="light")
    page.clock.install()
    page.reload()
    page.get_by_label("Access token").fill(api.token(roles="orch:all-tenants"))
    page.get_by_role("button", name="Use this token").click()
    sent: list[str] = []
    page.on("request", lambda request: sent.append(urlsplit(request.url).path))
    views = [
        "overview",
        f"jobs?tenant={TENANT}",
        f"jobs/{scene.queued}",
        f"jobs/{scene.run}?tab=run",
        "quotas",
        "incidents",
    ]
    for view in views:
        page.evaluate("view => { location.hash = `#/${view}` }", view)
        page.get_by_role("heading", level=1).first.wait_for()
        page.locator(".skeleton").first.wait_for(state="detached")
        hide(page, "hidden")
        sent.clear()
        page.clock.run_for(60_000)
        assert sent == [], view
        expect(page.get_by_text("Paused" if "jobs" in view else "Polling")).to_be_visible()
        if view.startswith("jobs?"):
            # an event just before the tab is hidden again
            page.evaluate(f"['visible', 'hidden'].forEach({_SHOWN})")
            page.clock.run_for(1_000)
            assert "/v1/jobs" not in sent
        with page.expect_request("**/v1/**"):
            hide(page, "visible")
    page.evaluate("location.hash = '#/overview'")
    page.get_by_role("heading", name="Services").wait_for()
    sent.clear()
    for _ in range(12):
        with page.expect_response("**/v1/dashboard/metrics"):
            page.clock.run_for(5_000)
    assert sent == ["/v1/dashboard/metrics"] * 12


def test_the_overview_names_the_fault(screens: Screens, scene: Scene) -> None:
    page = screens.open("overview")
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    expect(page.locator(".problem").first).to_be_visible()
    expect(page.locator(".tile", has_text="Throttled")).to_contain_text(re.compile(r"\d"))
    expect(page.get_by_role("listitem", name=re.compile("^lane 15:"))).to_be_visible()


def test_a_quota_is_changed_after_its_dry_run(screens: Screens, scene: Scene, api: Live) -> None:
    page = screens.open(f"quotas?tenant={scene.throttled_tenant}")
    page.get_by_role("button", name=f"tenant {scene.throttled_tenant}").click()
    expect(page.get_by_role("link", name=short(scene.throttled[0]))).to_be_visible()
    act(page, "Hold", "Hold", SCRIPT)
    expect(page.get_by_text(SCRIPT).first).to_be_visible()
    act(page, "Resume", "Resume", "it goes on")
    page.get_by_role("button", name="Change limits").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Maximum active jobs").fill("3")
    expect(dialog).to_contain_text("2 waiting jobs start with these limits")
    dialog.get_by_label("Reason").fill("a larger contract")
    dialog.get_by_role("button", name="Change limits").click()
    expect(page.get_by_text("No job waits for this quota")).to_be_visible()


def test_incidents_and_their_neighbours(screens: Screens, scene: Scene) -> None:
    page = screens.open("incidents/inc_job_0")
    expect(page.get_by_role("alert")).to_contain_text("Not found")
    page.get_by_role("link", name="All incidents").click()
    incident = page.get_by_role("article").filter(has_text=short(scene.failed))
    expect(incident).to_contain_text("open")
    page.evaluate("id => { location.hash = `#/incidents/${id}` }", scene.incident)
    expect(page.get_by_role("article")).to_have_count(1)
    expect(incident).to_contain_text("open")
    page.get_by_role("button", name="Rejected").click()
    page.get_by_role("button", name="Preview").first.click()
    expect(page.get_by_text("Expected result of a redrive:")).to_be_visible()
    page.get_by_role("button", name="Webhooks").click()
    expect(page.get_by_text("Choose a tenant")).to_be_visible()
    page.get_by_role("button", name="Dead letters").click()
    expect(page.get_by_text("ATTEMPTS_EXHAUSTED").or_(page.get_by_text("No dead letters")).first).to_be_visible()


def test_a_message_is_redriven_and_a_webhook_tested(screens: Screens, scene: Scene, api: Live) -> None:
    """A refusal stays in the dialog, and the result of a test event is shown next to its button."""
    page = screens.open("incidents?tab=rejected")
    page.get_by_role("button", name="Preview").first.click()
    page.get_by_role("button", name="Redrive message").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Redrive message").click()
    expect(dialog.get_by_role("alert")).to_contain_text("STILL_NOT_APPLICABLE")
    dialog.get_by_role("button", name="Close").click()

    hook = {"url": "https://hooks.example.com", "filter": {"types": ["job.canceled"]}, "description": SCRIPT}
    api.client(tenant=TENANT).post("/v1/webhooks", json=hook).raise_for_status()
    page.evaluate(f"location.hash = '#/incidents?tab=webhooks&tenant={TENANT}'")
    webhook = page.get_by_role("article").filter(has_text="hooks.example.com")
    expect(webhook).to_contain_text(SCRIPT)
    webhook.get_by_role("button", name="Test").click()
    dialog.get_by_role("button", name="Test").click()
    dialog.wait_for(state="detached")
    expect(webhook.get_by_role("status")).to_contain_text("Not delivered: ")


def test_a_form_submits_a_job(screens: Screens, scene: Scene) -> None:
    page = screens.open(f"submit?tenant={TENANT}&type=OCR")
    page.get_by_label("input_ref").fill("https://example.com/a.pdf")
    page.get_by_label("output_ref").fill("https://example.com/a.json")
    expect(page.get_by_text("The job can start immediately.")).to_be_visible()
    expect(page.get_by_text("Lane 15")).to_be_visible()
    page.get_by_role("button", name="Submit the job").click()
    page.wait_for_url(re.compile(r"#/jobs/job_"))


def test_hostile_text_stays_text(screens: Screens, scene: Scene, api: Live) -> None:
    """In the lists and in each tab of the job; nothing is executed, and the layout holds."""
    page = screens.open("overview")
    tabs = (f"jobs/{scene.failed}?tab={tab}" for tab in ("events", "steps", "request"))
    for path in ("jobs", f"jobs/{scene.failed}", *tabs, "incidents"):
        page.evaluate("path => { location.hash = `#/${path}` }", path)
        page.get_by_text("<script>").first.wait_for()
        assert "hacked" not in page.title()
        assert page.evaluate("document.querySelectorAll('main script, main img').length") == 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.evaluate("getComputedStyle(document.body).direction") == "ltr"


def test_a_request_can_be_copied_as_curl(screens: Screens, scene: Scene, api: Live) -> None:
    page = screens.open(f"jobs/{scene.retried}?asOf=3")
    page.get_by_text("The job as of event 3").wait_for()
    curl = f"curl -s '{api.stack.api}/v1/jobs/{scene.retried}?asOf=3' -H \"Authorization: Bearer $TOKEN\""
    assert page.get_by_role("button", name="Copy as curl").first.get_attribute("title") == curl


def test_the_drill(screens: Screens, scene: Scene, api: Live) -> None:
    """A service is stopped. In at most three clicks: the service, the time, the waiting jobs, the next event."""
    now = datetime.now(UTC)
    silent = Service(
        name="ocr", answered_at=now - timedelta(minutes=6), silent_since=now - timedelta(minutes=1), waiting=2
    )
    overview = Overview(at=now, tenant=None, swept_at=now, active=Counter(QUEUED=2), services=[silent])
    body = dashboard_metrics(overview, None, {}, 16).model_dump_json()
    page = screens.open("jobs", fresh=True)
    page.route("**/v1/dashboard/metrics", lambda route: route.fulfill(content_type="application/json", body=body))
    page.get_by_role("link", name="Overview").click()

    problem = page.locator(".problem").first
    expect(problem).to_contain_text("ocr: no reply for 6 minutes, 2 directives wait.")
    expect(problem.get_by_role("time")).to_have_attribute("datetime", json.loads(body)["health"]["since"])
    expect(problem).to_contain_text("wait until the service replies, or fail at their time limit.")
    problem.get_by_role("link", name="Active jobs").click()
    page.get_by_role("link", name=short(scene.queued)).click()
    expect(page.locator(".summary")).to_contain_text(re.compile(r"^Waits for .*ocr.*Until \d{4}-"))
