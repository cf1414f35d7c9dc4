"""The health probes of a running service."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from tests.lucius_service.service_process import SharedProbe


def test_health_names_lanes_and_storage(shared_probe: SharedProbe, health_port: int) -> None:
    """Live; ready with each dependency by name; 404 for other paths."""

    def get(path: str) -> tuple[int, dict[str, object]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{health_port}{path}", timeout=20) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    shared_probe.current()
    assert get("/health/live") == (200, {"status": "live"})
    assert get("/health/ready") == (200, {"status": "ready", "checks": {"servicebus": "ok", "storage": "ok"}})
    assert get("/other")[0] == 404
