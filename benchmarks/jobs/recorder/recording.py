"""The recorder in the host, which writes a line for each function that ran. About twice a second, the recorder writes
the CPU time by the code that ran.

CPU time is that of each thread by its own clock. A sample assigns the time to the innermost frame of the app, of the
host, or of an installed package. Python's own library counts for its caller. A sample waits for the interpreter, which
a thread releases in system calls, so functions that make system calls show more than they use.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from benchmarks.jobs.recorder import SETTING

ROOT = Path(__file__).parents[3]
#: seconds between two samples of the threads
_LOOK_S = 0.004
_WRITE_EVERY = 100
_APP = ("shared", "triggers", "orchestrations", "activities", "function_app.py")
_HOST = ("emulator", "packages")
#: functions that run the host's two event loops; a frame directly below one is the loop itself
_LOOPS = {"program.py": ("run",), "worker.py": ("_run",)}


def begin() -> None:
    """Records until the process ends."""
    out = Path(os.environ[SETTING]).open("a", buffering=1)  # noqa: SIM115  open as long as the process
    _record_invocations(out)
    threading.Thread(target=_sample, args=(out,), daemon=True).start()


def _record_invocations(out: TextIO) -> None:
    from functions_emulator.host.durable_functions import DurableFunctions
    from functions_emulator.host.invoker import Invoker

    invoke, run_orchestrators = Invoker.invoke, DurableFunctions.run_orchestrators

    def write(name: str, trigger: str, began: float, times: int, message_id: str | None) -> None:
        out.write(json.dumps({"ran": [name, trigger, began, time.monotonic(), times, message_id]}) + "\n")

    async def recorded(self: Any, function: Any, trigger_value: Any, **fields: Any) -> Any:
        began = time.monotonic()
        try:
            return await invoke(self, function, trigger_value, **fields)
        finally:
            write(function.name, function.trigger.type, began, 1, getattr(trigger_value, "message_id", None))

    async def recorded_episodes(self: Any, calls: Any) -> Any:
        began = time.monotonic()
        try:
            return await run_orchestrators(self, calls)
        finally:
            write("episodes", "orchestrationTrigger", began, len(calls), None)

    Invoker.invoke = recorded  # type: ignore[method-assign]
    DurableFunctions.run_orchestrators = recorded_episodes  # type: ignore[method-assign]


def _sample(out: TextIO) -> None:
    used: defaultdict[str, float] = defaultdict(float)
    steps: defaultdict[str, float] = defaultdict(float)
    before: dict[int, float] = {}
    me = threading.get_ident()
    for look in range(1, sys.maxsize):
        time.sleep(_LOOK_S)
        for thread, frame in sys._current_frames().items():
            try:
                now = time.clock_gettime(time.pthread_getcpuclockid(thread))
            except (OSError, ProcessLookupError):
                continue  # the thread has just ended
            part, step = ("recorder", None) if thread == me else _whose(frame)
            spent = max(0.0, now - before.get(thread, 0.0))
            used[part] += spent
            if step is not None:
                steps[step] += spent
            before[thread] = now
        if look % _WRITE_EVERY == 0:
            out.write(json.dumps({"cpu": _rounded(used), "steps": _rounded(steps)}) + "\n")


def _rounded(seconds: dict[str, float]) -> dict[str, float]:
    return {name: round(each, 4) for name, each in seconds.items()}


def _whose(frame: FrameType | None) -> tuple[str, str | None]:
    """Returns the part, and the function as `file:name` with the last folders. For a loop between callbacks, the
    function is None.
    """
    while frame is not None and frame.f_code.co_name not in _LOOPS.get(Path(frame.f_code.co_filename).name, ()):
        if (part := _part(frame.f_code.co_filename)) is not None:
            return part, f"{'/'.join(Path(frame.f_code.co_filename).parts[-3:])}:{frame.f_code.co_name}"
        frame = frame.f_back
    return "event loops and interpreter", None


@cache
def _part(file: str) -> str | None:
    """Returns the part of a file, or None for Python's own library and for other files."""
    if "site-packages" in file:
        package = Path(file).parts[Path(file).parts.index("site-packages") + 1]
        return "Microsoft's SDKs" if package == "azure" else "other packages"
    if Path(file).is_relative_to(ROOT):
        top = Path(file).relative_to(ROOT).parts[0]
        return "app" if top in _APP else "host" if top in _HOST else None
    return None
