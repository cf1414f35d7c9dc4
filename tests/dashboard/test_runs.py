"""A run on the dashboard: its log while it grows, its end and its artifacts; and the page of the docs that reads it."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from azure.storage.blob import BlobClient
from playwright.sync_api import Page, Route, expect

from tests.api.live import Live
from tests.dashboard.scene import PACK, Scene, log_of, submit
from tests.dashboard.screen import DEADLINE_MS, Screens
from tests.lucius_client.cli.test_docs import block
from tests.stack.scripted_service import TENANT, ScriptedService

pytestmark = pytest.mark.needs("browser")
expect.set_options(timeout=DEADLINE_MS)


def test_a_log_is_shown_while_it_grows(screens: Screens, scene: Scene, api: Live) -> None:
    """Markup in it stays text. A new attempt replaces the previous one, which can be opened again.

    When the run ends, its artifacts are listed, and a name links to the content.
    """
    job_id = submit(api, request_type="PACK_RUN", payload=PACK, doc_id="shown")
    page = screens.open(f"jobs/{job_id}?tab=run")
    shown = page.get_by_role("log")
    expect(shown).to_have_text("Waiting for output.")
    expect(page.get_by_text("No artifacts")).to_be_visible()
    log = log_of(api, job_id)
    log.append_block("<b>first</b>\u2028\n".encode())
    expect(shown).to_have_text("<b>first</b>\u2028\n")
    log.append_block(b"second\n")
    expect(shown).to_have_text("<b>first</b>\u2028\nsecond\n")
    with ScriptedService(api.stack.bus_connection, "packs") as runner:
        first = runner.directive(job_id)
        runner.reply(first, "ACK")
        error = {"code": "BUSY", "message": "later"}
        runner.reply(first, "RESULT", status="FAILED_RETRY", error=error, result_ref=None)
        directive = runner.directive(job_id)
        runner.reply(directive, "ACK")
        log = log_of(api, job_id, 2)
        log.append_block(b"again\n")
        expect(shown).to_have_text("again\n")
        page.get_by_role("button", name="Attempt 1").click()
        expect(shown).to_have_text("<b>first</b>\u2028\nsecond\n")
        expect(page.get_by_text("complete", exact=True)).to_be_visible()
        assert "attempt=1" in page.url
        page.get_by_role("button", name="Attempt 2").click()
        name = f"{TENANT}/{job_id}/2/report.txt"
        with BlobClient.from_connection_string(api.stack.storage_connection, "runs", name) as artifact:
            artifact.upload_blob(b"the report")
        log.append_block(b"last\n")
        runner.reply(directive, "RESULT")
    expect(page.get_by_text("complete", exact=True)).to_be_visible()
    expect(shown).to_have_text("again\nlast\n")
    with page.expect_download() as downloading:
        page.get_by_role("button", name="report.txt").click()
    assert downloading.value.path().read_bytes() == b"the report"
    assert downloading.value.suggested_filename == "report.txt"
    _shows_a_long_log_that_ended(page)
    _shows_the_log_in_the_page_of_the_docs(page, api, job_id)


def _shows_a_long_log_that_ended(page: Page) -> None:
    """Shows a full response at once, a shorter one after `retry`. An error is shown alone."""
    held: list[Route] = []
    page.route("**/logs?*", lambda route: held.append(route))
    shown = page.get_by_role("log")
    with page.expect_request("**/logs?*"):
        page.get_by_role("button", name="Attempt 1").click()
    expect(shown).to_have_text("Loading")
    expect(page.get_by_text("live", exact=True)).to_have_count(0)
    held.pop().abort()
    expect(page.get_by_role("alert")).to_contain_text("No connection")
    expect(shown).to_have_text("")

    def answer(route: Route) -> None:
        held.append(route)
        text = "x" * 512 * 1024 if len(held) == 1 else "the rest"
        data = json.dumps({"attempt": 1, "offset": 0, "text": text})
        body = f"retry: 600000\n\nid: 1.{len(held)}\ndata: {data}\n\n"
        route.fulfill(content_type="text/event-stream", body=body)

    page.unroute("**/logs?*")
    page.route("**/logs?*", answer)
    page.get_by_role("button", name="Retry").click()
    expect(shown).to_contain_text("the rest")
    page.unroute("**/logs?*")
    page.get_by_role("button", name="Attempt 2").click()
    assert [parse_qs(urlsplit(each.request.url).query)["after"] for each in held] == [["1.0"], ["1.1"]]


def _shows_the_log_in_the_page_of_the_docs(page: Page, api: Live, job_id: str) -> None:
    text = block("guides/runs.md", "page", "html", api.stack)
    token = api.token(tenant=TENANT)
    for example, real in (("https://lucius.example.com", api.stack.api), ("JOB_ID", job_id), ("TOKEN", token)):
        assert text.count(f'"{example}"') == 1
        text = text.replace(f'"{example}"', json.dumps(real))
    own = page.context.new_page()
    own.route("**/own-page", lambda route: route.fulfill(body=text, content_type="text/html"))
    own.goto(f"{api.stack.api}/own-page")
    expect(own).to_have_title("SUCCEEDED")
    assert own.locator("#log").text_content() == "<b>first</b>\u2028\nsecond\nagain\nlast\n"
    own.close()


def test_a_job_that_is_no_run_has_no_such_tab(screens: Screens, scene: Scene) -> None:
    page = screens.open(f"jobs/{scene.retried}?tab=run")
    expect(page.get_by_role("tab", name="Timeline")).to_be_visible()
    expect(page.get_by_role("tab", name="Run")).to_have_count(0)
    expect(page.get_by_role("tab", name="Timeline")).to_have_attribute("aria-selected", "true")
