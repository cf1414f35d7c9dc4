"""`make screenshots`: the pictures of docs/guides/dashboard.md, of a stack whose services are played."""

from __future__ import annotations

import io
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests import machine, running_stack
from tests.api import live
from tests.jobs import ROOT
from tests.running_stack import RunningStack
from tests.stack.scripted_service import ScriptedService
from tests.waiting import wait_until

IMAGES = ROOT / "docs" / "images"
#: on the lane of the scripted service
TENANT = "contoso"
OCR_ERROR = {"code": "BUSY", "message": "all workers are busy"}
FATAL = {"code": "ATTEMPTS_EXHAUSTED", "message": "no worker took the document within its three attempts"}


class Stage:
    """A stack without tokens, and the three services."""

    def __init__(self, stack: RunningStack, services: dict[str, ScriptedService]) -> None:
        self.http: httpx.Client = stack.http
        self._services = services

    def submit(self, request_type: str = "OCR_EMBEDDING_SIS", tenant: str = TENANT, **changes: Any) -> str:
        storage = "https://contoso.blob.core.windows.net"
        body = live.envelope(
            tenant_id=tenant,
            request_type=request_type,
            input_ref={"uri": f"{storage}/documents/lease-4711.pdf"},
            output_ref={"uri": f"{storage}/results"},
            payload={"sis": {"prompt_set": ["When does the lease end?"]}} if "SIS" in request_type else {},
            idempotency_key=str(uuid.uuid4()),
            **changes,
        )
        return str(self.http.post("/v1/orchestrate", json=body).raise_for_status().json()["jobId"])

    def work(self, step: str, job_id: str, seconds: float, **fields: Any) -> dict[str, Any]:
        """One attempt: an ACK after a while, and a RESULT after `seconds`."""
        service = self._services[step]
        directive = service.directive(job_id)
        time.sleep(0.15)
        service.reply(directive, "ACK")
        time.sleep(seconds)
        service.reply(directive, "RESULT", **fields)
        return directive

    def fail(self, job_id: str, error: dict[str, str], status: str = "FAILED_FINAL") -> dict[str, Any]:
        return self.work("ocr", job_id, 0.4, status=status, error=error, result_ref=None)

    def late(self, directive: dict[str, Any]) -> None:
        """The RESULT of an attempt whose place another one has taken."""
        self._services["ocr"].reply(directive, "RESULT")


def play(stage: Stage) -> str:
    """Plays what the pictures show. Returns the id of the job with a retry and a late reply."""
    for number in range(8):
        job_id = stage.submit("OCR", labels={"batch": "leases", "source": f"scanner-{number % 3}"})
        stage.work("ocr", job_id, 0.1, metrics={"pages": 12})
    for _ in range(2):
        stage.fail(stage.submit("OCR", labels={"batch": "invoices"}), FATAL)
    shown = stage.submit(labels={"batch": "leases", "team": "contracts"}, priority="high", doc_id="lease-4711")
    first = stage.fail(shown, OCR_ERROR, "FAILED_RETRY")
    wait_until(lambda: len(stage.http.get(f"/v1/jobs/{shown}/events").json()["events"]) >= 5, "no second attempt")
    stage.late(first)
    stage.work("ocr", shown, 1.4, metrics={"pages": 12, "characters": 18423})
    stage.work("embedding", shown, 0.35, metrics={"chunks": 42})
    stage.work("sis", shown, 0.6, metrics={"questions": 1, "answered": 1})
    limits = {"fabrikam": 2, "northwind": 4}
    for tenant, most in limits.items():
        quota = stage.http.get("/v1/quotas", params={"tenant": tenant}).json()["quotas"][0]
        change, match = {"max_active": most, "reason": "the contract of 2026"}, {"If-Match": quota["etag"]}
        path = f"/v1/quotas/{quota['id']}"
        stage.http.patch(path, params={"tenant": tenant}, json=change, headers=match).raise_for_status()
        for number in range(5):
            stage.submit("OCR", tenant=tenant, labels={"batch": "archive"}, priority=["normal", "high"][number % 2])
    wait_until(lambda: stage.http.get(f"/v1/jobs/{shown}").json()["status"] == "SUCCEEDED", "the job did not succeed")
    # the sweeper counts jobs, lanes and the ends of each minute
    stage.http.post("/v1/admin/reconcile", json={}).raise_for_status()
    wait_until(lambda: stage.http.get("/v1/dashboard/metrics").json()["last_hour"], "no minute was written")
    return shown


@contextmanager
def stage(folder: Path) -> Iterator[tuple[RunningStack, Stage]]:
    environment = {**live.ENVIRONMENT, "LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.6"}
    stack = running_stack.start(folder, "--without-services", environment=environment)
    try:
        with ExitStack() as opened:
            names = ("ocr", "embedding", "sis")
            services = {name: opened.enter_context(ScriptedService(stack.bus_connection, name)) for name in names}
            yield stack, Stage(stack, services)
    finally:
        stack.stop()


def take(
    browser: Browser, base: str, name: str, path: str, scheme: Any, *, width: int = 1280, height: int = 800
) -> None:
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(f"{base}/v1/dashboard#/{path}")
    page.get_by_role("heading", level=1).wait_for()
    page.locator(".skeleton").first.wait_for(state="detached")
    if name == "submit":
        page.get_by_role("button", name="invoice.png").click()
    page.wait_for_timeout(1500)  # the reasons why jobs wait come one by one
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(IMAGES / f"dashboard-{name}-{scheme}.png", optimize=True)
    page.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        stage(Path(folder)) as (stack, played),
        sync_playwright() as playwright,
    ):
        shown = play(played)
        quota = stack.get("/v1/quotas", tenant="fabrikam")["quotas"][0]["id"]
        pictures = {
            "job": f"jobs/{shown}",
            "jobs": "jobs",
            "overview": "overview",
            "quotas": f"quotas?tenant=fabrikam&quota={quota}",
            "incidents": "incidents",
            "submit": "submit?type=OCR",
        }
        browser = playwright.chromium.launch(executable_path=machine.path_of("browser"))
        for scheme in ("light", "dark"):
            for name, path in pictures.items():
                take(browser, stack.api, name, path, scheme, height={"job": 640, "overview": 1160}.get(name, 800))
            take(browser, stack.api, "phone", f"jobs/{shown}", scheme, width=360, height=740)
        browser.close()


if __name__ == "__main__":
    main()
