"""One run of `up`: from the options until the last child has ended."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from emulator.up import children, ports, samples
from emulator.up.child import ChildSpec
from emulator.up.data_dir import DataDir
from emulator.up.environment import addresses, blob_endpoint, for_children, issuer_url, table_endpoint
from emulator.up.ports import LOOPBACK, Ports
from emulator.up.stack import Stack

_UPLOAD_TIMEOUT_S = 20.0  # seconds to upload a few small files to loopback


async def serve(args: argparse.Namespace) -> int:
    """Serves until SIGTERM, SIGINT or SIGHUP, then drains and returns 0. A second signal kills all children and ends
    the process with exit code 130. Raises UpError if the stack cannot serve.
    """
    chosen = ports.choose(args)
    data = DataDir(args.data)
    try:
        environment = for_children(chosen, children.ROOT, os.environ)
        environment.setdefault("LUCIUS_WEBHOOK_KEYS", data.webhook_keys())
        if environment.get("LUCIUS_EVENTS") != "off":
            environment.setdefault("LUCIUS_AUDIT_KEY", str(data.audit_key()))
        for name, value in addresses(chosen).items():
            if environment[name] != value:
                log(f"{name} comes from your environment and may belong to another stack")
        stack = Stack(_waves(chosen, data, environment, without_services=args.without_services), data, log)
        stop = asyncio.Event()
        _on_signals(stop, stack)
        await stack.serve(stop, _Announcement(chosen, data, environment).on_wave)
        log("stopped")
        return 0
    finally:
        data.release()


def log(line: str) -> None:
    """Writes a line to stderr. Replaces unprintable characters by U+FFFD, since a child may quote its input.

    Ignores a failed write, such as to a closed terminal, so that the stack still drains.
    """
    shown = "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line)
    with suppress(OSError):
        print(f"{datetime.now().astimezone():%H:%M:%S} up: {shown}", file=sys.stderr, flush=True)


def _waves(
    chosen: Ports, data: DataDir, environment: Mapping[str, str], *, without_services: bool
) -> list[list[ChildSpec]]:
    services = [] if without_services else children.service_names()
    traces = [children.traces(chosen, environment)] if chosen.traces else []
    issuer = [children.issuer(chosen, data.path, environment)] if chosen.issuer else []
    return [
        [
            children.azurite(chosen, data.path, environment),
            children.bus(chosen, data.path, environment),
            *traces,
            *issuer,
        ],
        [
            children.host(chosen, data.path, environment),
            *(children.service(name, environment) for name in services),
        ],
    ]


def _on_signals(stop: asyncio.Event, stack: Stack) -> None:
    def on_signal(number: signal.Signals) -> None:
        if stop.is_set():
            stack.kill()
            os._exit(130)
        log("stopping; press Ctrl-C again to stop immediately" if number is signal.SIGINT else "stopping")
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)


class _Announcement:
    """The start of a stack for the user. Uploads the samples while the host starts. When all children serve, prints the
    ready line and, if the upload succeeded, the first commands.
    """

    def __init__(self, chosen: Ports, data: DataDir, environment: Mapping[str, str]) -> None:
        self._ports = chosen
        self._data = data
        self._environment = environment
        self._upload: asyncio.Task[None] | None = None

    async def on_wave(self, number: int) -> None:
        if number == 0:
            upload = samples.upload_samples(self._environment["LUCIUS_BLOB_CONNECTION"])
            self._upload = asyncio.create_task(asyncio.wait_for(upload, _UPLOAD_TIMEOUT_S))
            return
        assert self._upload is not None
        uploaded = False
        try:
            await self._upload
            uploaded = True
        except Exception as error:  # the stack serves without the samples
            # a timeout has no text
            reason = (str(error) or type(error).__name__).splitlines()[0]
            log(f"the samples were not uploaded: {reason}")
        chosen = self._ports
        issuer = f"issuer={issuer_url(chosen)} " if chosen.issuer else ""
        traces = f"traces=http://{LOOPBACK}:{chosen.traces} " if chosen.traces else ""
        ready = (
            f"ready http://{LOOPBACK}:{chosen.api} bus=sb://{LOOPBACK}:{chosen.bus} "
            f"admin=http://{LOOPBACK}:{chosen.admin} blob={blob_endpoint(chosen)} "
            f"table={table_endpoint(chosen)} {issuer}{traces}data={self._data.path}"
        )
        print(ready, flush=True)
        log(f"the dashboard is on http://{LOOPBACK}:{chosen.api}/v1/dashboard")
        if traces:
            log(f"each job's trace is on http://{LOOPBACK}:{chosen.traces}")
        if uploaded:
            print(samples.commands_text(chosen, self._environment), file=sys.stderr, flush=True)
