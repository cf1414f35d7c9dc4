"""Runs a small HTTP program, which listens on loopback, prints one ready line, and serves until a signal.

Pages of other sites are refused (`servicebus_emulator.foreign_pages`).
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Middleware

from servicebus_emulator.foreign_pages import refuse_foreign_pages

LOOPBACK = "127.0.0.1"


async def serve(
    application: web.Application,
    port: int,
    *,
    pages: Middleware | None = None,
    listening: Callable[[str], None] = lambda url: None,
    shutdown_timeout_s: float = 60.0,
) -> int:
    """Serves an app until a signal. Calls `listening` with the URL before it prints the ready line.

    A second signal of the same kind ends the process immediately. `pages` replaces the middleware that refuses foreign
    pages. Returns the exit code 0. Raises OSError if the program cannot listen on the port.
    """
    application.middlewares.insert(0, pages or refuse_foreign_pages())
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=shutdown_timeout_s)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, port).start()
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, on_signal, number)
        url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
        listening(url)
        print(f"ready {url}", flush=True)
        await stop.wait()
        return 0
    finally:
        await runner.cleanup()
