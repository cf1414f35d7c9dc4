"""`python -m emulator up|bus|host|appconfig|issuer|traces`: one program, a subcommand each.

Every subcommand is a module `emulator.<name>.command` with `HELP`, `add_arguments(parser)` and `run(args) -> int`.
"""

from __future__ import annotations

import argparse
import importlib
import sys

_COMMANDS = ("up", "bus", "host", "appconfig", "issuer", "traces")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m emulator", description=__doc__.splitlines()[0])
    subcommands = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(_COMMANDS) + "}")
    modules = {name: importlib.import_module(f"emulator.{name}.command") for name in _COMMANDS}
    for name, module in modules.items():
        module.add_arguments(subcommands.add_parser(name, help=module.HELP, description=module.HELP))
    args = parser.parse_args(argv)
    return int(modules[args.command].run(args))


if __name__ == "__main__":
    sys.exit(main())
