"""Commands of `lucius` that need a checkout of LUCIUS. `lucius` finds these commands by their entry points."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import typer
from typer.core import TyperGroup

_ROOT = Path(__file__).resolve().parents[2]


class _Handed(TyperGroup):
    """A command that forwards all arguments to a module of the checkout, which defines the options."""

    #: the module, with `HELP`, `add_arguments(parser)` and `run(args) -> int`
    module = ""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        ctx.args = list(args)
        return []

    def invoke(self, ctx: typer.Context) -> None:  # type: ignore[override]
        name = f"lucius {ctx.info_name}"
        if not _ROOT.joinpath(*self.module.split(".")[:-1]).is_dir():
            typer.echo(
                f"{name}: {_ROOT} is not a checkout of LUCIUS; use .venv/bin/lucius of a checkout after `make setup`",
                err=True,
            )
            raise typer.Exit(2)
        # a checkout is not installed, so its folders must be on the path
        sys.path.insert(0, str(_ROOT))
        command = importlib.import_module(self.module)
        parser = argparse.ArgumentParser(prog=name, description=command.HELP)
        command.add_arguments(parser)
        raise typer.Exit(command.run(self.parsed(parser, ctx.args)))

    def parsed(self, parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
        return parser.parse_args(words)


class _Up(_Handed):
    module = "emulator.up.command"

    def parsed(self, parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
        from emulator.up import data_dir

        # the data of `make up`, from any current folder
        parser.set_defaults(data=_ROOT / data_dir.DEFAULT)
        return super().parsed(parser, words)


class _Tape(_Handed):
    module = "tape.command"


up = typer.Typer(cls=_Up, help="Run the local stack of a checkout until Ctrl-C (`make up`).")
tape = typer.Typer(cls=_Tape, help="Play recorded traffic against a protocol or a version of the app.")
