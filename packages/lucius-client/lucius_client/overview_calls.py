"""Requests for the overview and for a document's lane, with the functions that read their responses."""

from __future__ import annotations

from lucius_client.calls import Call, _reader, page
from lucius_client.models import DashboardMetrics, Routing


def dashboard_metrics(tenant: str | None) -> Call[DashboardMetrics]:
    return Call(page("/v1/dashboard/metrics", {"tenant": tenant}), _reader(DashboardMetrics))


def routing(tenant: str | None, doc_id: str | None, mode: str | None) -> Call[Routing]:
    return Call(page("/v1/routing", {"tenant": tenant, "doc_id": doc_id, "mode": mode}), _reader(Routing))
