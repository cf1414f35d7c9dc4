"""A service as a program: `run()` for a team's own `__main__`, and the command `lucius-service`."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Mapping

from lucius_service import child, log_lines, tracing
from lucius_service.children import CHILD_VARIABLE
from lucius_service.settings import SettingsError, read_settings
from lucius_service.step import Step


def run(name: str, build: Callable[[Mapping[str, str]], Step]) -> int:
    """Serves the step that `build` makes from the environment. Prints `ready {name}` once it listens on all its lanes.

    Returns 0 after an orderly stop, and 1, with one line on stderr, where the service cannot start.
    """
    # BLAS and tokenizers would start a thread a core each, in several processes that share the machine
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


def main(argv: list[str] | None = None) -> int:
    """`lucius-service MODULE:CLASS`: serves the step of this class, which is created without arguments.

    The module may be in the current folder. Returns what `run` returns, and 2, with one line on stderr, where the
    class cannot be imported or created.
    """
    parser = argparse.ArgumentParser(prog="lucius-service", description="Serve one kind of step over Service Bus.")
    parser.add_argument("step", metavar="MODULE:CLASS", help="a class with the methods of lucius_service.step.Step")
    path: str = parser.parse_args(argv).step
    sys.path.insert(0, os.getcwd())
    try:
        step = _create(path)
        name = step.step_type.lower()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        print(f"lucius-service: {path}: {error}", file=sys.stderr)
        return 2
    return run(name, lambda environ: step)


def _create(path: str) -> Step:
    """Raises ImportError, AttributeError, TypeError or ValueError."""
    module, separator, name = path.partition(":")
    if not (module and separator and name):
        raise ValueError("must be MODULE:CLASS, as in my_module:MyStep")
    step: Step = getattr(importlib.import_module(module), name)()
    return step
