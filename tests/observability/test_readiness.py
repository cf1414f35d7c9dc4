"""Requests and the sweeper check the app's dependencies, and each check is counted."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import azure.durable_functions as df

from shared.errors import LedgerUnavailable
from shared.operations.process.readiness import Readiness
from shared.wiring import Wiring
from tests.memory_stores import MemorySweepMark
from tests.observability.conftest import Telemetry
from tests.operations.conftest import World
from triggers import sweeper_timer


class Away(MemorySweepMark):
    """Tables that do not respond."""

    async def read(self, shares: int) -> Any:
        raise LedgerUnavailable("the tables are away")


def counted(emitted: Telemetry) -> dict[tuple[str, str], int]:
    """Returns the counts of checks, by dependency and outcome."""
    looks = {key: value for key, value in emitted.points().items() if key[0] == "dependency_checks_total"}
    return {(dict(key[1])["dependency"], dict(key[1])["outcome"]): value for key, value in looks.items()}


async def test_each_look_counts_what_is_down(world: World, emitted: Telemetry) -> None:
    """An unavailable dependency is counted at each check; within two seconds of a check there is no other."""
    readiness = Readiness(world.clock)
    for waited in (0, 60, 1):
        world.clock.advance(waited)
        found = await readiness.look(world.context, world.orchestrations, marks=Away(), blob=None)
    faults = [("tables", "the tables are away"), ("servicebus", None), ("durable", None)]
    assert [(each.name, each.fault) for each in found] == faults
    assert counted(emitted) == {("tables", "down"): 2, ("servicebus", "ok"): 2, ("durable", "ok"): 2}


async def test_a_pass_of_the_sweeper_looks_first(world: World, emitted: Telemetry) -> None:
    """Without readiness requests, the sweeper checks each minute; it continues with any dependency down."""
    readiness = Readiness(world.clock)

    async def fresh_context() -> Any:
        return world.context

    wired = SimpleNamespace(
        settings=world.context.settings,
        fresh_context=fresh_context,
        orchestrations=lambda client: world.orchestrations,
        look=lambda orchestrations: readiness.look(world.context, orchestrations, marks=Away(), blob=None),
    )
    app = df.DFApp()
    app.register_functions(sweeper_timer.blueprint(cast(Wiring, wired)))
    [function] = app.get_functions()
    # the host's argument for a durable client
    binding = {"taskHubName": "t", "creationUrls": {}, "managementUrls": {}}
    await function.get_user_function()(timer=None, client=json.dumps(binding))
    assert counted(emitted) == {("tables", "down"): 1, ("servicebus", "ok"): 1, ("durable", "ok"): 1}
    assert emitted.points()[("sweeper_passes_total", (("outcome", "done"),))] == 1
