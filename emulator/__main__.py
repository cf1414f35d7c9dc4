"""The local stack of LUCIUS, and its parts as subcommands.

`python -m emulator SUBCOMMAND`. Each subcommand is a module with `HELP`, `add_arguments(parser)` and
`run(args) -> int`. `bus` and `host` come from the packages `servicebus-emulator` and `functions-emulator`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

_COMMANDS = {
    "up": "emulator.up.command",
    "reset": "emulator.up.data_dir",
    "bus": "servicebus_emulator.command",
    "host": "functions_emulator.command",
    "appconfig": "emulator.appconfig.command",
    "issuer": "emulator.issuer.command",
    "traces": "emulator.traces.command",
}
#: configuration of LUCIUS's own entities, which `bus` serves by default
_BUS_CONFIG = Path(__file__).resolve().parents[1] / "infra" / "bus" / "Config.json"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m emulator", description=__doc__.splitlines()[0])
    subcommands = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(_COMMANDS) + "}")
    modules = {name: importlib.import_module(module) for name, module in _COMMANDS.items()}
    for name, module in modules.items():
        subcommand = subcommands.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(subcommand)
        subcommand.set_defaults(default_config=_BUS_CONFIG)
    args = parser.parse_args(argv)
    return int(modules[args.command].run(args))


if __name__ == "__main__":
    sys.exit(main())
