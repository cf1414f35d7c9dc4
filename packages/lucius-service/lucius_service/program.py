"""A service as a program: `run()`, for a team's own `__main__` and for the command `lucius-service`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping

from lucius_service import child, log_lines, tracing
from lucius_service.children import CHILD_VARIABLE
from lucius_service.settings import SettingsError, read_settings
from lucius_service.step import Step


def run(name: str, build: Callable[[Mapping[str, str]], Step]) -> int:
    """Serves the step that `build` makes from the environment. Prints `ready {name}` when all lanes are open.

    Returns 0 after an orderly stop. Returns 1, with one line on stderr, if a setting is invalid, a child process cannot
    start, or an OSError occurs. Raises other errors of `build` and of the step's `prepare`.
    """
    # BLAS and tokenizers would start a thread per core, in several processes that share the machine
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        settings = read_settings(os.environ)
        log_lines.configure(name, settings.logs)
        tracing.configure(os.environ, name)
        descriptor = os.environ.pop(CHILD_VARIABLE, None)
        step = build(os.environ)
        if descriptor is not None:
            return child.serve(int(descriptor), step, settings)
        from lucius_service.service import serve

        return asyncio.run(serve(step, settings, on_ready=lambda: print(f"ready {name}", flush=True)))
    except (SettingsError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
