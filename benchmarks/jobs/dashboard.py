"""Measures the time until the dashboard shows its views, and the slow frames while 10,000 jobs scroll."""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Browser, Page, Route, sync_playwright

from benchmarks.jobs.load import THREE, loading
from benchmarks.jobs.stack import Stack, running
from scripts.browsers import find_browser

#: jobs in the scrolled list; maximum frame time that a person does not notice
ROWS, SLOW_FRAME_MS = 10_000, 50
_VIEWS = ("overview", "jobs", "jobs/{job}")
_JOBS, _AT_ONCE = 24, 8
_DEADLINE_MS = 60_000
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
#: number of files, and compressed bytes
_LOADED = """performance.getEntriesByType('resource').filter(each => each.name.includes('/assets/'))
    .reduce(([files, bytes], each) => [files + 1, bytes + each.encodedBodySize], [0, 0])"""
#: scrolls to the end in 120 frames; returns the milliseconds between each two frames
_SCROLL = """list => new Promise(done => {
    const frames = [];
    let before = performance.now(), left = 120;
    const step = list.scrollHeight / left;
    const next = now => {
        frames.push(now - before);
        before = now;
        list.scrollTop += step;
        if (left--) requestAnimationFrame(next);
        else done(frames.slice(1));
    };
    requestAnimationFrame(next);
})"""


def dashboard(times: int) -> dict[str, Any]:
    """Opens each view `times` times in a browser without a cache. Raises SystemExit if no browser is installed."""
    path = find_browser()
    if path is None:
        raise SystemExit("benchmarks.jobs: the part dashboard needs Chromium, Chrome or Edge")
    with running(events="feed") as stack:
        job = asyncio.run(_make_jobs(stack))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path)
            views = {view: _view(browser, stack, view.format(job=job), times) for view in _VIEWS}
            frames = [_frames(browser, stack) for _ in range(times)]
            browser.close()
    return {
        "times": times,
        "views": views,
        "rows": ROWS,
        "slowest_frame_ms": [max(each) for each in frames],
        "slow_frames": [sum(frame > SLOW_FRAME_MS for frame in each) for each in frames],
    }


async def _make_jobs(stack: Stack) -> str:
    async with loading(stack) as load:
        ran = await load.saturated(THREE, _JOBS, _AT_ONCE)
    return next(iter(ran.sent))


def _view(browser: Browser, stack: Stack, view: str, times: int) -> dict[str, Any]:
    found = []
    for _ in range(times):
        page = browser.new_page()
        page.goto(f"{stack.api}/v1/dashboard#/{view}")
        _wait_for_data(page)
        shown = page.evaluate("performance.now()")
        found.append((page.evaluate(_PAINT), shown, *page.evaluate(_LOADED)))
        page.close()
    paint, data, files, size = zip(*found, strict=True)
    return {
        "paint_ms": {"p50": statistics.median(paint), "max": max(paint)},
        "data_ms": {"p50": statistics.median(data), "max": max(data)},
        "files": files[0],
        "bytes": size[0],
    }


def _wait_for_data(page: Page) -> None:
    page.get_by_role("heading", level=1).first.wait_for(timeout=_DEADLINE_MS)
    page.locator(".skeleton").first.wait_for(state="detached", timeout=_DEADLINE_MS)


def _frames(browser: Browser, stack: Stack) -> list[float]:
    def jobs(route: Route) -> None:
        lines = [_line(number) for number in range(ROWS)]
        body = json.dumps({"jobs": lines, "next": None, "partial": False})
        route.fulfill(content_type="application/json", body=body)

    page = browser.new_page()
    page.route("**/v1/jobs?**", jobs)
    page.goto(f"{stack.api}/v1/dashboard#/jobs")
    page.locator(".vlist-row").first.wait_for(timeout=_DEADLINE_MS)
    frames: list[float] = page.locator(".vlist").evaluate(_SCROLL)
    page.close()
    return frames


def _line(number: int) -> dict[str, Any]:
    """Returns the job record of this number. Adjacent records look different."""
    status = ("SUCCEEDED", "FAILED_FINAL", "IN_PROGRESS", "CANCELLED", "THROTTLED")[number % 5]
    ended = status in ("SUCCEEDED", "FAILED_FINAL", "CANCELLED")
    created = datetime(2026, 1, 27, tzinfo=UTC) - timedelta(seconds=number)
    return {
        "jobId": f"job_{hashlib.sha256(bytes(str(number), 'ascii')).hexdigest()[:32]}",
        "tenant_id": f"tenant-{number % 7}",
        "request_type": ("OCR", "OCR_EMBEDDING_SIS", "PACK_RUN")[number % 3],
        "status": status,
        "current_step_id": "ocr" if status == "IN_PROGRESS" else None,
        "seq": 5,
        "error_code": "DOCUMENT_ENCRYPTED" if status == "FAILED_FINAL" else None,
        "labels": {"batch": f"batch-{number % 11}"},
        "created_at": created.isoformat(),
        "completed_at": (created + timedelta(seconds=number % 60)).isoformat() if ended else None,
        "links": {},
    }
