"""Writes everything that is made from something else: tables and diagrams, API documents, client models, Config.json.

`python -m scripts.generate` rewrites the files, `--check` exits 1 where one is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from emulator import topology
from scripts.generate import api_documents, api_tables, bicep, client_models, protocol_schema
from shared.core.states import JobStatus, StepStatus
from shared.core.transitions import JOB_TABLE, STEP_TABLE
from shared.settings import SETTINGS
from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS, RESERVED
from shared.telemetry.span_table import SPANS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def diagram(table: Mapping[Any, Mapping[Any, Any]], first: StrEnum) -> str:
    """A Mermaid state diagram: an arrow for each pair of states, its events on it."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {first}"]
    for state, rows in table.items():
        arrows: dict[str, list[str]] = defaultdict(list)
        for event, row in rows.items():
            if row.to != state:
                arrows[row.to].append(event)
        lines += [f"    {state} --> {to}: {', '.join(events)}" for to, events in arrows.items()]
        if state.terminal:
            lines.append(f"    {state} --> [*]")
    return "\n".join([*lines, "```"])


def rules(table: Mapping[Any, Mapping[Any, Any]]) -> str:
    """Every row with the rule that it comes from."""
    lines = ["| from | event | to | rule |", "|---|---|---|---|"]
    lines += [
        f"| {state} | {event} | {row.to} | {row.source} |"
        for state, rows in table.items()
        for event, row in rows.items()
    ]
    return "\n".join(lines)


def settings() -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    lines += [f"| `{each.name}` | {f'`{each.default}`' if each.default else ''} | {each.help} |" for each in SETTINGS]
    return "\n".join(lines)


def metrics() -> str:
    lines = ["| metric | kind | attributes | meaning |", "|---|---|---|---|"]
    for each in METRICS:
        attributes = ", ".join(f"`{name}`" for name in each.attributes)
        lines.append(f"| `{each.name}` | {each.kind} | {attributes} | {each.meaning} |")
    return "\n".join(lines)


def reserved_metrics() -> str:
    return "\n".join(f"- `{name}`: {subject}" for name, subject in RESERVED)


def spans() -> str:
    lines = ["| span | kind | parent | meaning |", "|---|---|---|---|"]
    lines += [f"| `{each.name}` | {each.kind} | {each.parent} | {each.meaning} |" for each in SPANS]
    return "\n".join(lines)


def log_lines() -> str:
    lines = ["| `event` | level | meaning |", "|---|---|---|"]
    lines += [f"| `{each.event}` | {each.level} | {each.meaning} |" for each in LINES]
    return "\n".join(lines)


PARTS = {
    "job-diagram": lambda: diagram(JOB_TABLE, JobStatus.QUEUED),
    "step-diagram": lambda: diagram(STEP_TABLE, StepStatus.PENDING),
    "job-rules": lambda: rules(JOB_TABLE),
    "step-rules": lambda: rules(STEP_TABLE),
    "settings": settings,
    **api_tables.PARTS,
    "metrics": metrics,
    "reserved-metrics": reserved_metrics,
    "spans": spans,
    "log-lines": log_lines,
}


def render(text: str) -> str:
    """The document with each `<!-- generated: NAME -->` ... `<!-- end -->` filled anew."""

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}\n{PARTS[match[2]]()}\n<!-- end -->"

    return re.sub(r"(<!-- generated: ([a-z-]+) -->)\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where a document is out of date")
    check = parser.parse_args().check
    stale = []
    texts = {path: render(path.read_text(encoding="utf-8")) for path in sorted(DOCS.rglob("*.md"))}
    api = api_documents.files()
    texts |= {DOCS / name: text for name, text in api.items()}
    texts |= {protocol_schema.FILE: protocol_schema.text(), topology.CONFIG: topology.render()}
    texts |= bicep.files()
    texts |= {client_models.FILE: client_models.text(api["openapi.json"])}
    for path, fresh in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != fresh:
            stale.append(path.relative_to(DOCS.parent).as_posix())
            if not check:
                path.write_text(fresh, encoding="utf-8")
    if check and stale:
        print(f"out of date: {', '.join(stale)}; run python -m scripts.generate", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
