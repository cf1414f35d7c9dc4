"""Azurite alone, for tests of stored data."""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emulator.up import children, environment
from emulator.up.ports import LOOPBACK, choose

START_TIMEOUT_S = 150


#: its data stays in memory, and it logs no request, which saves CPU
_IN_MEMORY = ("--inMemoryPersistence", "--silent")


@contextmanager
def running_azurite(data: Path, *, is_kept: bool = False) -> Iterator[str]:
    """Yields a connection string; the process is gone afterwards, and its data too unless `is_kept`."""
    ports = choose(argparse.Namespace(api_port=0, bus_port=0, admin_port=0, azurite_port=0, traces=False, auth=False))
    spec = children.azurite(ports, data, environment.for_children(ports, children.ROOT, {}) | _path())
    argv = spec.argv
    if not is_kept:
        place = argv.index("--location")
        argv = (*argv[:place], *argv[place + 2 :], *_IN_MEMORY)
    with subprocess.Popen(
        argv, env=dict(spec.environment), cwd=data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not all(_answers(port) for port in spec.ready_ports):
                assert process.poll() is None, "Azurite ended while starting"
                assert time.monotonic() < deadline, "Azurite did not start"
                time.sleep(0.05)
            yield environment.addresses(ports)["LUCIUS_TABLE_CONNECTION"]
        finally:
            process.terminate()


def _path() -> dict[str, str]:
    return {"PATH": os.environ["PATH"]}


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex((LOOPBACK, port)) == 0
