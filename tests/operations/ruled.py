"""Rules, holds and throttles in the memory world, changed as the routes change them."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.gates.log import LogEntry
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.states import JobStatus
from shared.operations.quotas import quotas
from shared.operations.quotas.quotas import By, Changed
from tests.operations.conftest import World
from tests.operations.support import create_numbered, limited

TENANT = Gate(GateKind.TENANT, "tenant_a")
OCR = Gate(GateKind.TYPE, "tenant_a", "OCR")
EVERYBODY = Gate(GateKind.TENANT, EVERY)
SCANNER = Gate(GateKind.SOURCE, "tenant_a", "scanner-7")
OPERATOR, OWN = By(actor="app:1 (ops)", reason="month end"), By(actor="app:2", reason="blank pages", own=True)


@pytest.fixture
def world(world: World) -> World:
    return limited(world)


async def ruled(world: World, gate: Gate = TENANT, seq: int | None = None, **numbers: int | None) -> Changed:
    return await quotas.set_rule(world.context, world.orchestrations, gate, numbers, OPERATOR, rule_seq=seq)


async def created(world: World, number: int, **changes: Any) -> str:
    return (await create_numbered(world, number, **changes)).stored.record.job.job_id


async def statuses(world: World, jobs: list[str]) -> list[JobStatus]:
    return [(await world.job(job)).job.status for job in jobs]


async def held(world: World, gate: Gate = TENANT, by: By = OPERATOR, **rest: Any) -> Changed:
    return await quotas.hold(world.context, world.orchestrations, gate, by, **{"until": None, **rest})


async def resumed(world: World, gate: Gate = TENANT, by: By = OPERATOR) -> Changed:
    return await quotas.resume(world.context, world.orchestrations, gate, by)


async def entries(world: World, gate: Gate = TENANT) -> list[LogEntry]:
    return await world.context.desks.log(gate.tenant, gate.id, after=0, limit=1000)
