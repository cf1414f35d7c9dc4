"""`lucius service`: what a team that writes a service types. `lucius` finds it by its entry point."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Write a platform service, and judge it.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps the name of each command in the command line, however many there are."""


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The service, as in summary: its subscription's name.")],
    step_type: Annotated[str, typer.Option("--step-type", metavar="X", help="Its step type, as in SUMMARY.")],
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="A checkout of LUCIUS, or any folder. Default: this one.")
    ] = Path(),
) -> None:
    """Write a service: code, test, payload schema, protocol, topology line and Dockerfile. Exit code 2: it exists."""
    from lucius_service.commands.new import NotMade, make

    try:
        made = make(name, step_type, folder)
    except NotMade as error:
        refuse(str(error))
    for path in made.files:
        typer.echo(path)
    typer.echo(made.next_steps)


def refuse(line: str) -> None:
    """One line on stderr, and exit code 2."""
    typer.echo(f"lucius service: {line}", err=True)
    raise typer.Exit(2)
