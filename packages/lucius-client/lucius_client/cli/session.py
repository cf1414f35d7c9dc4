"""The session of a command that uses the API: a client, and the output format."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console

from lucius_client import DEFAULT_URL, Client, LuciusError, Refused, Retries
from lucius_client.cli import credentials, ids, rendering
from lucius_client.cli.exits import cli_error
from lucius_client.cli.rendering import Json, OutputFormat
from lucius_client.cli.tables import Listing, page_of, print_page, print_table

#: maximum `Retry-After` that a command waits for: that of the API while its ledger does not respond
_LONGEST_S = 5.0
#: retries for a waiting person: only for faults that pass within seconds
RETRIES = Retries(attempts=3, first_s=0.25, longest_s=_LONGEST_S)
#: retries while jobs are watched, for two minutes and more, within which a restarted host is ready again
WATCH_RETRIES = Retries(attempts=60, first_s=0.25, longest_s=_LONGEST_S)

#: title of the options of all commands in the help
_PANEL = "Global options"
ApiOption = Annotated[
    str, typer.Option("--api", envvar="LUCIUS_API", metavar="URL", help="URL of the HTTP API.", rich_help_panel=_PANEL)
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        envvar="LUCIUS_TOKEN",
        metavar="TOKEN",
        help="Bearer token. Default: the token of `lucius login`.",
        rich_help_panel=_PANEL,
    ),
]
OutputOption = Annotated[
    OutputFormat,
    typer.Option(
        "--output",
        "-o",
        help="Output format. `wide` is a table with every column and exact times. `ids` is one id on each line.",
        rich_help_panel=_PANEL,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="The same as -o json.", rich_help_panel=_PANEL)]


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
        """Returns another client of the same API. Raises UsageError if the token of the login has expired or cannot be
        read.
        """
        return Client(self.api, token=self.token or credentials.access_token(self.api), retries=retries)

    def tenant(self, named: str | None) -> str | None:
        """Returns the tenant of a command: of the option or the environment or, without a token option, of the login.

        None leaves the choice to the API.
        """
        return named or (None if self.token else credentials.tenant(self.api))

    @property
    def for_people(self) -> bool:
        return self.output in (OutputFormat.TABLE, OutputFormat.WIDE)

    @property
    def progress(self) -> Console:
        """Returns the console for progress: stdout for people, stderr if stdout is for a program."""
        return rendering.console() if self.for_people else rendering.console(stderr=True)

    def show(self, listing: Listing, rows: list[Json], document: Any = None) -> None:
        """Prints `rows` as a table, as ids or as JSON. JSON is `document`, by default `rows`. Without rows, a table is
        one line on stderr.
        """
        if self.output is OutputFormat.JSON:
            rendering.write_json(rows if document is None else document)
        elif self.output is OutputFormat.IDS:
            for row in rows:
                rendering.write(listing.id_of(row))
        elif not rows:
            rendering.write(f"No {listing.noun}.", stderr=True)
        else:
            print_table(rendering.console(), listing, rows, wide=self.output is OutputFormat.WIDE)

    def show_one(self, listing: Listing, row: Json, document: Any = None) -> None:
        """Prints one row as a page, as an id, or as JSON. JSON is `document`, by default the row."""
        if self.for_people:
            print_page(rendering.console(), page_of(listing, row))
        else:
            self.show(listing, [row], row if document is None else document)


def with_session(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds to `command` the options that all commands share, and passes a session with these options as `session`.

    The wrapper fills in the tenant, and completes shortened ids.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [each for each in inspect.signature(command).parameters.values() if each.name != "session"]
    kinds = {each.name: kind for each in own for kind in _metadata(hints[each.name]) if isinstance(kind, ids.Kind)}
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
        if "tenant" in options:
            options["tenant"] = session.tenant(options["tenant"])
        try:
            return _called(partial(command, *arguments, session=session), session, kinds, options)
        except LuciusError as error:
            raise cli_error(error, api) from error

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _called(command: Callable[..., Any], session: Session, kinds: dict[str, ids.Kind], options: dict[str, Any]) -> Any:
    """Calls the command. If the API does not know an id in the options, or requires a tenant, calls the command again
    with complete ids and their tenant.
    """
    try:
        return command(**options)
    except Refused as error:
        again = ids.found(session.client, kinds, options, error) if kinds else None
        if again is None:
            raise
    return command(**again)


def _metadata(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__metadata__", ())
