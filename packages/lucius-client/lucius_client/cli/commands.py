"""How a command gets its name, its older names and its examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer


def add(app: typer.Typer, names: str, command: Callable[..., Any], *examples: str) -> None:
    """Adds a command; `names` are its name and then older ones, which work and are not listed: `update change`.

    `examples` are one or two lines that its help shows.
    """
    epilog = "\n\n".join(["Examples:", *examples])
    name, *older = names.split()
    app.command(name, epilog=epilog)(command)
    for each in older:
        app.command(each, hidden=True, epilog=epilog)(command)
