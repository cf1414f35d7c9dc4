"""Pages of `GET /v1/deadletters`."""

from __future__ import annotations

import json

import azure.functions as func

from shared.access.caller import ANYONE
from tests.operations.conftest import World, world
from tests.operations.support import dispatch, service_sends, submitted
from tests.triggers.http.waiting_requests import request
from triggers import jobs_http

__all__ = ["world"]  # a fixture of the operations' tests


async def test_a_list_of_a_correlation_id_continues(world: World) -> None:
    """Its cursors are those of the list of jobs."""
    expected = {await submitted(world, idempotency_key=each, correlation_id="mail-7") for each in "ab"}
    for job_id in expected:
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", 1, status="FAILED_FINAL", result_ref=None)
    found: set[str] = set()
    params = {"correlation_id": "mail-7", "tenant_id": "tenant_a", "limit": "1"}
    for _ in expected:
        http = func.HttpRequest("GET", "/v1/deadletters", params=params, route_params={}, body=b"")
        page = json.loads((await jobs_http._dead_letters_list(request(world, ANYONE, http))).get_body())
        found |= {each["jobId"] for each in page["deadletters"]}
        params["cursor"] = page["next"]
    assert found == expected
