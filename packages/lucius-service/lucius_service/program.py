"""A service as a program: what a team calls from its own `__main__`, and the command `lucius-service`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Mapping

from lucius_service import log_lines, tracing
from lucius_service.settings import SettingsError, read_settings
from lucius_service.step import Step


def run(name: str, build: Callable[[Mapping[str, str]], Step]) -> int:
    """Serves the step that `build` makes from the environment. Prints `ready {name}` once it listens on all its lanes.

    Returns 0 after an orderly stop; 1, with one line on stderr, for what keeps it from starting.
    """
    # BLAS and tokenizers would start a thread a core each, in several processes that share the machine
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        settings = read_settings(os.environ)
        log_lines.configure(name, settings.logs)
        tracing.configure(os.environ, name)
        from lucius_service.service import serve

        return asyncio.run(serve(build(os.environ), settings, on_ready=lambda: print(f"ready {name}", flush=True)))
    except (SettingsError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def main() -> None:
    """`lucius-service MODULE:CLASS`: serves a step's class, made without arguments."""
    parser = argparse.ArgumentParser(prog="lucius-service", description="Serve one kind of step over Service Bus.")
    parser.add_argument("step", metavar="MODULE:CLASS", help="a class like lucius_service.step.Step")
    name = parser.parse_args().step
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        step = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, ValueError) as error:
        parser.error(f"{name}: {error}")
    sys.exit(run(step.step_type.lower(), lambda environ: step))
