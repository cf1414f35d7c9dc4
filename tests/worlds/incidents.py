"""Jobs that failed permanently in the memory world, their incidents, and actions on them."""

from __future__ import annotations

from typing import Any

from shared.core.filters import IncidentFilter, JobFilter
from shared.core.incidents import Incident, IncidentKind, IncidentState, job_incident_id
from shared.core.records.chained_log import entry_hash
from shared.operations.incidents import incidents
from shared.operations.jobs.dead_letters import list_dead_letters
from tests.operations.conftest import World
from tests.operations.support import by, dispatch, service_sends, submitted

EXHAUSTED = {"code": "ATTEMPTS_EXHAUSTED", "message": "every attempt timed out"}
OPEN = IncidentFilter(states=frozenset({IncidentState.OPEN}))
BREAKER = IncidentKind.BREAKER


async def given(world: World, count: int = 1, **changes: Any) -> list[str]:
    ids = []
    for _ in range(count):
        world.clock.advance(60)
        ids.append(await submitted(world, idempotency_key=world.clock.now().isoformat(), **changes))
    return ids


async def failed(world: World, *job_ids: str, error: dict[str, str] = EXHAUSTED) -> list[str]:
    """Their incidents' ids; a second apart, the last one last."""
    for job_id in job_ids:
        world.clock.advance(1)
        await dispatch(world, job_id)
        await service_sends(world, job_id, "RESULT", 1, status="FAILED_FINAL", error=error, result_ref=None)
    return [job_incident_id(job_id) for job_id in job_ids]


async def an_incident(world: World, **changes: Any) -> str:
    [incident_id] = await failed(world, *await given(world, **changes))
    return incident_id


async def listed(world: World, requested: IncidentFilter = OPEN, limit: int = 10) -> list[str]:
    found: list[str] = []
    after: str | None = None
    while True:
        page = await incidents.list_incidents(world.context, requested, after=after, limit=limit)
        assert page.after is None or page.partial or len(page.lines) == limit
        found += [each.id for each in page.lines]
        if (after := page.after) is None:
            return found


async def letters(world: World) -> list[str]:
    page = await list_dead_letters(world.context, JobFilter(), after=None, limit=100)
    return [line.jobId for line in page.lines]


async def log_of(world: World, incident_id: str) -> list[tuple[str, str, str]]:
    """Type, actor and reason of its entries, which are numbered without gaps and chained."""
    incident = await incidents.read_incident(world.context, incident_id)
    entries = await world.context.incidents.log(incident, after=0, limit=100)
    assert [entry.seq for entry in entries] == [*range(1, len(entries) + 1)]
    assert [entry.prev_hash for entry in entries] == ["", *(entry.hash for entry in entries[:-1])]
    assert [entry.hash for entry in entries] == [entry_hash(vars(entry)) for entry in entries]
    assert (incident.log_seq, incident.log_hash) == (entries[-1].seq, entries[-1].hash)
    return [(entry.type, entry.actor, entry.reason) for entry in entries]


async def resolve(world: World, incident_id: str) -> Incident:
    return await incidents.resolve_incident(world.context, incident_id, by("repaired"))


async def dismiss(world: World, incident_id: str) -> Incident:
    return await incidents.dismiss_incident(world.context, incident_id, by("known"))


async def retry(world: World, incident_id: str) -> Incident:
    return (await incidents.retry_incident(world.context, world.orchestrations, incident_id, by("again")))[0]


async def raised(world: World, subject: str = "0f3a5b7c9d1e2f40", tenant: str | None = None) -> Incident:
    return await incidents.raise_incident(
        world.context, BREAKER, subject, tenant=tenant, code="BREAKER_OPENED", detail="6 of 10 failed"
    )
