"""Each query of the templates reads rows that the app sends to Azure Monitor, by a recording of it."""

from __future__ import annotations

import json
import re
from collections.abc import Set
from pathlib import Path

import pytest

from infra.checks import kql
from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS
from shared.telemetry.span_table import SpanName
from tests.observability.recorded_export import Row, Tables, record
from tests.running_stack import ROOT

QUERIES = sorted((ROOT / "infra" / "bicep" / "queries").glob("*.kql"))
#: not of the app: https://learn.microsoft.com/azure/azure-monitor/logs/daily-cap has the columns
PLATFORM = {"_LogOperation": {"Category", "Detail", "TimeGenerated"}}


@pytest.fixture(scope="module")
def tables() -> Tables:
    return record()


def unread(query: kql.Query, tables: Tables) -> list[str]:
    """Returns the columns of a query that no recorded row has; the rows are those of the metrics or spans that it
    names.
    """
    if query.table in PLATFORM:
        return sorted(query.columns - PLATFORM[query.table])
    rows = tables.get(query.table, [])
    missing = [name for name in query.names if not _named(rows, name)]
    read = [row for row in rows if not query.names or any(_named([row], name) for name in query.names)]
    missing += query.columns - _all(set(row) for row in read)
    properties = _all(set(row.get("Properties", {})) for row in read)
    lines = [json.loads(row["Message"]) for row in rows if str(row.get("Message")).startswith("{")]
    for column, key in query.keys:
        # a query calls a parsed line `Line`
        has = properties if column == "Properties" else _all(set(line) for line in lines)
        missing += [f"{column}['{key}']"] if key not in has else []
    return sorted(missing)


def _named(rows: list[Row], name: str) -> bool:
    """A name that ends in a blank is the beginning of a span's: `job OCR`."""
    return any(row["Name"] == name or (name.endswith(" ") and row["Name"].startswith(name)) for row in rows)


def _all(sets: object) -> Set[str]:
    return set().union(*sets)  # type: ignore[misc]  # of an iterable of sets


def test_the_recording_has_everything(tables: Tables) -> None:
    """The recording has each metric, each kind of span of the app and each log line; the host alone sends lines."""
    assert {metric.name for metric in METRICS} <= {row["Name"] for row in tables["AppMetrics"]}
    spans = " ".join(row["Name"] for table in ("AppRequests", "AppDependencies") for row in tables[table])
    assert [name for name in SpanName if name.value.split()[0].format(method="POST") not in spans] == []
    events = [json.loads(row["Message"])["event"] for row in tables["AppTraces"]]
    assert {line.event for line in LINES} <= set(events)


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path.stem)
def test_a_query_reads_what_is_sent(path: Path, tables: Tables) -> None:
    """Its table, columns, metrics and dimensions are in the recording, and a template loads it."""
    text = path.read_text(encoding="utf-8")
    assert unread(kql.read(text), tables) == []
    modules = "".join(each.read_text() for each in (ROOT / "infra" / "bicep" / "modules").glob("*.bicep"))
    assert f"queries/{path.name}'" in modules


@pytest.mark.parametrize(
    ("was", "becomes", "missing"),
    [
        ("outbox_oldest_seconds", "outbox_age_seconds", ["outbox_age_seconds", "Sum", "TimeGenerated"]),
        # a counter or a gauge is sent without it
        ("max(Sum)", "max(Max)", ["Max"]),
        ("AppMetrics", "customMetrics", ["outbox_oldest_seconds", "Name", "Sum", "TimeGenerated"]),
        ("max(Sum)", "max(Sum) by Kind = Properties['kind'],", ["Properties['kind']"]),
    ],
)
def test_a_query_that_reads_something_else_is_found(was: str, becomes: str, missing: list[str], tables: Tables) -> None:
    """A metric, a column, a table and a dimension that no row has."""
    text = next(path for path in QUERIES if path.stem == "stuck-dispatch").read_text()
    assert was in text
    found = unread(kql.read(text.replace(was, becomes).replace(", by bin", ", bin")), tables)
    assert set(missing) <= set(found)


def test_a_request_keeps_its_status_and_loses_its_route(tables: Tables) -> None:
    """The exporter replaces the attributes of `http.server.request.duration`: a query counts AppRequests instead."""
    duration = [row["Properties"] for row in tables["AppMetrics"] if row["Name"] == "http.server.request.duration"]
    assert [each for each in duration if "http.route" in each] == []
    assert ("POST /v1/orchestrate", "503") in {(row["Name"], row["ResultCode"]) for row in tables["AppRequests"]}


def test_every_row_of_the_app_carries_its_role(tables: Tables) -> None:
    """`app-down` knows the app by it."""
    text = next(path for path in QUERIES if path.stem == "app-down").read_text()
    [role] = re.findall(r"AppRoleName == '(\w+)'", text)
    own = {metric.name for metric in METRICS}
    assert {row["AppRoleName"] for row in tables["AppMetrics"] if row["Name"] in own} == {role}


@pytest.mark.parametrize("text", ["T\n| mv-expand A", "union A, B\n| where C", "T\n| summarize count()"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    """An operator, a table or a column that the reader does not know is not taken for read."""
    with pytest.raises(kql.UnreadableQuery):
        kql.read(text)
