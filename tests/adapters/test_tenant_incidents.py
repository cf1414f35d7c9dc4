"""Incidents as one caller reaches them: its own tenant's, or those of all (R24)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from shared.adapters.scoped.stores import TenantIncidents
from shared.core.incidents import SYSTEM, IncidentKind, IncidentState, Settlement, open_incident
from shared.ports.incidents import Incidents
from shared.refusals import TenantForbidden
from tests.adapters.test_tenant_scope import ANYONE, CALLER, READER
from tests.jobs import START
from tests.memory_stores import MemoryIncidents

PAGE: dict[str, Any] = {"after": None, "limit": 10}
OF_NO_JOB: dict[str, Any] = {"request_type": None, "code": "C", "detail": None, "at": START}
FOREIGN, ENTRY = open_incident(IncidentKind.BREAKER, "0123456789abcdef", tenant="tenant_b", **OF_NO_JOB)
DONE = Settlement(state=IncidentState.RESOLVED, actor="jane", reason="r", at=START)

READS: dict[str, Callable[[Incidents], Awaitable[object]]] = {
    "list_at": lambda incidents: incidents.list_at("tenant_b", **PAGE),
    "list_of_tenant": lambda incidents: incidents.list_of_tenant("tenant_b", **PAGE),
    "list_open": lambda incidents: incidents.list_open(**PAGE),
    "log": lambda incidents: incidents.log(FOREIGN, after=0, limit=1),
}
WRITES: dict[str, Callable[[Incidents], Awaitable[object]]] = {
    "enter_open": lambda incidents: incidents.enter_open(FOREIGN, START),
    "leave_open": lambda incidents: incidents.leave_open(FOREIGN),
    "settle": lambda incidents: incidents.settle(FOREIGN, DONE),
}


async def stored() -> MemoryIncidents:
    incidents = MemoryIncidents()
    await incidents.open(FOREIGN, ENTRY)
    return incidents


@pytest.mark.parametrize("name", [*READS, *WRITES])
async def test_another_tenants_incidents_are_out_of_reach(name: str) -> None:
    """For reads and writes; a caller that sees every tenant can read them, and changes nothing."""
    incidents = await stored()
    with pytest.raises(PermissionError):
        await {**READS, **WRITES}[name](TenantIncidents(incidents, CALLER))
    if name in READS:
        await READS[name](TenantIncidents(incidents, READER))
    else:
        with pytest.raises(TenantForbidden):
            await WRITES[name](TenantIncidents(incidents, READER))
    assert await incidents.read(None, FOREIGN.id, START) == FOREIGN
    assert len(await incidents.list_open(**PAGE)) == 1


async def test_another_tenants_incident_is_not_there() -> None:
    """A reader of all sees it, until the request moves jobs; the end of a job reports its quota's, for any caller."""
    incidents = await stored()
    for home in (None, "tenant_b"):
        assert await TenantIncidents(incidents, CALLER).read(home, FOREIGN.id, START) is None
    with pytest.raises(PermissionError):
        await TenantIncidents(incidents, CALLER).list_at(None, **PAGE)
    assert await TenantIncidents(incidents, READER).read(None, FOREIGN.id, START) == FOREIGN
    with pytest.raises(TenantForbidden):
        await TenantIncidents(incidents, READER, moving=True).read(None, FOREIGN.id, START)
    nobodys, entry = open_incident(IncidentKind.SERVICE, "ocr", tenant=None, **OF_NO_JOB)
    own = TenantIncidents(incidents, CALLER)
    assert await own.open(nobodys, entry)
    assert await own.find_open(IncidentKind.SERVICE, "ocr") == nobodys
    assert await own.read(None, nobodys.id, START) is None
    assert (await own.settle(nobodys, replace(DONE, actor=SYSTEM))).state is IncidentState.RESOLVED
    assert (await TenantIncidents(incidents, ANYONE).settle(FOREIGN, DONE)).state is IncidentState.RESOLVED


async def test_what_only_the_daily_run_does_is_refused() -> None:
    own = TenantIncidents(await stored(), ANYONE)
    with pytest.raises(PermissionError):
        await own.list_settled(START, after=None, limit=1)
    with pytest.raises(PermissionError):
        await own.remove(FOREIGN)


def test_every_method_of_the_incidents_is_decided_here() -> None:
    """A method that is added to the port must be scoped to a tenant, or be of all, and tested."""
    methods = {name for name, _ in inspect.getmembers(Incidents, inspect.isfunction) if not name.startswith("_")}
    assert methods == {*READS, *WRITES, "read", "open", "find_open", "list_settled", "remove"}
