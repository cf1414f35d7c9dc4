"""`python -m tests.rollout.record`: records the formats of this version, under `recorded/VERSION/`, when it is
released.

The version is host.json's `defaultVersion`. A recording is made once and never changed: later versions must understand
it for as long as a job of that version may run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

from shared.adapters.tables import rows
from shared.core.jobs.directive import directive_of, encode_directive
from shared.core.jobs.job import Record
from tape.durable import SimulatedOrchestrations
from tests.jobs import ROOT, Story
from tests.simulation import protocols
from tests.simulation.plans import Plan
from tests.simulation.test_crashes import LIVES
from tests.simulation.world import World

RECORDED = Path(__file__).parent / "recorded"

#: occurrences that lead an orchestrator to its rarer branches, besides the lives of the crash tests
_TROUBLED = Plan(jobs=2, controls=2, request_types=(protocols.SEQUENCE, protocols.GROUP))
_TROUBLED_SEEDS = range(3)


def version() -> str:
    """Of the orchestrations, as host.json names it for new instances."""
    named: str = json.loads((ROOT / "host.json").read_text())["extensions"]["durableTask"]["defaultVersion"]
    return named


def histories(seed: int, plan: Plan) -> list[dict[str, Any]]:
    """Every orchestration of a simulated world, with its history to the end."""
    world = World(seed, plan)
    kept: list[dict[str, Any]] = []

    async def keep(self: SimulatedOrchestrations, instance_id: str) -> bool:
        return True

    close = world.durable.store.close

    def close_after_looking() -> None:
        kept.extend(_instances(world))
        close()

    with (
        patch.object(SimulatedOrchestrations, "purge", keep),
        patch.object(world.durable.store, "close", close_after_looking),
    ):
        result = asyncio.run(world.run())
    assert result.violations == []
    return kept


def _instances(world: World) -> Iterator[dict[str, Any]]:
    for instance in world.durable.instances():
        events = world.durable.store.history(instance.instance_id, instance.execution_id)
        yield {
            "name": instance.name,
            "instance_id": instance.instance_id,
            "execution_id": instance.execution_id,
            "input": instance.input,
            "output": instance.output,
            "events": [[int(one.kind), one.event_id, one.at, dict(one.data)] for one in events],
        }


def entities(record: Record) -> list[dict[str, Any]]:
    """JOB and STEP rows, instants as text."""
    found = [rows.job_entity(record.job), *(rows.step_entity(record.job.job_id, step) for step in record.steps)]
    return [{name: _text(value) for name, value in entity.items()} for entity in found]


def _text(value: Any) -> Any:
    return {"instant": value.isoformat()} if isinstance(value, datetime) else value


def sample() -> Record:
    """Returns a job whose first step succeeded and whose second was recorded for dispatch."""
    story = Story()
    story.recorded()
    story.after(1).replied("ACK")
    story.after(1).replied("RESULT", metrics={"pages": 3})
    story.after(1).recorded("embedding")
    return story.record


def main() -> None:
    folder = RECORDED / version()
    if folder.exists():
        raise SystemExit(f"{folder} is there: a released version's recording is never changed; raise defaultVersion")
    folder.mkdir(parents=True)
    lives = {name: histories(1, life.plan) for name, life in LIVES.items()}
    lives |= {f"troubled {seed}": histories(seed, _TROUBLED) for seed in _TROUBLED_SEEDS}
    for name, kept in lives.items():
        text = ",\n".join(json.dumps(one) for one in kept)
        (folder / f"{name.replace(' ', '-')}.history.json").write_text(f"[\n{text}\n]\n")
    record = sample()
    (folder / "rows.json").write_text(json.dumps(entities(record), indent=1) + "\n")
    body = json.loads(encode_directive(directive_of(record, record.steps[1])))
    (folder / "directive.json").write_text(json.dumps(body, indent=1) + "\n")


if __name__ == "__main__":
    main()
