"""`lucius version` and `lucius health`: the client and its API."""

from __future__ import annotations

from importlib.metadata import version as installed

from rich.text import Text

from lucius_client import LuciusError
from lucius_client.cli import rendering
from lucius_client.cli.rendering import Json
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import Column, Listing, print_page

VERSIONS = Listing("versions", lambda found: str(found["client"]["version"]), ())
STATES = Listing("states", "status", ())
DEPENDENCIES = Listing(
    "dependencies",
    "name",
    (
        Column("dependency", "name"),
        Column("status", lambda row: Text(row["status"], style="green" if row["status"] == "ok" else "red")),
        Column("since", "since", at=True, drop=2),
        Column("reason", "reason", room=12, drop=1),
    ),
)


def client_version() -> str:
    return installed("lucius-client")


@with_session
def version(session: Session) -> None:
    """Show the versions of this client and of the API.

    The exit code is 4 if the API does not respond.
    """
    found: Json = {"client": {"version": client_version()}, "server": None}
    failed: LuciusError | None = None
    try:
        found["server"] = session.client.live().build.plain()
    except LuciusError as error:
        failed = error
    if session.for_people:
        print_page(
            rendering.console(), [("client", client_version()), ("server", _server(found["server"], session.api))]
        )
    else:
        session.show(VERSIONS, [found], found)
    if failed is not None:
        raise failed


@with_session
def health(session: Session) -> None:
    """Show the readiness of the API and its dependencies.

    Warns on stderr about settings that have no effect. If you see all tenants,
    also warns about invalid protocols.

    Exit codes:
    0: the API is ready
    3: a dependency is down
    4: the API does not respond
    """
    session.client.live()
    readiness = session.client.ready().plain()
    if not session.for_people:
        session.show(STATES, [readiness], readiness)
        return
    build = readiness.get("build") or {}
    rendering.write(f"{readiness['status']}  version {build.get('version')}  commit {build.get('commit') or '-'}")
    session.show(DEPENDENCIES, [{"name": name, **state} for name, state in readiness["dependencies"].items()])
    for problem in readiness["protocols"].get("problems") or ():
        rendering.write(f"warning: protocols: {problem}", stderr=True)
    for setting in readiness["settings_not_read"]:
        rendering.write(f"warning: {setting['name']} has no effect; replacement: {setting['instead']}", stderr=True)


def _server(build: Json | None, api: str) -> str | None:
    if build is None:
        return None
    return f"{build['version']}  commit {build.get('commit') or '-'}  {api}"
