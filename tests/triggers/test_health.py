"""Readiness: the response without a token, and the parts that need one."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.access.caller import ANYONE, NOBODY, Caller, Scope
from shared.errors import KeysUnavailable
from shared.operations.process.context import Context
from shared.operations.process.readiness import Dependency
from shared.ports.sweeps import SweepMark
from shared.refusals import TokenInvalid, TokenMissing
from shared.wiring import Wiring
from tests.operations.conftest import World, world
from tests.operations.support import submitted, swept
from triggers import health_http
from triggers.http.routes import build_blueprint

__all__ = ["world"]  # a fixture of the operations' tests

PROBLEM = "lucius:tenants:contoso:mode: 'FAST' is not one of DEFAULT, BURST"
SCOPES = frozenset(Scope)
TENANT = Caller(actor="app:a", scopes=SCOPES, tenant="tenant_a")
READER = Caller(actor="app:r", scopes=frozenset({Scope.READ}), tenant=None, sees_all=True)
MOVER = Caller(actor="app:m", scopes=SCOPES, tenant=None, moves_all=True)


class ReadyWiring:
    """Everything is well, the last sweep counted one job, and App Configuration has a fault that names a tenant."""

    def __init__(self, context: Context, mark: SweepMark, caller: Caller | Exception) -> None:
        self._context, self._caller = context, caller
        self.readiness = SimpleNamespace(mark=mark)
        self.settings = context.settings

    def callers(self) -> ReadyWiring:
        return self

    async def caller(self, authorization: str | None) -> Caller:
        if isinstance(self._caller, Exception):
            raise self._caller
        return self._caller

    async def fresh_context(self) -> Context:
        return self._context

    async def look(self, orchestrations: Any) -> list[Dependency]:
        return [Dependency("tables", None, self._context.clock.now())]

    def orchestrations(self, client: Any) -> None:
        return None

    def catalog(self) -> Any:
        state = {"source": "app-configuration", "read_at": None, "problems": [PROBLEM]}
        return SimpleNamespace(state=lambda: state)


async def ready(world: World, caller: Caller | Exception) -> dict[str, Any]:
    await submitted(world)
    await swept(world)
    now = world.clock.now()
    counts = SimpleNamespace(
        active={"QUEUED": 1}, queued_since=now - timedelta(seconds=9), unacked=0, unacked_since=None
    )
    mark = SimpleNamespace(ended_at=now, looked_at=1, actions=0, more=False, counts=counts)
    app = df.DFApp()
    wiring = ReadyWiring(world.context, cast(SweepMark, mark), caller)
    app.register_functions(build_blueprint([health_http], cast(Wiring, wiring)))
    [function] = [each for each in app.get_functions() if each.get_function_name() == "health_ready"]
    request = func.HttpRequest("GET", "/v1/health/ready", headers={"Authorization": "Bearer s3cret"}, body=b"")
    answer = await function.get_user_function().client_function(request, None)
    assert answer.status_code == 200
    found: dict[str, Any] = json.loads(answer.get_body())
    assert (found["status"], found["dependencies"]["tables"]["status"], found["sweeper"]["late"]) == (
        "ready",
        "ok",
        False,
    )
    assert found["protocols"]["versions"]
    return found


@pytest.mark.parametrize(
    "caller",
    [TokenMissing(), TokenInvalid("it has expired"), KeysUnavailable(), NOBODY, TENANT, MOVER],
    ids=lambda each: type(each).__name__,
)
async def test_a_probe_learns_nothing_of_tenants(world: World, caller: Caller | Exception) -> None:
    """Without a token, with a wrong one, with that of one tenant: the status is ready, without counts and names."""
    found = await ready(world, caller)
    assert found["sweeper"]["work"] is None
    assert found["protocols"]["problems"] is None
    assert "contoso" not in json.dumps(found)


@pytest.mark.parametrize("caller", [READER, ANYONE], ids=["reader", "laptop"])
async def test_who_sees_all_tenants_sees_the_work_and_the_faults(world: World, caller: Caller) -> None:
    """By a token, or where no token is required."""
    found = await ready(world, caller)
    assert found["sweeper"]["work"]["active"] == {"QUEUED": 1}
    assert found["protocols"]["problems"] == [PROBLEM]
