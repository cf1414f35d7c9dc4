"""`python -m platform_service NAME`: one service process. NAME is a folder here whose `step.py` has `build`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lucius_service.program import run
from lucius_service.step import Step
from platform_service.packs import privileges


def names() -> list[str]:
    """Returns the names of the services."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/step.py"))


def build(name: str, environ: Mapping[str, str]) -> Step:
    """Returns the step of a service. Each service imports only its own libraries, which take time and memory."""
    step: Step = importlib.import_module(f"platform_service.{name}.step").build(environ)
    return step


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="platform_service", description="serve a platform service of this repository")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("service", choices=names(), nargs="?", help="platform service to serve")
    chosen.add_argument("--load", nargs="+", choices=names(), help="load the models of these services, then exit")
    arguments = parser.parse_args(argv)
    if arguments.load:
        for each in arguments.load:
            build(each, os.environ).prepare()
        return 0
    name: str = arguments.service
    if name == "packs":
        privileges.give_up_others()
    return run(name, lambda environ: build(name, environ))


if __name__ == "__main__":
    sys.exit(main())
