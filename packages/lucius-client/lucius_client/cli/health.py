"""`lucius health`: whether the API lives and has what it needs."""

from __future__ import annotations

from rich.text import Text

from lucius_client.cli import rendering
from lucius_client.cli.rendering import Columns, field
from lucius_client.cli.session import Session, with_session

DEPENDENCIES: Columns = [
    ("dependency", field("name")),
    ("status", lambda row: Text(row["status"], style="green" if row["status"] == "ok" else "red")),
    ("since", field("since")),
    ("reason", field("reason")),
]


@with_session
def health(session: Session) -> None:
    """Live, ready, and each thing that LUCIUS needs. Exit code 3 where it is not ready, 4 where nobody answers."""
    session.client.live()
    readiness = session.client.ready().plain()
    if not session.for_people:
        session.show([readiness], [], lambda each: str(each["status"]), readiness)
        return
    screen = rendering.console()
    build = readiness.get("build") or {}
    screen.print(
        f"{readiness['status']}  version {build.get('version')}  commit {build.get('commit') or '-'}", highlight=False
    )
    rows = [{"name": name, **state} for name, state in (readiness.get("dependencies") or {}).items()]
    screen.print(rendering.table(rows, DEPENDENCIES))
