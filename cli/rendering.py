"""The three forms of an answer: a table for people, JSON for programs, ids for pipes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.board import coloured

Json = dict[str, Any]
Cell = str | Text
Columns = Sequence[tuple[str, Callable[[Json], Cell]]]


class Form(StrEnum):
    TABLE = "table"
    JSON = "json"
    IDS = "ids"


def console() -> Console:
    """Standard output; without a terminal a table is as wide as it needs, so that no id is cut."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=500, no_color=True, highlight=False)


def show(form: Form, rows: list[Json], columns: Columns, id_of: Callable[[Json], str], document: Any) -> None:
    """Prints `rows` as a table or as ids, or `document` as JSON."""
    if form is Form.JSON:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif form is Form.IDS:
        for row in rows:
            print(id_of(row))
    else:
        console().print(table(rows, columns))


def table(rows: list[Json], columns: Columns) -> Table:
    drawn = Table(box=None, pad_edge=False)
    for heading, _ in columns:
        drawn.add_column(heading, header_style="bold", overflow="fold")
    for row in rows:
        drawn.add_row(*(cell(row) for _, cell in columns))
    return drawn


def field(name: str) -> Callable[[Json], Cell]:
    """The field as text that is never read as markup; what is missing is a dash."""

    def cell(row: Json) -> Cell:
        value = row.get(name)
        if name == "status" and isinstance(value, str):
            return coloured(value)
        if value is None or value == "":
            return Text("-")
        return Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    return cell


JOBS: Columns = [
    ("job", field("jobId")),
    ("tenant", field("tenant_id")),
    ("type", field("request_type")),
    ("status", field("status")),
    ("step", field("current_step_id")),
    ("created", field("created_at")),
]
STEPS: Columns = [
    ("step", field("stepId")),
    ("type", field("step_type")),
    ("status", field("status")),
    ("attempt", field("attempt_no")),
    ("error", field("last_error_code")),
    ("result", lambda step: Text((step.get("result_ref") or {}).get("uri", "-"))),
]
EVENTS: Columns = [
    ("seq", field("seq")),
    ("at", field("at")),
    ("event", field("type")),
    ("step", field("stepId")),
    ("attempt", field("attempt_no")),
    ("from", field("from_status")),
    ("to", field("to_status")),
    ("job", field("job_to")),
    ("actor", field("actor")),
    ("reason", field("reason")),
]
PROTOCOLS: Columns = [
    ("request type", field("request_type")),
    ("version", field("version")),
    ("steps", lambda protocol: Text(" > ".join(step["step_id"] for step in protocol["steps"]))),
    ("what it does", field("description")),
]
