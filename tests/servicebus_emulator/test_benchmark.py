"""The quick form of `python -m benchmarks.bus`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servicebus_emulator.process import ROOT

ROWS = (
    "single sends",
    "sends in batches of 100",
    "receive 1, complete",
    "receive 100, complete each",
    "16 topics, 100 connections, sent and completed",
    "without sockets",
)


@pytest.mark.long
def test_every_number_is_reported() -> None:
    """The benchmark prints each row in memory and with --data, then start, memory and backlog."""
    command = [sys.executable, "-m", "benchmarks.bus", "--quick"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    for row in ROWS:
        assert [line.partition(":")[0] for line in result.stdout.splitlines() if row in line] == ["memory", "--data"]
    for row in ("start, empty", "memory of 100,000 waiting messages", "received and deleted in"):
        assert row in result.stdout
