"""A service as a program: what a team calls from its own `__main__`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

from lucius_service import log_lines, tracing
from lucius_service.settings import Settings, SettingsError, read_settings
from lucius_service.step import Step


def run(name: str, build: Callable[[Settings], Step]) -> int:
    """Serves the step that `build` makes. 0 after an orderly stop; 1 with one line on stderr for what keeps it from
    starting. Prints `ready {name}` on stdout once it listens on all its lanes."""
    # BLAS and tokenizers would start a thread a core each, in several processes that share the machine
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        settings = read_settings(os.environ)
        log_lines.configure(name, settings.logs)
        tracing.configure(os.environ, name)
        from lucius_service.service import serve

        return asyncio.run(serve(build(settings), settings, on_ready=lambda: print(f"ready {name}", flush=True)))
    except (SettingsError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
