"""Microsoft's JavaScript SDK: the tests of `bus.test.js`, run by Node against a bus with TLS."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servicebus_emulator.process import Bus, start_bus

FOLDER = Path(__file__).parent
LIMIT_S = 150


@pytest.fixture
def js_bus(tmp_path: Path) -> Iterator[Bus]:
    config = tmp_path / "Config.json"
    special: dict[str, dict[str, Any]] = {
        "sessions": {"RequiresSession": True},
        "expiring": {"DefaultMessageTimeToLive": "PT0.2S", "DeadLetteringOnMessageExpiration": True},
        "deduplicating": {"RequiresDuplicateDetection": True},
        "first": {"ForwardTo": "js-last"},
        "last": {"ForwardDeadLetteredMessagesTo": "js-dead-letters"},
        "dead-letters": {},
        "refused": {"ForwardTo": "js-sessions"},
    }
    entries = [{"Name": f"js-{name}", "Properties": properties} for name, properties in special.items()]
    namespace = {"Name": "sbemulatorns", "Topics": [], "Queues": entries}
    config.write_text(json.dumps({"UserConfig": {"Namespaces": [namespace]}}))
    queues = [argument for name in ("life", "batch", "pump", "ws", "window") for argument in ("--queue", f"js-{name}")]
    bus = start_bus(
        *("--config", config, *queues, "--topic", "js-topic/js-sub"),
        *("--tls", "--data", tmp_path, "--sas-key", "SAS_KEY_VALUE", "--max-entity-bytes", "1000000"),
    )
    yield bus
    assert bus.stop() == 0


def test_the_javascript_sdk(js_bus: Bus, tmp_path: Path) -> None:
    """Every operation of the SDK works as on Azure, with tokens checked."""
    admin = js_bus.connection_string.replace(f":{js_bus.port}", f":{js_bus.admin_port}")
    environment = {
        **os.environ,
        "BUS_CONNECTION": js_bus.connection_string,
        "BUS_ADMIN_CONNECTION": admin,
        "BUS_WS_CONNECTION": admin.replace("UseDevelopmentEmulator=true;", ""),
        "NODE_EXTRA_CA_CERTS": str(tmp_path / "bus-certificate.pem"),
    }
    result = subprocess.run(
        ["node", "--test", "bus.test.js"],
        cwd=FOLDER,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
