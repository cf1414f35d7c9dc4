"""The routes that require a token, with a path and a body for each."""

from __future__ import annotations

from typing import Any

from triggers.http.routes import Route
from triggers.registered import ROUTES

GUARDED = [route for route in ROUTES if route.scope is not None]
OF_A_JOB = [route for route in GUARDED if "{jobId}" in route.path]


def path_of(route: Route, job_id: str = "job_1") -> str:
    names = {"jobId": job_id, "rejectedId": "rej_1795247970000_0123456789abcdef01234567", "protocolId": "ocr"}
    names |= {"gate": "0123456789abcdef", "bulkId": f"bulk_{'0' * 29}", "incidentId": f"inc_{job_id}"}
    names |= {"hookId": f"hook_{'0' * 32}", "number": "1", "name": "report.json"}
    return "/" + route.path.format(**names)


def body_of(route: Route) -> dict[str, Any]:
    """Returns a valid body for a route that moves a job."""
    bodies = {"POST": {"reason": "test"}, "PATCH": {"reason": "test", "priority": "high"}}
    return {"json": bodies[route.method]} if route.method in bodies else {}
