"""The host as a process: logging, signals, exit codes, and the restart when the app's files change."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any

from functions_emulator.host.errors import HostError
from functions_emulator.host.invocation import InvocationFilter

_LOG = logging.getLogger("functions_emulator.host")
_FORMAT = "%(asctime)s %(levelname)s [%(invocation)s] %(message)s"

_WATCH_INTERVAL_S = 0.5
_UNWATCHED_FOLDERS = frozenset({"__pycache__", "node_modules", "tests"})
_WATCHED_SUFFIXES = frozenset({".py", ".json"})


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C. Returns the exit code: 0, or 1 if the host cannot start."""
    _log_to_stderr(args.log_level)
    args.app = args.app.resolve()
    # stdout is for the ready line; output of the app goes to the log
    args.stdout, sys.stdout = sys.stdout, sys.stderr
    # Orchestrators are CPU-bound Python; the default of 5 ms would delay every switch to the host's loop.
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
    logging.captureWarnings(True)


async def _serve(args: argparse.Namespace) -> int:
    stopped = _stop_signal()
    temporary_data = None
    if args.watch and args.data is None:
        # State must survive a restart. `--reloaded` names its folder; the ready line was printed before.
        temporary_data = Path(tempfile.mkdtemp(prefix="functions-host-")) if args.reloaded is None else args.reloaded
        args.data = temporary_data
    try:
        host, problem = await _start(args)
        if host is None and args.reloaded is None:
            raise HostError(problem)
        if host is None:
            _LOG.error("the changed app cannot be served, waiting for the next change: %s", problem)
        elif args.reloaded is None:
            print(f"ready {host.url}", file=args.stdout, flush=True)
        path = await _first_result(stopped.wait(), *([_wait_for_change(args.app)] if args.watch else []))
        if host is not None:
            await host.stop()
            args.port = host.port
        if stopped.is_set() and host is not None and host.still_running:
            _remove_folder(temporary_data)
            os._exit(0)  # a function that hangs in a thread would keep the process alive
        if stopped.is_set():
            return 0
    except BaseException:
        _remove_folder(temporary_data)
        raise
    finally:
        if stopped.is_set():
            _remove_folder(temporary_data)
    _LOG.info("%s has changed; the host restarts", path)
    _restart(args, temporary_data)
    return 0  # not reached


def _remove_folder(temporary_data: Path | None) -> None:
    if temporary_data is not None:
        shutil.rmtree(temporary_data, ignore_errors=True)


async def _start(args: argparse.Namespace) -> tuple[Any, str]:
    from functions_emulator.host.faults import parse_faults
    from functions_emulator.host.functions_host import FunctionsHost
    from functions_emulator.host.keys import keys_of

    host = FunctionsHost(
        args.app,
        data_dir=args.data,
        host=args.host,
        port=args.port,
        allowed_hosts=args.allowed_host,
        virtual_clock=args.virtual_clock,
        keys=None if args.no_keys else keys_of(args.keys, args.data),
        faults=parse_faults(args.fault),
        drain_s=args.drain,
    )
    try:
        await host.start()
    except HostError as error:
        return None, str(error)
    _log_access(args)
    return host, ""


def _log_access(args: argparse.Namespace) -> None:
    from functions_emulator.host.keys import KEYS_FILE

    if args.no_keys:
        _LOG.info("--no-keys: every function, /admin and the durable API are open to every caller, unlike in Azure")
    elif args.keys is None and args.data is None:
        _LOG.info("the access keys are random; set keys with --keys or --data, or allow all calls with --no-keys")
    else:
        _LOG.info("the access keys are in %s", args.keys or args.data / KEYS_FILE)


async def _wait_for_change(app_dir: Path) -> Path:
    """Waits until a Python or JSON file of the app is changed, added or removed; returns its path."""
    before = dict(_watched_files(app_dir))
    while True:
        await asyncio.sleep(_WATCH_INTERVAL_S)
        after = dict(_watched_files(app_dir))
        if after != before:
            return next(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _watched_files(app_dir: Path) -> Iterator[tuple[Path, int]]:
    for folder, names, files in os.walk(app_dir):
        names[:] = [name for name in names if name not in _UNWATCHED_FOLDERS and not name.startswith(".")]
        for name in files:
            path = Path(folder, name)
            if path.suffix in _WATCHED_SUFFIXES:
                try:
                    yield path, path.stat().st_mtime_ns
                except FileNotFoundError:
                    continue  # an editor's temporary file


async def _first_result(*works: Awaitable[Any]) -> Any:
    tasks = [asyncio.ensure_future(work) for work in works]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return done.pop().result()


def _restart(args: argparse.Namespace, temporary_data: Path | None) -> None:
    """Replaces this process by a new one with the same port and store, since modules cannot be unloaded reliably."""
    options = ["--app", str(args.app), "--host", args.host, "--port", str(args.port), "--log-level", args.log_level]
    options += ["--watch", "--reloaded", str(temporary_data or args.data)]
    if temporary_data is None:
        options += ["--data", str(args.data)]
    if args.keys is not None:
        options += ["--keys", str(args.keys)]
    if args.no_keys:
        options.append("--no-keys")
    if args.virtual_clock:
        options.append("--virtual-clock")
    options += ["--drain", str(args.drain)]
    for name in args.allowed_host:
        options += ["--allowed-host", name]
    for fault in args.fault:
        options += ["--fault", fault]
    os.execv(sys.executable, [sys.executable, "-m", "functions_emulator", *options])


def _stop_signal() -> asyncio.Event:
    stopped = asyncio.Event()

    def stop() -> None:
        if stopped.is_set():
            _LOG.warning("stopped immediately")
            os._exit(1)
        stopped.set()
        _LOG.info("stopping; a second signal stops the host immediately")

    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop)
    return stopped
