"""What `lucius` writes, in three formats: a table for people, JSON for programs, ids for pipes.

All output of the commands goes through `write`, `write_json` and `console`. What others wrote into a job (labels,
reasons, errors of services) may hold characters that a terminal obeys instead of showing them: those never get there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

Json = dict[str, Any]
Cell = str | Text
Columns = Sequence[tuple[str, Callable[[Json], Cell]]]

#: Controls of ECMA-48 (C0 but for tab and line feed, DEL, C1), the embeddings, overrides and isolates of Unicode's
#: bidirectional algorithm (UAX #9), and surrogates, which no output can encode.
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_COLOURS = {"SUCCEEDED": "green", "FAILED_FINAL": "red", "FAILED_RETRY": "yellow", "CANCELLED": "magenta"}


class OutputFormat(StrEnum):
    TABLE = "table"
    JSON = "json"
    IDS = "ids"


def visible(text: str) -> str:
    """`text` with U+FFFD in place of each character that a terminal would obey; tabs and line feeds stay."""
    return _COMMANDS.sub("\N{REPLACEMENT CHARACTER}", text)


def write(text: str, *, stderr: bool = False) -> None:
    """Writes a line, or several, to stdout or stderr."""
    print(visible(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def json_text(document: Any) -> str:
    """`document` as indented JSON, in which such characters are escapes: they stand in strings only."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write_json(document: Any) -> None:
    """Writes `document` to stdout, as `json_text` has it."""
    print(json_text(document))


class _Screen(Console):
    """A console whose text is `visible` and never markup; colours and movements of the cursor are its own."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr. Without a terminal it has no colours, and room for tables with whole ids."""
    plain = _Screen(stderr=stderr, markup=False, emoji=False)
    if plain.is_terminal:
        return plain
    return _Screen(stderr=stderr, markup=False, emoji=False, width=500, no_color=True, highlight=False)


def coloured(status: str) -> Text:
    return Text(status, style=_COLOURS.get(status, "cyan"))


def show(output: OutputFormat, rows: list[Json], columns: Columns, id_of: Callable[[Json], str], document: Any) -> None:
    """Prints `rows` as a table or as ids, or `document` as JSON."""
    if output is OutputFormat.JSON:
        write_json(document)
    elif output is OutputFormat.IDS:
        for row in rows:
            write(id_of(row))
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


def artifacts(steps: list[Json]) -> list[Json]:
    """A row for each artefact of each step, and for what the step wrote at the caller's place."""
    rows: list[Json] = []
    for step in steps:
        result = step.get("result") or {}
        written = [{"name": "output_ref", **result["output_ref"]}] if result.get("output_ref") else []
        rows += [{"stepId": step["stepId"], **each} for each in (*written, *(result.get("artifacts") or ()))]
    return rows


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
#: of the rows that `artifacts` gives
ARTIFACTS: Columns = [
    ("step", field("stepId")),
    ("artifact", field("name")),
    ("type", field("media_type")),
    ("bytes", field("size")),
    ("at", field("uri")),
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
    ("gates s", field("gated_s")),
    ("other jobs s", field("dependent_s")),
    ("paused s", field("paused_s")),
]
