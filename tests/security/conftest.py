"""The app with authentication on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import pytest

from tests import running_stack
from tests.security.api_client import A, B, Door
from tests.stack.scripted_service import ScriptedService

CALLBACK_KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture(scope="package")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A stack for the attacks of this folder, with callbacks and an allow list of hosts, checked at the end."""
    environment = {
        "LUCIUS_CALLBACK_KEYS": f"k1:{CALLBACK_KEY}",
        "LUCIUS_PUBLIC_URL": "https://lucius.example",
        "LUCIUS_WEBHOOK_HOSTS": "",
        "LUCIUS_ALLOWED_REF_HOSTS": "docs.example",
        "LUCIUS_AUTH_TENANTS": json.dumps({"groups": {"g-a": A, "g-b": B}}),
        # nothing may become due by itself during a test
        "LUCIUS_ACK_TIMEOUT_SECONDS": "600",
    }
    data = tmp_path_factory.mktemp("security")
    running = running_stack.start(data, "--auth", "--without-services", environment=environment)
    try:
        reached = Door(running)
        with reached.client:
            yield reached
    finally:
        running.stop()
    # after all requests: no unexpected error, and no secret in a log
    log = running.log("host")
    assert "unexpected error" not in log
    assert CALLBACK_KEY not in log
    assert "eyJ" not in log


@pytest.fixture
def service(door: Door) -> Iterator[ScriptedService]:
    with ScriptedService(door.stack.bus_connection) as scripted:
        yield scripted
