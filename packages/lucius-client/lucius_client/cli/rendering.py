"""The three output formats: a table for people, JSON for programs, ids for pipes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]
Cell = str | Text
Columns = Sequence[tuple[str, Callable[[Json], Cell]]]

_COLOURS = {"SUCCEEDED": "green", "FAILED_FINAL": "red", "FAILED_RETRY": "yellow", "CANCELLED": "magenta"}


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    IDS = "ids"


def coloured(status: str) -> Text:
    return Text(status, style=_COLOURS.get(status, "cyan"))


def console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr. Without a terminal it has no colours, and room for tables with whole ids."""
    plain = Console(stderr=stderr)
    return plain if plain.is_terminal else Console(stderr=stderr, width=500, no_color=True, highlight=False)


def show(output: OutputFormat, rows: list[Json], columns: Columns, id_of: Callable[[Json], str], document: Any) -> None:
    """Prints `rows` as a table or as ids, or `document` as JSON."""
    if output is OutputFormat.JSON:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif output is OutputFormat.IDS:
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
    """A column that shows the field `name` of a row, never as markup; a missing value is a dash."""

    def cell(row: Json) -> Cell:
        value = row.get(name)
        if name == "status" and isinstance(value, str):
            return coloured(value)
        if value is None or value == "":
            return Text("-")
        if isinstance(value, datetime):
            return Text(value.isoformat())
        return Text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))

    return cell


def job_id(job: Json) -> str:
    return str(job["jobId"])


def _labels(job: Json) -> Text:
    return Text(" ".join(f"{key}:{value}" for key, value in (job.get("labels") or {}).items()) or "-")


JOBS: Columns = [
    ("job", field("jobId")),
    ("tenant", field("tenant_id")),
    ("type", field("request_type")),
    ("status", field("status")),
    ("step", field("current_step_id")),
    ("labels", _labels),
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
DEAD_LETTERS: Columns = [
    ("job", field("jobId")),
    ("tenant", field("tenant_id")),
    ("type", field("request_type")),
    ("step", field("failed_step_id")),
    ("error", field("error_code")),
    ("last error", field("last_error_code")),
    ("attempts", field("attempts_total")),
    ("redriven by", field("redriven_by")),
    ("ended", field("completed_at")),
]
REJECTED: Columns = [
    ("message", field("id")),
    ("received", field("received_at")),
    ("reason", field("reason")),
    ("detail", field("detail")),
    ("lane", field("lane")),
    ("redriven", field("redriven_outcome")),
]
SPENT: Columns = [
    ("step", field("stepId")),
    ("attempts", field("attempts")),
    ("queue s", field("queue_s")),
    ("ack s", field("ack_s")),
    ("service s", field("service_s")),
    ("backoff s", field("backoff_s")),
    ("backlog s", field("backlog_s")),
    ("paused s", field("paused_s")),
]
