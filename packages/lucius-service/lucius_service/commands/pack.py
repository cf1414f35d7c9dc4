"""`lucius pack`: commands for teams that write a pack. `lucius` loads this module by its entry point."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from lucius_service.pack import MANIFEST, Manifest, PackInvalid, plan_hash, read_pack

app = typer.Typer(help="Create a pack, and print the hash of a pack.", no_args_is_help=True)

_PROGRAM = '''"""A pack of LUCIUS. The run's log has this program's output, and `artifacts/` has the run's artifacts."""

import json
import os
import sys
from pathlib import Path


def main() -> int:
    inputs = json.loads(Path(os.environ["LUCIUS_INPUTS"]).read_text("utf-8"))
    document = Path(os.environ["LUCIUS_INPUT"]).read_bytes()
    print(f"read {len(document)} bytes; inputs: {inputs}")
    result = {"bytes": len(document), "inputs": inputs}
    Path(os.environ["LUCIUS_ARTIFACTS"], "result.json").write_text(json.dumps(result), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
'''


@app.callback()
def _group() -> None:
    """Keeps the name of a command in the command line, even if the group has only one command."""


@app.command("new", epilog="Examples:\n\nlucius pack new word-count --dir packs")
def new(
    pack_id: Annotated[
        str, typer.Argument(metavar="ID", help="Id of the pack and name of its folder, for example word-count.")
    ],
    folder: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Folder to create the pack in. Default: the current folder.")
    ] = Path(),
) -> None:
    """Create a pack from a template.

    Writes pack.json and main.py into the folder ID.
    Exits with 2 if the id is invalid, or if the folder exists or cannot be written.
    """
    place = folder / pack_id
    text = json.dumps({"packId": pack_id, "packVersion": "1.0.0"}, indent=2) + "\n"
    try:
        Manifest.model_validate_json(text)
    except ValueError:
        _refuse(f"{pack_id!r} is not a valid pack id; use 1 to 63 of a-z, 0-9 and -, a letter first")
    try:
        place.mkdir(parents=True)
        (place / MANIFEST).write_text(text, "utf-8")
        (place / "main.py").write_text(_PROGRAM, "utf-8")
    except OSError as error:
        _refuse(f"{place}: {error.strerror}")
    for path in (MANIFEST, "main.py"):
        typer.echo(place / path)


@app.command("hash", epilog="Examples:\n\nlucius pack hash packs/word-count")
def hash_(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the pack. Default: the current folder.")
    ] = Path(),
) -> None:
    """Print the planHash of a pack.

    A job names the planHash. The runner runs the pack only if the runner's copy has the same planHash.
    Exits with 2 if the folder is not a valid pack.
    """
    try:
        typer.echo(plan_hash(read_pack(folder)))
    except PackInvalid as error:
        _refuse(str(error))


def _refuse(line: str) -> NoReturn:
    """Exits with code 2 and one line on stderr."""
    typer.echo(f"lucius pack: {line}", err=True)
    raise typer.Exit(2)
