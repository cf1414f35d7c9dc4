"""One stack without platform services for this folder: each test plays the service itself.

The packaged protocols have timeouts here that no test reaches; some of those that the tests add have short ones.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator

import pytest

from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.scripted_service import ScriptedService

#: the address of the API for callbacks; the tests put the stack's own in its place
PUBLIC_URL = "https://lucius.example/base"

_ENVIRONMENT = {
    # of steps that name none
    "LUCIUS_ACK_TIMEOUT_SECONDS": "2",
    "LUCIUS_STEP_RESULT_TIMEOUT_SECONDS": "6",
    "LUCIUS_ACK_BACKOFF_SECONDS": "0.2",
    "LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.2",
    "LUCIUS_CALLBACK_KEYS": f"k1:{base64.b64encode(b'k' * 32).decode()}",
    "LUCIUS_PUBLIC_URL": PUBLIC_URL,
    "LUCIUS_EVENTS": "topic",
    # the sweeper runs only on request of a test
    "LUCIUS_SWEEP_SCHEDULE": "0 0 0 29 2 *",
    # about two seconds
    "LUCIUS_IDEMPOTENCY_TTL_DAYS": "0.00002",
    "LUCIUS_RETENTION_DAYS": "0.00002",
}

#: the lease is longer than the lock of a reply that a killed host had received
_CALM = {"ack_timeout_s": 120, "lease_s": 300}
_HASTY = {"step_type": "OCR", "service": "ocr"}
_OCR = {**_HASTY, **_CALM}
#: in addition to the packaged protocols
_PROTOCOLS = (
    # both time-outs of the settings
    {"protocol_id": "hasty", "version": 1, "request_type": "HASTY", "steps": [{"step_id": "ocr", **_HASTY}]},
    # the lease of the settings
    {
        "protocol_id": "short_lease",
        "version": 1,
        "request_type": "SHORT_LEASE",
        "steps": [{"step_id": "ocr", **_HASTY, "ack_timeout_s": 120}],
    },
    # a step that is soon given up after one that is not
    {
        "protocol_id": "then_hasty",
        "version": 1,
        "request_type": "THEN_HASTY",
        "steps": [
            {"step_id": "ocr", **_OCR},
            {"step_id": "embedding", "step_type": "EMBEDDING", "service": "embedding"},
        ],
    },
    # two steps side by side, then one
    {
        "protocol_id": "two_and_one",
        "version": 1,
        "request_type": "TWO_AND_ONE",
        "steps": [{"step_id": name, **_OCR} for name in ("a", "b", "last")],
        "parallel": [["a", "b"]],
    },
    # side by side, one attempt each; the first is given up when the other's ACK has long been taken
    {
        "protocol_id": "once_each",
        "version": 1,
        "request_type": "ONCE_EACH",
        "steps": [
            {"step_id": "a", **_OCR, "max_attempts": 1, "ack_timeout_s": 10},
            {"step_id": "b", **_OCR, "max_attempts": 1},
        ],
        "parallel": [["a", "b"]],
    },
)


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """At its end no orchestration may have stalled."""
    protocols = tmp_path_factory.mktemp("protocols") / "protocols"
    shutil.copytree(running_stack.ROOT / "protocols", protocols)
    for path in protocols.glob("*.json"):
        packaged = json.loads(path.read_text(encoding="utf-8"))
        packaged["steps"] = [_CALM | step for step in packaged["steps"]]
        path.write_text(json.dumps(packaged))
    for protocol in _PROTOCOLS:
        (protocols / f"{protocol['protocol_id']}.json").write_text(json.dumps(protocol))
    environment = {**_ENVIRONMENT, "LUCIUS_PROTOCOLS_PATH": str(protocols)}
    running = running_stack.start(tmp_path_factory.mktemp("scripted"), "--without-services", environment=environment)
    try:
        yield running
        stalls = running.get("/admin/emulator/stalls")
    finally:
        running.stop()
    assert stalls == [], "an orchestration waits for an event that cannot come"


@pytest.fixture
def service(stack: RunningStack) -> Iterator[ScriptedService]:
    with ScriptedService(stack.bus_connection) as scripted:
        yield scripted
