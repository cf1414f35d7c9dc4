"""`GET /v1/protocols/{id}/versions`: counts of jobs are of all tenants, so only some callers get them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.access.caller import ANYONE, Caller, Scope
from shared.adapters.tables.protocol_versions import TablesProtocolVersions
from shared.wiring import Wiring
from tests.fake_tables import FakeAccount
from tests.operations.conftest import World, world
from tests.operations.support import submitted, swept
from triggers import protocols_http
from triggers.http.routes import build_blueprint

__all__ = ["world"]  # a fixture of the operations' tests

TENANT = Caller(actor="app:a", scopes=frozenset(Scope), tenant="tenant_a")
READER = Caller(actor="app:r", scopes=frozenset({Scope.READ}), tenant=None, sees_all=True)
MOVER = Caller(actor="app:m", scopes=frozenset(Scope), tenant=None, moves_all=True)


async def versions(world: World, caller: Caller, name: str = "ocr_embedding_sis") -> Any:
    """The JSON of the response, after a job and a sweep."""

    async def called(authorization: str | None) -> Caller:
        return caller

    async def fresh_context() -> Any:
        return world.context

    rows = TablesProtocolVersions(FakeAccount(), "gates")
    wiring = SimpleNamespace(
        callers=lambda: SimpleNamespace(caller=called),
        fresh_context=fresh_context,
        context=lambda: world.context,
        protocol_versions=lambda: rows,
        settings=world.context.settings,
        orchestrations=lambda client: None,
    )
    await submitted(world)
    await swept(world)
    app = df.DFApp()
    app.register_functions(build_blueprint([protocols_http], cast(Wiring, wiring)))
    [function] = [each for each in app.get_functions() if each.get_function_name() == "protocols_versions"]
    request = func.HttpRequest("GET", "/v1/protocols", route_params={"protocolId": name}, body=b"")
    return json.loads((await function.get_user_function()(request)).get_body())


@pytest.mark.parametrize(("caller", "jobs"), [(READER, 1), (ANYONE, 1), (TENANT, None), (MOVER, None)])
async def test_who_sees_all_tenants_sees_the_counts(world: World, caller: Caller, jobs: int | None) -> None:
    """The version and its definition are for every reader."""
    found = await versions(world, caller)
    [version] = found["versions"]
    assert (version["version"], version["loaded"], version["new_jobs_percent"], version["jobs"]) == (1, True, 100, jobs)
    assert (found["counted_at"] is None) == (jobs is None)
    assert [step["step_id"] for step in version["protocol"]["steps"]] == ["ocr", "embedding", "sis"]


async def test_an_unknown_protocol_is_a_problem(world: World) -> None:
    """404 with the known names."""
    problem = await versions(world, READER, "none")
    assert problem["code"] == "PROTOCOL_NOT_FOUND"
    assert "OCR" in problem["detail"]
