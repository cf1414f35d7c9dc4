"""`python -m platform_service NAME`: one service process. NAME is a folder here whose `step.py` has `build`."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from lucius_service.program import run


def names() -> list[str]:
    """The services that there are."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/step.py"))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="platform_service", description="one platform service of this repository")
    parser.add_argument("service", choices=names(), help="which step to serve")
    name: str = parser.parse_args(argv).service
    # each service imports only its own libraries, since they take time and memory
    return run(name, lambda environ: importlib.import_module(f"platform_service.{name}.step").build(environ))


if __name__ == "__main__":
    sys.exit(main())
