"""GraphQL without HTTP: functions of the app over the memory stores, called as the host calls them."""

from __future__ import annotations

import json
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.access.caller import Caller, Scope
from shared.operations.process.context import Context
from shared.wiring import Wiring
from tests.operations.conftest import World, world
from tests.operations.support import submitted
from tests.worlds.events import Fed, of
from triggers import events_http, graphql_http, jobs_http, quotas_http
from triggers.http.routes import build_blueprint

__all__ = ["world"]  # a fixture of the operations' tests


READER = Caller(actor="app:reader", scopes=frozenset({Scope.READ}), tenant="tenant_a")
SUBSCRIPTION = (
    "subscription ($after: String, $jobId: String) {events(after: $after, jobId: $jobId) {cursor gap event {id}}}"
)


class OneWiring:
    """Over the memory stores; every token is the caller's."""

    def __init__(self, context: Context, caller: Caller) -> None:
        self._context, self._caller = context, caller

    def callers(self) -> OneWiring:
        return self

    async def caller(self, authorization: str | None) -> Caller:
        return self._caller

    def context(self) -> Context:
        return self._context

    async def fresh_context(self) -> Context:
        return self._context


class Api:
    """Functions of the app, called as the host calls them."""

    def __init__(self, fed: Fed, caller: Caller = READER) -> None:
        self.fed, self.context = fed, fed.world.context
        wiring = cast(Wiring, OneWiring(self.context, caller))
        app = df.DFApp()
        app.register_functions(build_blueprint([jobs_http, events_http, quotas_http, graphql_http], wiring))
        self._functions = {one.get_function_name(): one.get_user_function() for one in app.get_functions()}

    async def call(self, function: str, request: func.HttpRequest) -> func.HttpResponse:
        called: Any = self._functions[function]
        answer = await called(request)
        assert isinstance(answer, func.HttpResponse)
        return answer

    async def get(self, function: str, path: dict[str, str] | None = None, **query: str) -> Any:
        request = func.HttpRequest("GET", "/", params=query, route_params=path or {}, body=b"")
        return json.loads((await self.call(function, request)).get_body())

    async def post(self, body: Any, accept: str | None = None, **headers: str) -> func.HttpResponse:
        sent = {"Content-Type": "application/json", **({"Accept": accept} if accept else {}), **headers}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.call("graphql", func.HttpRequest("POST", "/v1/graphql", headers=sent, body=data))

    async def query(self, document: str, variables: Any = None, **more: Any) -> dict[str, Any]:
        answer = await self.post({"query": document, "variables": variables, **more})
        assert (answer.status_code, answer.mimetype) == (200, "application/json"), answer.get_body()
        return dict(json.loads(answer.get_body()))

    async def stream(self, document: str, **variables: Any) -> list[tuple[str, Any]]:
        """Messages of one answer."""
        answer = await self.post({"query": document, "variables": variables}, "text/event-stream")
        assert (answer.status_code, answer.mimetype) == (200, "text/event-stream"), answer.get_body()
        assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == ("no-store", "Accept")
        found = []
        for message in answer.get_body().decode().split("\n\n"):
            lines = dict(line.partition(": ")[::2] for line in message.split("\n") if line and line[0] != ":")
            if "event" in lines:
                found.append((lines["event"], json.loads(lines["data"] or "null")))
        return found


@pytest.fixture
def api(world: World) -> Api:
    return Api(of(world))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_http, "HOLD_S", 0.01)


async def in_feed(api: Api, **changes: Any) -> str:
    job_id = await submitted(api.fed.world, **changes)
    await api.fed.taken()
    return job_id


async def refusal(api: Api, body: Any, accept: str | None = None, **headers: str) -> tuple[int, str]:
    answer = await api.post(body, accept, **headers)
    assert answer.mimetype == "application/problem+json"
    return answer.status_code, json.loads(answer.get_body())["code"]


def codes(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(each["extensions"]["code"], each.get("path")) for each in answer["errors"]]
