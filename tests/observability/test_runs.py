"""Metrics of runs."""

from __future__ import annotations

from tests.observability.conftest import Telemetry
from tests.observability.moves import dispatched, replied
from tests.operations.conftest import World
from tests.operations.support import submitted


async def test_runs_are_counted(world: World, emitted: Telemetry) -> None:
    """Heartbeats, artifacts and durations of the step PACK, and of no other."""
    pack = {"packId": "test", "packVersion": "1.0.0", "planHash": f"sha256:{'0' * 64}"}
    artifact = {"name": "a", "uri": "https://account.blob.core.windows.net/runs/a"}
    for request_type, payload in (("PACK_RUN", pack), ("OCR", {})):
        job_id = await submitted(world, request_type=request_type, payload=payload)
        directive = await dispatched(world, job_id, "pack" if payload else "ocr")
        await replied(world, directive, "ACK")
        world.clock.advance(20)
        await replied(world, directive, "HEARTBEAT")
        await replied(world, directive, "RESULT", artifacts=[artifact, artifact])
    points = emitted.points()
    assert points[("pack_run_heartbeats_total", ())] == 1
    assert points[("pack_run_artifacts_total", ())] == 2
    assert points[("pack_run_duration_seconds", (("status", "SUCCEEDED"),))] == 1
