"""Checks alert rules against Azure's table of metrics, and against the columns that a rule's own query returns.

Resource Manager accepts a rule with a metric that does not exist. With `skipQueryValidation`, Resource Manager also
accepts a measure that the query does not return. Such a rule never fires.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.checks import kql
from infra.checks.finding import Finding
from infra.checks.snapshots import Snapshot

_METRICS: dict[str, Any] = json.loads((Path(__file__).parent / "azure_metrics.json").read_text(encoding="utf-8"))
METRIC, LOG = "Microsoft.Insights/metricAlerts", "Microsoft.Insights/scheduledQueryRules"


def check(snapshot: Snapshot) -> list[Finding]:
    return [
        snapshot.finding("alert", rule, reason)
        for rule in snapshot.of(METRIC, LOG)
        for criterion in rule.get("properties.criteria.allOf")
        for reason in (_metric(criterion) if rule.type == METRIC else _log(criterion))
    ]


def _dimensions(criterion: dict[str, Any]) -> list[str]:
    return [each["name"] for each in criterion.get("dimensions") or []]


def _metric(criterion: dict[str, Any]) -> list[str]:
    namespace, name = criterion["metricNamespace"], criterion["metricName"]
    known = _METRICS.get(namespace, {}).get(name)
    if known is None:
        return [f"{namespace} has no metric {name} (azure_metrics.json)"]
    aggregation = criterion["timeAggregation"]
    reasons = [] if aggregation in known["aggregations"] else [f"{name} has no aggregation {aggregation}"]
    return reasons + [
        f"{name} has no dimension {each}" for each in _dimensions(criterion) if each not in known["dimensions"]
    ]


def _log(criterion: dict[str, Any]) -> list[str]:
    try:
        query = kql.read(criterion["query"])
    except kql.UnreadableQuery as unread:
        return [str(unread)]
    named = [criterion["metricMeasureColumn"], *_dimensions(criterion)]
    return [
        f"the query of the alert returns no column {name}"
        for name in named
        if query.output is None or name not in query.output
    ]
