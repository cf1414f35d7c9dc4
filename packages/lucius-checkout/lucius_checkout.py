"""Commands of `lucius` that need the checkout. `lucius` finds them by their entry points."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import typer
from typer.core import TyperGroup

_ROOT = Path(__file__).resolve().parents[2]


class _Up(TyperGroup):
    """Hands all its words to `emulator.up.command`, where the options have their one home."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.args = list(args)
        return []

    def invoke(self, ctx: typer.Context) -> None:  # type: ignore[override]
        if not (_ROOT / "emulator" / "up").is_dir():
            typer.echo("lucius up: there is no checkout of LUCIUS here: run `make setup` in one", err=True)
            raise typer.Exit(2)
        # a checkout is no package: its folders are found by the path
        sys.path.insert(0, str(_ROOT))
        from emulator.up import command, data_dir

        parser = argparse.ArgumentParser(prog="lucius up", description=command.HELP)
        command.add_arguments(parser)
        # the data of `make up`, wherever this is typed
        parser.set_defaults(data=_ROOT / data_dir.DEFAULT)
        raise typer.Exit(command.run(parser.parse_args(ctx.args)))


up = typer.Typer(cls=_Up, help="Run the local stack of a checkout until Ctrl-C (`make up`).")
