"""`/v1/docs` in a browser, and the first steps of docs/reference/api.md, typed one after another."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import sync_playwright

from scripts.generate.quickstart import commands
from shared.apidocs.docs_page import SCRIPT
from tests import machine
from tests.api.live import Live
from tests.jobs import ROOT
from tests.stack.scripted_service import ScriptedService
from tests.waiting import wait_until

#: maximum on a busy machine
DEADLINE_S = 120


@pytest.mark.needs("browser")
def test_a_browser_shows_every_resource_from_this_host_alone(api: Live) -> None:
    """The policy blocks nothing. A link to an operation shows its curl command, in the dark mode of the system."""
    complaints: list[str] = []
    requests: list[str] = []
    document = api.stack.http.get("/v1/openapi.json").json()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=machine.path_of("browser"), timeout=DEADLINE_S * 1000)
        page = browser.new_page(color_scheme="dark")
        page.set_default_timeout(DEADLINE_S * 1000)
        page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{api.stack.api}/v1/docs#tag/quotas/PATCH/v1/quotas/{{gate}}")
        page.get_by_text("curl 'https://lucius.example/base/v1/quotas/{gate}").first.wait_for()
        for tag in document["tags"]:
            page.get_by_role("complementary").get_by_role("link", name=tag["x-displayName"], exact=True).wait_for()
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.get_by_role("button", name="Search").first.click()
        page.keyboard.type("deliveries")
        page.get_by_role("option").filter(has_text="/v1/webhooks/{hookId}/deliveries").first.wait_for()
        browser.close()
    assert complaints == []
    assert {urlsplit(each).path for each in requests} == {"/v1/docs", f"/v1/docs/{SCRIPT}", "/v1/openapi.json"}
    assert {each.partition("/v1/")[0] for each in requests} == {api.stack.api}
    assert max(map(int, re.findall(r"\d+", background))) < 64


def test_without_scripts_it_leads_to_what_can_be_read(api: Live) -> None:
    page = api.stack.http.get("/v1/docs").raise_for_status()
    links = re.findall(r'href="([^"]+)"', page.text)
    targets = [urljoin("/v1/docs", link) for link in links]
    assert targets == ["/v1/openapi.json", "/v1/problems"]
    assert [api.stack.http.get(each).status_code for each in targets] == [200, 200]


@pytest.mark.needs("curl")
def test_the_first_steps_work_as_they_are_typed(api: Live, tmp_path: Path) -> None:
    """A token, a document submitted and watched to its end, the same by curl, and proper refusals.

    With the real service: `tests/stack/test_readme.py`.
    """
    stack = api.stack
    typed = [command for _, command in commands(stack.api, stack.issuer, stack.blob)]
    assert typed.pop(0) == "make up AUTH=1"
    environment = {
        **os.environ,
        "LUCIUS_API": stack.api,
        "LUCIUS_ISSUER": stack.issuer,
        "LUCIUS_BLOB_CONNECTION": stack.storage_connection,
        "LUCIUS_SERVICEBUS_CONNECTION": stack.bus_connection,
        "LUCIUS_CONFIG_DIR": str(tmp_path),
    }
    script = "\n".join(f"cd {ROOT}\n{command}\necho; echo -----" for command in typed).replace(
        "/tmp/answer.txt", f"{tmp_path}/answer"
    )
    stack.put_small_invoice()
    with succeeding_service(stack.bus_connection):
        done = subprocess.run(
            ["sh", "-ec", script], env=environment, capture_output=True, text=True, timeout=170, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        parts = [part.strip() for part in done.stdout.split("-----")[:-1]]
        login, watched, token, submitted, job, explained, refused, forbidden = parts
        assert ended(api, json.loads(job)["jobId"]) == "SUCCEEDED"
    assert "tenant_a" in login
    assert "SUCCEEDED" in watched
    assert token == ""
    assert submitted.startswith("HTTP/1.1 202")
    assert '"tenant_id": "tenant_a"' in job
    assert '"waits_for"' in explained
    assert refused.startswith("HTTP/1.1 401")
    assert "TENANT_FORBIDDEN" in forbidden


@contextmanager
def succeeding_service(bus_connection: str) -> Iterator[None]:
    """Replies to every directive of the tenant that its step is done."""
    over = threading.Event()

    def reply(service: ScriptedService) -> None:
        while not over.is_set():
            for directive in service.directives():
                service.reply(directive, "ACK")
                service.reply(directive, "RESULT")

    with ScriptedService(bus_connection) as service:
        replying = threading.Thread(target=reply, args=(service,))
        replying.start()
        try:
            yield
        finally:
            over.set()
            replying.join(timeout=60)


def ended(api: Live, job_id: str) -> str:
    """The status of the job once it has ended."""
    client = api.client(tenant="tenant_a")
    job = wait_until(
        lambda: job if (job := client.get(f"/v1/jobs/{job_id}").json())["completed_at"] else None, f"{job_id} goes on"
    )
    return str(job["status"])
