"""`lucius bulk`: its filter, its exit codes, and its message at an interrupt."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest import mock

from shared.api.bulk import bulk_response, preview
from shared.core.bulks import Bulk, BulkAction, BulkState
from tests.jobs import START, body
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving

BULK = Bulk(
    bulk_id="bulk_82304918799990f3a5b7c9d1e2f40",
    tenant="tenant_a",
    action=BulkAction.PAUSE,
    reason="why",
    actor="app:1",
    created_at=START,
    look_at=START,
)
PAUSE = ("bulk", "pause", "--tenant", "tenant_a", "--reason", "why", "--filter")


def answer(status: int = 202, **changes: Any) -> CannedResponse:
    return CannedResponse(status, body(bulk_response(replace(BULK, **changes))))


def test_the_words_of_a_filter_are_sent() -> None:
    """Relative times become timestamps; a random key makes a repetition the same bulk operation."""
    with serving(answer()) as api:
        done = run_main(*PAUSE, "label=team:a=b", "--filter", "since=2026-01-27T10:00:00Z", api=api.url)
    assert (done.returncode, BULK.bulk_id in done.stdout) == (0, True), done.stderr
    [request] = api.requests
    words = {"label": "team:a=b", "since": "2026-01-27T10:00:00+00:00", "tenant_id": "tenant_a"}
    assert json.loads(request.body) == {"action": "pause", "filter": words, "reason": "why"}
    assert len(request.headers["idempotency-key"]) == 36


def test_a_filter_that_is_none_is_wrong_usage() -> None:
    """Nothing is sent."""
    for words in (("status",), ("=x",), ("since=tomorrow",), ("label=a:b", "--filter", "label=c:d")):
        with serving(answer()) as api:
            done = run_main(*PAUSE, *words, api=api.url)
        assert (done.returncode, api.requests, "--filter" in done.stderr) == (2, [], True)


def test_a_wait_ends_with_the_bulk() -> None:
    """Each change of the counts is a line; a refused job is exit code 1."""
    ended = {"state": BulkState.DONE, "matched": 2, "listed": True, "ended_at": START}
    for done, refused, code in ((2, 0, 0), (1, 1, 1)):
        last = answer(200, **ended, done=done, refused=refused)
        with mock.patch("time.sleep"), serving(answer(matched=2), answer(200, matched=2), last) as api:
            run = run_main(*PAUSE, "status=QUEUED", "--wait", api=api.url)
        assert run.returncode == code
        assert "0 done, 0 refused, 2 open" in run.stdout
        assert f"{done} done, {refused} refused, 0 open" in run.stdout


def test_an_interrupt_ends_the_wait_alone() -> None:
    """It prints the commands to show and to stop the bulk operation."""
    with mock.patch("lucius_client.cli.bulk.time.sleep", side_effect=KeyboardInterrupt), serving(answer()) as api:
        run = run_main(*PAUSE, "status=QUEUED", "--wait", api=api.url)
    assert run.returncode == 130
    assert f"lucius bulk stop {BULK.bulk_id}" in run.stderr


def test_a_dry_run_shows_the_first() -> None:
    """It states whether there are more."""
    found = CannedResponse(200, body(preview("tenant_a", "pause", ["job_1", "job_2"], True, 1)))
    with serving(found) as api:
        run = run_main(*PAUSE, "status=QUEUED", "--dry-run", api=api.url)
    assert run.returncode == 0
    assert "2 or more matching jobs (dry run). First jobs:" in run.stdout
    assert json.loads(api.requests[0].body)["dryRun"] is True


def test_a_tree_needs_its_dependencies() -> None:
    """Two options that exclude each other are wrong usage."""
    with serving(answer()) as api:
        words = ("job", "redrive", "job_1", "--with-dependants")
        assert run_main(*words, "--ignore-dependencies", api=api.url).returncode == 2
        assert run_main(*words[:3], "--wait", api=api.url).returncode == 2
        assert api.requests == []
        assert run_main(*words, api=api.url).returncode == 0
    assert json.loads(api.requests[0].body) == {"withDependants": True}
