"""Counts table requests of a 3-step job, by the number of processes of the app.

All processes serve HTTP and the lanes over one bus and one store. Orchestrations and activities run in the
first process, since the emulated task hub belongs to one process. The durable clients of the other processes call the
first process.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.jobs.load import THREE, loading
from benchmarks.jobs.stack import ROOT, Stack, free_port, running, wait_for_log
from emulator.up.parent_death import end_with_parent

#: jobs per second, far below saturation, so that no reply is late
_PER_S = 3.0
_START_S = 120
_KINDS = ("table reads", "table transactions")


async def requests(processes: Sequence[int], jobs: int) -> dict[str, Any]:
    """Counts requests per job for each number of processes. A refused commit counts as one more transaction."""
    return {"jobs": jobs, "rows": [{"processes": count, **(await _requests(count, jobs))} for count in processes]}


async def _requests(processes: int, jobs: int) -> dict[str, float]:
    with running() as stack, _others(stack, processes - 1) as urls:
        async with loading(stack) as load:
            turns = itertools.cycle([stack.api, *urls])

            async def lead(request: httpx.Request) -> None:
                request.url = request.url.copy_with(port=httpx.URL(next(turns)).port)
                request.headers["Host"] = request.url.netloc.decode()

            load.client.event_hooks["request"] = [lead]
            # each process opens its connections, and reads the directory of quotas
            await load.saturated(THREE, 16 * processes, 4)
            wait_for_log()
            before = stack.tables()
            await load.paced(THREE, _PER_S, jobs)
            wait_for_log()
            after = stack.tables()
    return {kind: (after.get(kind, 0) - before.get(kind, 0)) / jobs for kind in _KINDS}


@contextlib.contextmanager
def _others(stack: Stack, count: int) -> Iterator[list[str]]:
    """Starts `count` further hosts and yields their URLs. Linux only. Raises SystemExit if one does not start."""
    words = Path(f"/proc/{stack.processes()['host']}/environ").read_text().split("\0")
    environment = dict(word.split("=", 1) for word in words if "=" in word)
    started: list[subprocess.Popen[Any]] = []
    urls = []
    try:
        for number in range(count):
            data = stack.data / f"host{number + 2}"
            data.mkdir()
            port = free_port()
            urls.append(f"http://127.0.0.1:{port}")
            options = ["--app", str(ROOT), "--port", str(port), "--data", str(data), "--no-keys", "--drain", "0.5"]
            with (data / "log").open("w") as log:
                started.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "benchmarks.jobs.hosts", stack.api, *options],
                        cwd=ROOT,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        preexec_fn=end_with_parent(signal.SIGTERM),
                    )
                )
        for url in urls:
            _wait_until_served(url)
        yield urls
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def _wait_until_served(url: str) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/v1/protocols", timeout=5, trust_env=False).status_code == 200:
                return
        time.sleep(0.2)
    raise SystemExit(f"the host at {url} did not start")


def _serve(engine: str, arguments: list[str]) -> int:
    """Runs a host whose durable clients call the host at `engine`."""
    from emulator.__main__ import main
    from functions_emulator.host.http_server import HttpServer

    HttpServer.rpc_url = lambda self, url: f"{engine}/runtime/webhooks/durabletask/"  # type: ignore[method-assign]
    return main(["host", *arguments])


if __name__ == "__main__":
    sys.exit(_serve(sys.argv[1], sys.argv[2:]))
