"""The host as a process: logging, signals, exit codes."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys

from .errors import HostError
from .invocation import InvocationFilter

_FORMAT = "%(asctime)s %(levelname)s [%(invocation)s] %(message)s"


def run(args: argparse.Namespace) -> int:
    _log_to_stderr(args.log_level)
    # Orchestrators are CPU-bound Python; the default of 5 ms would delay every hand-over to the host's loop.
    sys.setswitchinterval(0.001)
    try:
        return asyncio.run(_serve(args))
    except HostError as error:
        for line in str(error).splitlines():
            print(f"error: {line}", file=sys.stderr)
        return 1


def _log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(InvocationFilter())
    handler.setFormatter(logging.Formatter(_FORMAT))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for noisy in ("azure", "aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("azure.functions").setLevel(root.level)
    logging.captureWarnings(True)


async def _serve(args: argparse.Namespace) -> int:
    from .faults import parse_faults
    from .keys import load_keys
    from .server import Server

    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()

    def stop() -> None:
        if stopped.is_set():
            logging.getLogger("emulator.host").warning("stopped at once")
            os._exit(1)
        stopped.set()
        logging.getLogger("emulator.host").info("stopping; again: at once")

    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop)
    keys = None if args.keys is None else load_keys(args.keys)
    server = Server(
        args.app,
        data_dir=args.data,
        host=args.host,
        port=args.port,
        virtual_clock=args.virtual_clock,
        keys=keys,
        faults=parse_faults(args.fault),
    )
    url = await server.start()
    print(f"ready {url}", flush=True)
    await stopped.wait()
    await server.stop()
    return 0
