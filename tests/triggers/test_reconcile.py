from __future__ import annotations

import asyncio
from typing import Any, cast

import azure.functions as func
import pytest

from shared.access.caller import ANYONE, Caller
from shared.adapters.scoped.stores import TenantLedger
from shared.core.jobs.history import Provenance, append
from shared.operations.sweeper.report import Action, RepairKind
from shared.wiring import Wiring
from tests.jobs import START, planned
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import built
from triggers import reconcile_http
from triggers.http.problems import RequestError
from triggers.http.routes import Request
from triggers.reconcile_http import RECONCILE, visible_actions


async def test_a_sweep_by_hand_lists_the_jobs_of_its_caller() -> None:
    """A tenant's admin sees no other tenant's job in the report, and no unknown one; an operator sees all."""
    ledger = MemoryLedger()
    for job_id, tenant in (("job_a", "tenant_a"), ("job_b", "Tenant_B")):
        cause = Provenance(cause_id="create", actor="test", source="http", at=START, salt="")
        await ledger.create(*append(None, planned(job_id, tenant_id=tenant), "JOB_CREATED", cause))
    actions = [Action(job_id, RepairKind.START) for job_id in ("job_a", "job_b", "job_gone")]
    admin = Caller(actor="b", scopes=frozenset(), tenant="tenant_b")
    assert await visible_actions(actions, admin, TenantLedger(ledger, admin)) == [actions[1]]
    assert await visible_actions(actions, ANYONE, ledger) == actions


async def test_one_sweep_by_hand_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is 429 until the first has ended, with any result."""
    world, goes_on = built(MemoryLedger()), asyncio.Event()
    begun = asyncio.Event()
    awake_tenants = world.index.awake_tenants

    async def slow(**options: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await awake_tenants(**options)

    monkeypatch.setattr(world.index, "awake_tenants", slow)

    class Wired:
        async def fresh_context(self) -> Any:
            return world.context

        def orchestrations(self, client: Any) -> Any:
            return world.orchestrations

    def asked() -> Request:
        http = func.HttpRequest("POST", "/v1/admin/reconcile", body=b"")
        return Request(http, RECONCILE, ANYONE, cast(Wiring, Wired()), None)

    first = asyncio.create_task(reconcile_http.reconcile(asked()))
    await asyncio.wait_for(begun.wait(), 10)
    with pytest.raises(RequestError) as refused:
        await reconcile_http.reconcile(asked())
    assert (refused.value.status, refused.value.code) == (429, "SWEEP_RUNNING")
    goes_on.set()
    assert (await first).status_code == 200
    assert (await reconcile_http.reconcile(asked())).status_code == 200
