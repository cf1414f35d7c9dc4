"""The session of a command that uses the API: a client, and the output format."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from lucius_client import DEFAULT_URL, Client, LuciusError, Retries
from lucius_client.cli import credentials, rendering
from lucius_client.cli.exits import cli_error
from lucius_client.cli.rendering import Columns, Json, OutputFormat

#: what the API asks for while a part of it does not respond
_LONGEST_S = 5.0
#: a person waits: only faults that pass within seconds are bridged
RETRIES = Retries(attempts=3, first_s=0.25, longest_s=_LONGEST_S)
#: while jobs are watched, two minutes and more: a host that restarts is ready again by then
WATCH_RETRIES = Retries(attempts=60, first_s=0.25, longest_s=_LONGEST_S)

ApiOption = Annotated[str, typer.Option("--api", envvar="LUCIUS_API", metavar="URL", help="The HTTP API.")]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="LUCIUS_TOKEN", metavar="TOKEN", help="A bearer token, instead of the one of `lucius login`."
    ),
]
OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="A table for people, JSON for programs, ids for pipes.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as -o json.")]


@dataclass
class Session:
    """The API and the output of one command."""

    api: str
    token: str | None
    output: OutputFormat

    @cached_property
    def client(self) -> Client:
        return self.connect(RETRIES)

    def connect(self, retries: Retries) -> Client:
        """Another client of the same API. Raises UsageError where the token of the login has expired."""
        return Client(self.api, token=self.token or credentials.access_token(self.api), retries=retries)

    @property
    def for_people(self) -> bool:
        return self.output is OutputFormat.TABLE

    @property
    def progress(self) -> Console:
        """The console for progress: stderr where stdout is for a program."""
        return rendering.console() if self.for_people else rendering.console(stderr=True)

    def show(self, rows: list[Json], columns: Columns, id_of: Callable[[Json], str], document: Any = None) -> None:
        """Prints `rows` in the output format; `document` is printed as JSON in their place, None: `rows`."""
        rendering.show(self.output, rows, columns, id_of, rows if document is None else document)


def with_session(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that all commands share to `command`, and passes the session made from them as `session`."""
    hints = get_type_hints(command, include_extras=True)
    own = [each for each in inspect.signature(command).parameters.values() if each.name != "session"]
    parameters = [each.replace(annotation=hints[each.name]) for each in own]
    for name, annotation, default in (
        ("api", ApiOption, DEFAULT_URL),
        ("token", TokenOption, None),
        ("output", OutputOption, OutputFormat.TABLE),
        ("json", JsonOption, False),
    ):
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )

    def run(*arguments: Any, api: str, token: str | None, output: OutputFormat, json: bool, **options: Any) -> Any:
        session = Session(api, token or None, OutputFormat.JSON if json else output)
        try:
            return command(*arguments, session=session, **options)
        except LuciusError as error:
            raise cli_error(error, api) from error

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
