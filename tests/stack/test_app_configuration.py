"""Protocols and modes from App Configuration, by the Microsoft SDK, while the stack runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from emulator.up.ports import find_free
from tests import running_stack
from tests.emulator.appconfig.serving import ID, SECRET, serving, write
from tests.running_stack import RunningStack
from tests.stack.job_requests import post

DEADLINE_S = 60


def protocol(version: int) -> dict[str, Any]:
    step = {"step_id": "ocr", "step_type": "OCR", "service": "ocr", "payload_schema": "steps/strict.schema.json"}
    return {"protocol_id": "strict_ocr", "version": version, "request_type": "STRICT_OCR", "steps": [step]}


def values(version: int) -> dict[str, Any]:
    return {
        "lucius:protocols:strict_ocr": protocol(version),
        "lucius:schemas:steps/strict.schema.json": {"type": "object", "required": ["pages"]},
        "lucius:tenants:tenant_a:mode": "BURST",
    }


def shown(stack: RunningStack) -> dict[str, int]:
    listed = httpx.get(f"{stack.api}/v1/protocols", timeout=30).raise_for_status().json()["protocols"]
    return {one["request_type"]: one["version"] for one in listed}


def health(stack: RunningStack) -> dict[str, Any]:
    state: dict[str, Any] = httpx.get(f"{stack.api}/v1/health/ready", timeout=30).raise_for_status().json()["protocols"]
    return state


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_a_protocol_comes_changes_breaks_and_outlives_its_store(tmp_path: Path) -> None:
    """New keys apply within seconds; a broken edit and an outage leave the last good ones, and health reports both."""
    port, file = find_free(), tmp_path / "settings.json"
    environment = {
        "LUCIUS_APPCONFIG_CONNECTION": f"Endpoint=http://127.0.0.1:{port};Id={ID};Secret={SECRET}",
        "LUCIUS_APPCONFIG_REFRESH_SECONDS": "0.2",
    }
    stack = running_stack.start(tmp_path / "data", "--without-services", environment=environment)
    try:
        assert "OCR_EMBEDDING_SIS" in shown(stack)  # the store is away: the packaged files
        assert "a call to App Configuration failed" in health(stack)["problems"][0]
        write(file, values(1))
        with serving(file, port):
            until(lambda: shown(stack) == {"STRICT_OCR": 1}, "the store's protocol did not come")
            wrong = post(stack, request_type="STRICT_OCR", doc_id="d1")
            assert (wrong.status_code, wrong.json()["errors"][0]["path"]) == (400, "payload")
            job = post(stack, request_type="STRICT_OCR", doc_id="d1", payload={"pages": 1}).json()["jobId"]
            [step] = httpx.get(f"{stack.api}/v1/jobs/{job}", timeout=30).raise_for_status().json()["steps"]
            assert (step["resolved_mode"], step["decision_source"]) == ("BURST", "TENANT_CONFIG")
            write(file, values(2))
            until(lambda: shown(stack) == {"STRICT_OCR": 2}, "the new version did not come")
            write(file, values(3) | {"lucius:protocols:strict_ocr": json.dumps(protocol(3))[:-1]})
            broken = "lucius:protocols:strict_ocr: the body is not JSON"
            # one slow response of the store is a problem too, until the next read
            until(
                lambda: "".join(health(stack)["problems"]).startswith(broken), "health does not report what is broken"
            )
            assert shown(stack) == {"STRICT_OCR": 2}
        until(lambda: len(health(stack)["problems"]) == 2, "health does not report the outage")
        assert shown(stack) == {"STRICT_OCR": 2}
        assert post(stack, request_type="STRICT_OCR", doc_id="d2", payload={"pages": 1}).status_code == 202
    finally:
        stack.stop()
    assert SECRET not in (tmp_path / "data" / "logs" / "host.log").read_text()
