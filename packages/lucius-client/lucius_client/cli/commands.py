"""Registers commands with their name, older names and examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def add(app: typer.Typer, names: str, command: Callable[..., Any], *examples: str) -> None:
    """Adds a command. `names` has its name and then its hidden older names, such as `update change`.

    `examples` are one or two lines for the command's help.
    """
    epilog = "\n\n".join(["Examples:", *examples])
    name, *older = names.split()
    app.command(name, epilog=epilog)(command)
    for each in older:
        app.command(each, hidden=True, epilog=epilog)(command)
