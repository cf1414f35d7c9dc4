"""Histories of simulated worlds are played: the same actions of services and callers lead to the same histories."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from shared.api.audit import bundle
from shared.core.incidents import ESCALATED
from tape.player import Player, Report
from tape.recording import record
from tests.jobs import ROOT
from tests.row_views import at_once
from tests.simulation import protocols
from tests.simulation.faults import NO_FAULTS
from tests.simulation.plans import Plan
from tests.simulation.world import World

_REPLIES = replace(NO_FAULTS, service_misbehaves=0.5)
#: late actions of the recorded app
_LATE = replace(_REPLIES, timer_late=0.2, slow=0.05)
PLANS = {
    "replies and controls": Plan(
        jobs=4, controls=1, odds=_REPLIES, request_types=(protocols.SEQUENCE, protocols.GROUP, protocols.CAPPED)
    ),
    "late timers": Plan(jobs=4, odds=_LATE, request_types=(protocols.SEQUENCE, protocols.ONE_STEP)),
    "redrives": Plan(jobs=4, redrives=True, odds=_REPLIES),
    "jobs that wait for others": Plan(jobs=4, dependent=True, odds=_REPLIES),
    "jobs that wait for a quota": Plan(jobs=4, tenant_limit=1, overflow="stage", odds=_REPLIES),
}


@dataclass(frozen=True)
class History:
    """See `tape.recording.History`."""

    job: dict[str, Any]
    steps: list[dict[str, Any]]
    events: list[dict[str, Any]]
    withheld: tuple[str, ...] = ()


def recorded(seed: int, plan: Plan) -> list[History]:
    world, found = World(seed, plan), []

    async def run() -> None:
        assert (await world.run()).violations == []
        for job_id, stored in world.ledger.jobs.items():
            audit = bundle(stored.record, at_once(world.ledger.events(job_id)), stored.record.job.updated_at)
            plain = json.loads(json.dumps(audit))
            found.append(History(plain["job"], plain["steps"], plain["events"]))

    asyncio.run(run())
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The protocols of the simulation as files."""
    path = tmp_path_factory.mktemp("tape") / "protocols"
    shutil.copytree(ROOT / "protocols" / "steps", path / "steps")
    for each in protocols.registry():
        definition = each.definition.model_dump(mode="json", exclude_defaults=True)
        definition["escalate"] = [*ESCALATED, "PDF_ENCRYPTED"]
        (path / f"{each.definition.protocol_id}.json").write_text(json.dumps(definition))
    return path


def played(histories: list[History], protocols: Path) -> Report:
    return asyncio.run(Player(record(histories), ROOT, protocols, unknown="fail").play())


@pytest.mark.parametrize("name", PLANS)
def test_a_world_is_played_as_it_was(name: str, folder: Path) -> None:
    """Late, stale, repeated and contradicting replies come again; no history differs, and no directive is unknown."""
    report = played(recorded(3, PLANS[name]), folder)
    assert (report.first, report.unknown, report.not_played.total()) == (None, 0, 0)
    assert report.events > 20
