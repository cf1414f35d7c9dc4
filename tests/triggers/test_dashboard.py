"""The overview over HTTP: its facts, the part for a caller of one tenant, and its requests."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.access.caller import ANYONE, Caller, Scope
from shared.adapters.memory_tables import MemoryTexts
from shared.core.gates.rules import Gate, GateKind
from shared.core.incidents import IncidentKind
from shared.errors import LedgerUnavailable
from shared.operations.incidents.incidents import raise_incident, settle_incident
from shared.operations.jobs.replies.receive import ReplyMessage, quarantine
from shared.operations.process.context import Context
from shared.operations.process.readiness import Dependency, Readiness
from shared.operations.quotas.quotas import By, hold
from shared.ports.sweeps import merged
from shared.store_wiring import stores_over
from shared.wiring import Wiring
from tests.fake_tables import FakeAccount
from tests.jobs import START
from tests.operations.conftest import World, world
from tests.operations.support import dispatch, service_sends, submitted, swept
from triggers import dashboard_http
from triggers.http.routes import build_blueprint

__all__ = ["world"]  # a fixture of the operations' tests

TENANT = Caller(actor="app:a", scopes=frozenset({Scope.READ}), tenant="tenant_a")


class DashboardWiring:
    """Its caller has the given token; each dependency responds, unless there is a `fault`."""

    fault: str | None = None

    def __init__(self, context: Context, caller: Caller) -> None:
        self._context, self._caller = context, caller
        self.readiness = Readiness(context.clock)
        self.settings = context.settings

    def callers(self) -> DashboardWiring:
        return self

    async def caller(self, authorization: str | None) -> Caller:
        return self._caller

    def context(self) -> Context:
        return self._context

    async def fresh_context(self) -> Context:
        return self._context

    async def look(self, orchestrations: Any) -> list[Dependency]:
        self.readiness.mark = merged((await self._context.sweep_marks.read(1)).values())
        return [Dependency("tables", self.fault, self._context.clock.now())]

    def orchestrations(self, client: Any) -> None:
        return None


async def answer_of(world: World, caller: Caller, name: str = "dashboard_metrics", **params: str) -> Any:
    """The status and the body of a GET."""
    app = df.DFApp()
    app.register_functions(build_blueprint([dashboard_http], cast(Wiring, DashboardWiring(world.context, caller))))
    [function] = [each for each in app.get_functions() if each.get_function_name() == name]
    request = func.HttpRequest("GET", "/v1/dashboard/metrics", params=params, body=b"")
    handler = function.get_user_function()
    answer = await (handler.client_function(request, None) if name == "dashboard_metrics" else handler(request))
    return answer.status_code, json.loads(answer.get_body())


async def test_nothing_is_wrong(world: World) -> None:
    await submitted(world)
    await swept(world)
    status, found = await answer_of(world, ANYONE)
    assert status == 200
    assert found["health"] == {
        "level": "ok",
        "sentence": "All good. 1 job in progress, waiting or paused.",
        "since": None,
        "subject": None,
        "command": None,
    }
    assert (found["problems"], found["jobs"]["active"]) == ([], {"QUEUED": 1})
    assert [(each["active"], each["ended"]) for each in found["last_hour"]] == [({"QUEUED": 1}, {})]
    assert [each["lane"] for each in found["lanes"]] == list(range(16))


async def rejected(world: World, message_id: str, reason: str = "NOT_JSON", body: bytes = b"{") -> None:
    """Quarantines a message that no job can receive."""
    message = ReplyMessage(
        body=body, lane=0, message_id=message_id, sequence_number=1, delivery_count=1, enqueued_at=world.clock.now()
    )
    await quarantine(world.context, message, reason, "no job takes it")


async def a_minute_of_two_tenants(world: World) -> None:
    """Each has a job that failed, a job that waits for its service, a held quota and an incident."""
    for number, tenant in enumerate(("tenant_a", "tenant_b")):
        failed = await submitted(world, tenant_id=tenant, idempotency_key="failed")
        await dispatch(world, failed)
        await service_sends(world, failed, "ACK", 10 * number)
        error = {"code": f"CODE_{tenant[-1]}".upper(), "message": "locked"}
        await service_sends(
            world, failed, "RESULT", 10 * number + 1, status="FAILED_FINAL", error=error, result_ref=None
        )
        waits = await submitted(world, tenant_id=tenant, idempotency_key="waits")
        await dispatch(world, waits)
        gate = Gate(GateKind.TENANT, tenant)
        by = By(actor="app:x", reason="month end")
        await hold(world.context, world.orchestrations, gate, by, until=None)
        await submitted(world, tenant_id=tenant, idempotency_key="held")
        await raise_incident(world.context, IncidentKind.BREAKER, f"gate of {tenant}", tenant=tenant, code="OPENED")
        body = json.dumps({"tenant_id": tenant}).encode()
        for place in range(2 + number):
            await rejected(world, f"{place} {tenant}", f"REASON_{tenant[-1]}".upper(), body)
    world.clock.advance(30)
    await swept(world)


async def test_of_all_tenants(world: World) -> None:
    await a_minute_of_two_tenants(world)
    _, found = await answer_of(world, ANYONE)

    assert found["tenant"] is None
    assert found["jobs"]["active"] == {"QUEUED": 2, "THROTTLED": 2}
    [minute] = found["last_hour"]
    assert (minute["ended"], minute["reasons"]) == ({"FAILED_FINAL": 2}, {"CODE_A": 1, "CODE_B": 1})
    assert (minute["ack"]["count"], minute["result"]["count"]) == (2, 2)
    assert sum(each["waiting"] for each in found["lanes"]) == 2
    [service] = found["services"]
    assert (service["service"], service["waiting"], service["oldest_seconds"]) == ("ocr", 2, 30)
    assert {(each["tenant"], each["held"], each["waiting"]) for each in found["quotas"]} == {
        ("tenant_a", True, 1),
        ("tenant_b", True, 1),
    }
    assert (found["incidents"]["open"], len(found["problems"])) == (2, 5)
    assert found["problems"][-1]["sentence"] == (
        "Rejected messages: no job accepted 5 messages in the last hour, most with reason REASON_B."
    )
    assert found["problems"][0]["sentence"] == "Quota tenant tenant_a: held, 1 job waits."
    assert found["problems"][0]["command"] == "lucius quota show --tenant tenant_a"
    assert found["health"]["level"] == "warning"


@pytest.mark.parametrize(("caller", "params"), [(TENANT, {}), (ANYONE, {"tenant": " Tenant_A "})])
async def test_one_tenant_sees_nothing_of_another(world: World, caller: Caller, params: dict[str, str]) -> None:
    """Neither by its token nor where an operator names it; and numbers over all tenants are left out."""
    await a_minute_of_two_tenants(world)
    status, found = await answer_of(world, caller, **params)

    assert status == 200
    assert "tenant_b" not in json.dumps(found)
    assert "CODE_B" not in json.dumps(found)
    assert found["tenant"] == "tenant_a"
    assert found["jobs"]["active"] == {"QUEUED": 1, "THROTTLED": 1}
    [minute] = found["last_hour"]
    assert (minute["ended"], minute["active"], minute["ack"]) == ({"FAILED_FINAL": 1}, None, None)
    assert found["lanes"] is None
    [service] = found["services"]
    assert {name for name, value in service.items() if value is not None} == {"service"}
    assert [(each["tenant"], each["waiting"]) for each in found["quotas"]] == [("tenant_a", 1)]
    assert found["incidents"]["open"] == 1
    assert [each["subject"] for each in found["problems"] if each["subject"]["kind"] == "rejected"] == [
        {"kind": "rejected", "id": "REASON_A"}
    ]


async def test_closed_incidents_do_not_hide_that_more_may_be_open(world: World) -> None:
    """The list of a tenant stops after 200 rows that do not match."""
    for number in range(202):
        subject = f"gate {number}"
        await raise_incident(world.context, IncidentKind.BREAKER, subject, tenant="tenant_a", code="OPENED")
        if number:
            await settle_incident(world.context, IncidentKind.BREAKER, subject, "closed")
        world.clock.advance(1)
    incidents = (await answer_of(world, TENANT))[1]["incidents"]
    assert (incidents["open"], incidents["at_least"]) == (0, True)


async def test_rejected_messages_are_a_problem_for_an_hour(world: World) -> None:
    """Also of the day before; one that was redriven is not."""
    older, newer = [START.replace(hour=23, minute=minute) for minute in (20, 50)]
    for at in (older, newer):
        world.clock.time = at
        await rejected(world, f"{at}")
    world.clock.advance(1_200)
    [problem] = (await answer_of(world, ANYONE))[1]["problems"]
    assert problem["sentence"].startswith("Rejected messages: no job accepted 2 messages")
    assert datetime.fromisoformat(problem["since"]) == older
    [last, _] = await world.context.rejected.list_days(older.date(), older.date(), tenant=None, after=None, limit=2)
    await world.context.rejected.mark(last, redriven_at=newer, outcome="APPLIED")
    [problem] = (await answer_of(world, ANYONE))[1]["problems"]
    assert problem["sentence"].startswith("Rejected messages: no job accepted 1 message in")
    world.clock.advance(601)
    assert (await answer_of(world, ANYONE))[1]["problems"] == []


async def test_another_tenant_is_refused(world: World) -> None:
    for name in ("dashboard_metrics", "routing_read"):
        status, found = await answer_of(world, TENANT, name, tenant="tenant_b")
        assert (status, found["code"]) == (403, "TENANT_FORBIDDEN")


@pytest.mark.parametrize("caller", [ANYONE, TENANT], ids=["all tenants", "one tenant"])
async def test_the_requests_do_not_depend_on_the_number_of_jobs(world: World, caller: Caller) -> None:
    """Marks, minutes, services, incidents and rejected messages, one query each; of a tenant its jobs, incidents and
    quotas too."""
    account, counts = FakeAccount(), []
    texts, settings = MemoryTexts(), world.context.settings
    stores = vars(stores_over(account, texts, texts, settings, world.clock.now))
    world.context = replace(world.context, **{name: stores[name] for name in stores if hasattr(world.context, name)})
    for number in range(12):
        await submitted(world, idempotency_key=f"{number}")
        if number in (0, 11):
            await swept(world)
            account.calls.clear()
            await answer_of(world, caller)
            counts.append(account.calls.total())
    assert counts[0] == counts[1] == (5 if caller is ANYONE else 8), account.calls


async def test_tables_that_are_down_are_the_problem(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> Any:
        raise LedgerUnavailable("no response")

    monkeypatch.setattr(world.context.minutes, "read", away)
    assert (await answer_of(world, ANYONE))[0] == 503
    monkeypatch.setattr(DashboardWiring, "fault", "no response within 3 s")
    world.clock.advance(90)
    status, found = await answer_of(world, ANYONE)
    assert (status, found["health"]["level"]) == (200, "critical")
    assert found["health"]["sentence"] == "tables: down for 0 seconds (no response within 3 s)."
    assert found["health"]["command"] == "lucius health"


async def test_a_late_sweeper_is_a_problem(world: World) -> None:
    await swept(world)
    world.clock.advance(360)
    _, found = await answer_of(world, ANYONE)
    assert found["health"]["sentence"] == "Sweeper: the last sweep ended 6 minutes ago."


async def test_the_lane_is_the_one_that_a_job_gets(world: World) -> None:
    """By the tenant alone, or with BURST by its document too."""
    for mode, doc_id in (("DEFAULT", None), ("SAFE", "doc 7"), ("BURST", "doc 7")):
        job_id = await submitted(world, idempotency_key=f"{mode}", mode=mode, doc_id=doc_id)
        step = (await world.job(job_id)).steps[0]
        given = {"tenant": "Tenant_A", "mode": mode, **({"doc_id": doc_id} if doc_id else {})}
        status, found = await answer_of(world, TENANT, "routing_read", **given)
        assert (status, found["lane"], found["topic"]) == (200, step.lane, f"global-bus-p{step.lane}")
        assert (found["tenant"], found["decision_source"]) == ("tenant_a", "REQUEST")


@pytest.mark.parametrize("given", [{"mode": "BURST"}, {"mode": "FAST"}, {"doc_id": " "}, {"doc_id": 513 * "a"}])
async def test_what_no_request_can_have_is_refused(world: World, given: dict[str, str]) -> None:
    status, found = await answer_of(world, TENANT, "routing_read", **given)
    assert (status, found["code"]) == (400, "ROUTING_INVALID")
