"""`make screenshots`: the pictures of docs/guides/dashboard.md, of a stack with scripted services."""

from __future__ import annotations

import asyncio
import io
import math
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from azure.storage.blob import ContainerClient
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.minutes import TablesMinutes
from shared.core.overview.minutes import MINUTE, MinuteCounts, minute_of
from tests import machine, running_stack
from tests.api import live
from tests.dashboard.scene import log_in
from tests.jobs import ROOT
from tests.running_stack import RunningStack
from tests.stack.scripted_service import ScriptedService
from tests.waiting import wait_until

IMAGES = ROOT / "docs" / "images"
#: on the lane of the scripted service
TENANT = "contoso"
OCR_ERROR = {"code": "BUSY", "message": "all workers are busy"}
FATAL = {"code": "DOCUMENT_ENCRYPTED", "message": "the PDF asks for a password"}
LOST = {"code": "ATTEMPTS_EXHAUSTED", "message": "no worker took the document within its three attempts"}
PACK = {
    "packId": "lease-report",
    "packVersion": "2.1.0",
    "planHash": f"sha256:{'4f' * 32}",
    "inputs": {"year": 2026},
    # no heartbeat follows while the pictures are taken
    "heartbeatCadence": 300,
}
LOG = """[runner] attempt 1 of {job_id}: pack lease-report 2.1.0 on worker-2
48 leases of 2026, 3 without an end
page  1 of 12  12 leases  0.8 s
page  2 of 12  11 leases  0.7 s
lease-4711: two end dates, 2027-03-31 is in the signed copy
page  3 of 12  14 leases  1.1 s
page  4 of 12  11 leases  0.9 s
lease-4802: no end date, listed in open-questions.csv
lease-4815: no end date, listed in open-questions.csv
lease-4823: no end date, listed in open-questions.csv
chart of ends by quarter: 4 quarters, 45 leases
report.pdf: 9 pages
[runner] the program ended with exit code 0
[runner] artifact ends-by-quarter.png: 18,412 bytes
[runner] artifact open-questions.csv: 312 bytes
[runner] artifact report.pdf: 241,664 bytes
"""
ARTIFACTS = {"ends-by-quarter.png": 18_412, "open-questions.csv": 312, "report.pdf": 241_664}


class Stage:
    """A stack without tokens, and the three services."""

    def __init__(self, stack: RunningStack, services: dict[str, ScriptedService]) -> None:
        self.stack = stack
        self.http: httpx.Client = stack.http
        self._services = services

    def submit(self, request_type: str = "OCR_EMBEDDING_SIS", tenant: str = TENANT, **changes: Any) -> str:
        storage = "https://contoso.blob.core.windows.net"
        body = live.envelope(
            tenant_id=tenant,
            request_type=request_type,
            input_ref={"uri": f"{storage}/documents/lease-4711.pdf"},
            output_ref={"uri": f"{storage}/results"},
            idempotency_key=str(uuid.uuid4()),
            **{"payload": {}, **changes},
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

    def run(self) -> str:
        """Returns a run whose program has just ended: its files are stored, and its RESULT is on the way."""
        job_id = self.submit("PACK_RUN", payload=PACK, labels={"report": "leases"}, doc_id="leases-2026")
        self._services["packs"].reply(self._services["packs"].directive(job_id), "ACK")
        log_in(self.stack, TENANT, job_id).append_block(LOG.format(job_id=job_id).encode())
        with ContainerClient.from_connection_string(self.stack.storage_connection, "runs") as container:
            for name, size in ARTIFACTS.items():
                container.upload_blob(f"{TENANT}/{job_id}/1/{name}", bytes(size))
        return job_id

    def fail(self, job_id: str, error: dict[str, str], status: str = "FAILED_FINAL") -> dict[str, Any]:
        return self.work("ocr", job_id, 0.4, status=status, error=error, result_ref=None)

    def late(self, directive: dict[str, Any]) -> None:
        """Sends the RESULT of an attempt that another one has replaced."""
        self._services["ocr"].reply(directive, "RESULT")


async def play_hour(stack: RunningStack) -> None:
    """The counts of the last hour, as a sweeper would have written them."""
    account = TablesAccount.connect(
        connection=stack.storage_connection, endpoint=None, credential=None, version_table="luciustenants"
    )
    now = minute_of(datetime.now(UTC))
    counts = {}
    for ago in range(1, 59):
        ends = Counter({(TENANT, "SUCCEEDED", ""): round(9 + 5 * math.sin(ago / 8) + ago % 3)})
        if ago % 9 == 4:
            ends[TENANT, "FAILED_FINAL", FATAL["code"]] = 1 + ago % 2
        if ago in (17, 18, 19):
            ends[TENANT, "FAILED_FINAL", LOST["code"]] = 2
        if ago in (31, 44):
            ends[TENANT, "CANCELLED", "CANCELLED"] = 1
        counts[now - ago * MINUTE] = MinuteCounts(ends=ends)
    try:
        await TablesMinutes(account, "luciusindex").add(counts, "screenshots")
    finally:
        await account.close()


def play(stage: Stage) -> tuple[str, str]:
    """Plays the jobs of the pictures. Returns the ids of the job with a retry and a late reply, and of a run."""
    asyncio.run(play_hour(stage.stack))
    for number in range(8):
        job_id = stage.submit("OCR", labels={"batch": "leases", "source": f"scanner-{number % 3}"})
        stage.work("ocr", job_id, 0.1, metrics={"pages": 12})
    for tenant, most, jobs in (("fabrikam", 2, 5), ("northwind", 1, 2)):
        quota = stage.http.get("/v1/quotas", params={"tenant": tenant}).json()["quotas"][0]
        change, match = {"max_active": most, "reason": "the contract of 2026"}, {"If-Match": quota["etag"]}
        path = f"/v1/quotas/{quota['id']}"
        stage.http.patch(path, params={"tenant": tenant}, json=change, headers=match).raise_for_status()
        for number in range(jobs):
            stage.submit("OCR", tenant=tenant, labels={"batch": "archive"}, priority=["normal", "high"][number % 2])
    for error in (LOST, FATAL, LOST):
        stage.fail(stage.submit("OCR", labels={"batch": "invoices"}), error)
    payload = {"sis": {"prompt_set": ["When does the lease end?"]}}
    labels = {"batch": "leases", "team": "contracts"}
    shown = stage.submit(payload=payload, labels=labels, priority="high", doc_id="lease-4711")
    first = stage.fail(shown, OCR_ERROR, "FAILED_RETRY")
    wait_until(lambda: len(stage.http.get(f"/v1/jobs/{shown}/events").json()["events"]) >= 5, "no second attempt")
    stage.late(first)
    stage.work("ocr", shown, 1.4, metrics={"pages": 12, "characters": 18423})
    stage.work("embedding", shown, 0.35, metrics={"chunks": 42})
    stage.work("sis", shown, 0.6, metrics={"questions": 1, "answered": 1})
    run = stage.run()
    wait_until(lambda: stage.http.get(f"/v1/jobs/{shown}").json()["status"] == "SUCCEEDED", "the job did not succeed")
    # the sweeper counts jobs, lanes and the ends of each minute
    stage.http.post("/v1/admin/reconcile", json={}).raise_for_status()
    wait_until(lambda: stage.http.get("/v1/dashboard/metrics").json()["jobs"]["counted_at"], "no job was counted")
    return shown, run


@contextmanager
def stage(folder: Path) -> Iterator[tuple[RunningStack, Stage]]:
    environment = {**live.ENVIRONMENT, "LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.6"}
    stack = running_stack.start(folder, "--without-services", environment=environment)
    try:
        with ExitStack() as opened:
            names = ("ocr", "embedding", "sis", "packs")
            services = {name: opened.enter_context(ScriptedService(stack.bus_connection, name)) for name in names}
            yield stack, Stage(stack, services)
    finally:
        stack.stop()


def take(browser: Browser, base: str, name: str, path: str, scheme: Any, width: int, height: int) -> None:
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
    with tempfile.TemporaryDirectory() as folder, stage(Path(folder)) as (stack, played):
        shown, run = play(played)
        quota = stack.get("/v1/quotas", tenant="fabrikam")["quotas"][0]["id"]
        pictures = {
            "job": (f"jobs/{shown}", 1280, 640),
            "run": (f"jobs/{run}?tab=run", 1280, 800),
            "jobs": ("jobs", 1280, 800),
            "overview": ("overview", 1280, 1220),
            "quotas": (f"quotas?tenant=fabrikam&quota={quota}", 1280, 800),
            "incidents": ("incidents", 1280, 800),
            "submit": ("submit?type=OCR", 1280, 800),
            "phone": (f"jobs/{shown}", 360, 740),
            "phone-jobs": ("jobs", 360, 740),
            "phone-overview": ("overview", 360, 740),
        }
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=machine.path_of("browser"))
            for scheme in ("light", "dark"):
                for name, (path, width, height) in pictures.items():
                    take(browser, stack.api, name, path, scheme, width, height)
            browser.close()


if __name__ == "__main__":
    main()
