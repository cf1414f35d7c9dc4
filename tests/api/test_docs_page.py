"""`/v1/docs` as a newcomer has it: read offline, its commands typed one after another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from shared.apidocs.quickstart import commands, section
from tests.api.live import Live
from tests.jobs import ROOT
from tests.waiting import wait_until
from triggers.registered import ROUTES


class Links(HTMLParser):
    """What a page points at, and what it would fetch or run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.inside: set[str] = set()
        self.outside: set[str] = set()
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        if tag in ("script", "link", "img", "iframe", "object", "form") or "src" in given:
            self.fetched.append(tag)
        if (href := given.get("href")) is not None:
            (self.inside if href.startswith("#") else self.outside).add(href)


def test_it_needs_nothing_but_itself(api: Live) -> None:
    """No script, nothing fetched, a policy that forbids both; every operation is there, every link has a target."""
    answer = api.stack.http.get("/v1/docs").raise_for_status()
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    page = Links(answer.text)
    assert page.fetched == []
    assert "@import" not in answer.text
    assert "url(" not in answer.text
    assert {link[1:] for link in page.inside} <= page.ids
    assert {route.function for route in ROUTES} <= page.ids
    for link in page.outside:
        assert api.stack.http.get(link).status_code == 200
    # its public address is not on this machine
    assert "docs/reference/api.md" in answer.text
    assert api.stack.issuer not in answer.text


def test_its_commands_are_for_the_machine_that_serves_it() -> None:
    """On loopback they name the stack's own addresses, or the usual ones for what is elsewhere; elsewhere none."""
    server, issuer, blobs = "http://127.0.0.1:1", "http://localhost:2", "http://127.0.0.1:3/devstoreaccount1"
    shown = section(server, issuer, blobs)
    for _, command in commands(server, issuer, blobs):
        assert command.split("\n")[0].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in shown
    for address in (server, issuer, blobs):
        assert address in shown
    assert "issuer.example" not in section(server, "https://issuer.example", "https://account.example")
    assert "account.example" not in section(server, "https://issuer.example", "https://account.example")
    assert "curl" not in section("https://lucius.example/base", issuer, blobs)


@pytest.mark.needs("curl")
def test_its_first_steps_work_as_they_are_typed(api: Live, tmp_path: Path) -> None:
    """A token, a document read by the real service and watched to its end, the same by curl, and proper refusals."""
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
    service = subprocess.Popen([sys.executable, "-m", "platform_service", "ocr"], cwd=ROOT, env=environment)
    try:
        done = subprocess.run(
            ["sh", "-ec", script], env=environment, capture_output=True, text=True, timeout=170, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        parts = [part.strip() for part in done.stdout.split("-----")[:-1]]
        login, watched, token, submitted, job, explained, refused, forbidden = parts
        assert ended(api, json.loads(job)["jobId"]) == "SUCCEEDED"
    finally:
        service.terminate()
        service.wait(timeout=60)
    assert "tenant_a" in login
    assert "SUCCEEDED" in watched
    assert token == ""
    assert submitted.startswith("HTTP/1.1 202")
    assert '"tenant_id": "tenant_a"' in job
    assert '"waits_for"' in explained
    assert refused.startswith("HTTP/1.1 401")
    assert "TENANT_FORBIDDEN" in forbidden


def ended(api: Live, job_id: str) -> str:
    """The status of the job once it has ended."""
    client = api.client(tenant="tenant_a")
    job = wait_until(
        lambda: job if (job := client.get(f"/v1/jobs/{job_id}").json())["completed_at"] else None, f"{job_id} goes on"
    )
    return str(job["status"])
