"""`lucius webhooks listen`: the feed of a stub, posted to those of docs/reference/webhooks.md and to one that fails."""

from __future__ import annotations

import base64
import contextlib
import re
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from emulator.up.ports import find_free
from lucius_client.cli import listen as listening
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.lucius_client.test_feed import EXPIRED, STOP, page, queries
from tests.webhook_receivers import KINDS, PageReceiver

SECRET = f"whsec_{base64.b64encode(b's' * 32).decode()}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_receiver_of_the_page_verifies_what_is_forwarded(kind: str, tmp_path: Path) -> None:
    """From now on, in order, across a gap; until the API refuses."""
    with PageReceiver(kind, tmp_path, find_free(), SECRET) as receiver:
        with serving(page("two"), page("four", 3, 4), EXPIRED, page("six", 6), STOP) as api:
            words = ("webhooks", "listen", "--forward", receiver.url, "--type", "job.completed")
            completed = run_main(*words, api=api.url, LUCIUS_WEBHOOK_SECRET=SECRET)
        taken = receiver.taken
    assert taken == [(f"job_1:{number}:0:listen", "job.completed", "job_1") for number in (3, 4, 6)]
    first = queries(api)[0]
    assert (first["after"], first["types"]) == ("latest", "job.completed")
    assert completed.returncode == 3
    assert "deleted after their retention" in completed.stderr
    assert [line.split()[-1] for line in completed.stdout.splitlines()] == ["204"] * 3
    assert SECRET not in completed.stdout + completed.stderr


def test_a_receiver_that_refuses_is_tried_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the next event follows; the output has each response, and the new secret once."""
    monkeypatch.setattr(listening, "_AGAIN_S", (0.0, 0.0))
    statuses = [CannedResponse(status=status, body={}) for status in (500, 404, 302, 503, 204)]
    with serving(*statuses) as receiver, serving(page("two"), page("four", 3, 4), STOP) as api:
        completed = run_main("webhooks", "listen", "--forward", f"{receiver.url}/hooks", api=api.url)
    answers = [line.split()[-1] for line in completed.stdout.splitlines()]
    assert answers == ["500", "404", "302", "503", "204"]
    ids = [each.headers["webhook-id"] for each in receiver.requests]
    assert ids == ["job_1:3:0:listen"] * 3 + ["job_1:4:0:listen"] * 2
    assert len(re.findall(r"(?m)^secret: whsec_\S{44}$", completed.stderr)) == 1


class _Endless(BaseHTTPRequestHandler):
    """An endless response body; a 204 would have none."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"never gzip" * 1_000)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def test_the_status_is_the_answer_whatever_follows_it() -> None:
    with serving(page("two"), page("three", 3), STOP) as api, HTTPServer(("127.0.0.1", 0), _Endless) as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        words = ("webhooks", "listen", "--forward", f"http://127.0.0.1:{receiver.server_port}/")
        completed = run_main(*words, api=api.url)
        receiver.shutdown()
    assert [line.split()[-1] for line in completed.stdout.splitlines()] == ["200"]


def test_nobody_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a receiver the class of the error replaces the status."""
    monkeypatch.setattr(listening, "_AGAIN_S", ())
    with serving(page("two"), page("three", 3), STOP) as api:
        completed = run_main("webhooks", "listen", "--forward", f"http://127.0.0.1:{find_free()}/", api=api.url)
    assert completed.stdout.splitlines()[0].endswith("ConnectError")


@pytest.mark.parametrize(
    "words",
    [
        ("--forward", "ftp://127.0.0.1/"),
        ("--forward", "127.0.0.1:3000"),
        ("--forward", "localhost:3000"),
        ("--forward", "http://"),
        ("--forward", "http://[::1"),
        ("--forward", "http://localhost:99999/"),
        ("--forward", "http://127.0.0.1/", "--secret", "whsec_!"),
        ("--forward", "http://127.0.0.1/", "--secret", ""),
    ],
)
def test_wrong_options_are_one_line(words: tuple[str, ...]) -> None:
    """With exit code 2, before any request: the first event may be hours away. Without the secret."""
    with serving(STOP) as api:
        completed = run_main("webhooks", "listen", *words, api=api.url)
    assert (completed.returncode, len(completed.stderr.splitlines()), api.requests) == (2, 1, [])
    assert "whsec_" not in completed.stderr.replace("`whsec_` followed by base64", "")
