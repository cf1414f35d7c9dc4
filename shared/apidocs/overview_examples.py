"""Examples of the overview and of a document's lane, made by the code that makes the responses."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from shared.api.dashboard import dashboard_metrics, routing
from shared.api.health import DependencyState
from shared.apidocs.json_schema import JsonObject, dumped
from shared.core.jobs.routing import LaneDecision
from shared.core.minutes import MinuteCounts
from shared.core.overview import Overview, Service

_AT = datetime(2026, 1, 27, 10, 1, tzinfo=UTC)


def by_model() -> JsonObject:
    """Returns an example of each response, by the name of its model."""
    overview = Overview(
        at=_AT,
        tenant="tenant_a",
        swept_at=_AT - timedelta(seconds=20),
        active=Counter({"IN_PROGRESS": 2}),
        services=[Service(name="ocr")],
        minutes={_AT - timedelta(minutes=1): MinuteCounts(ends=Counter({("tenant_a", "SUCCEEDED", ""): 3}))},
    )
    tables = DependencyState(status="ok", since=_AT - timedelta(hours=1))
    decision = LaneDecision(3, "tenant_a|doc_8", "DEFAULT", "GLOBAL_CONFIG", "default mode")
    return {
        "DashboardMetrics": dumped(dashboard_metrics(overview, None, {"tables": tables}, lanes=16)),
        "Routing": dumped(routing("tenant_a", "doc_8", decision, "global-bus-replies-p")),
    }
