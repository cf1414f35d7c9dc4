"""Runs the command `lucius-service`, which serves the step of a class. `--chaos SEED` adds faults for tests."""

from __future__ import annotations

import argparse
import importlib
import os
import sys

from lucius_service.program import run
from lucius_service.step import Step, declared


def main(argv: list[str] | None = None) -> int:
    """Serves the step of `lucius-service run MODULE:CLASS`. Creates the class without arguments.

    Returns the result of `run`. Returns 2, with one line on stderr, if the import, the creation or an attribute of the
    class raises ImportError, AttributeError, TypeError or ValueError.
    """
    parser = argparse.ArgumentParser(prog="lucius-service", description="Serve one type of step over Service Bus.")
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("run", help="serve the step of a class until SIGTERM")
    serving.add_argument("step", metavar="MODULE:CLASS", help="class with the methods of lucius_service.step.Step")
    serving.add_argument(
        "--chaos",
        type=int,
        metavar="SEED",
        help="for tests: delay, fail or repeat work, or kill the process; SEED selects the faults",
    )
    args = parser.parse_args(argv)
    path: str = args.step
    try:
        step = create_step(path)
        name = declared(step).subscription
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        print(f"lucius-service: {path}: {error}", file=sys.stderr)
        return 2
    if args.chaos is not None:
        from lucius_service.testing import Chaos

        step = Chaos(step, args.chaos)
    return run(name, lambda environ: step)


def create_step(path: str) -> Step:
    """Creates the step of `MODULE:CLASS`. The module may be in the current folder.

    Raises ImportError, AttributeError, TypeError or ValueError, and other errors of the module and the class.
    """
    sys.path.insert(0, os.getcwd())
    module, separator, name = path.partition(":")
    if not (module and separator and name):
        raise ValueError("must be MODULE:CLASS, as in my_module:MyStep")
    step: Step = getattr(importlib.import_module(module), name)()
    return step
