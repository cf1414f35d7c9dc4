"""Limits of one tenant, one log or one bulk operation in a process: a wait, a number of reads, a number of calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from shared.core.bulks import BulkAction, BulkState
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import Gate, GateKind
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.gates import freed
from shared.operations.gates.gate_logs import read_state
from shared.telemetry import committed
from tests.jobs import START
from tests.operations.conftest import World
from tests.worlds.bulks import made, outcomes, started, worked
from tests.worlds.gates import admission_of, ended, posted, served, staging, statuses

__all__ = ["staging"]  # a fixture


async def test_an_end_does_not_wait_for_a_slow_turn(staging: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tenant's row does not respond: it leaves its FREED row, and one call handles all of them."""
    monkeypatch.setattr(freed, "_PATIENCE", timedelta(milliseconds=20))
    first, second = await posted(staging, 1, 2)
    read, answers = staging.index.admissions.read, asyncio.Event()

    async def slow(tenant: str) -> Any:
        await answers.wait()
        return await read(tenant)

    staging.index.admissions.read = slow  # type: ignore[method-assign]
    await ended(staging, first)
    assert await staging.index.read_active("tenant_a", first) is None
    staging.context.bus.admission_calls.calls.clear()  # type: ignore[attr-defined]
    await asyncio.gather(
        *(freed.take_turn_after_end(staging.context, "tenant_a", f"job_{number}") for number in range(5))
    )
    assert [tenant for tenant, *_ in staging.context.bus.admission_calls.calls] == ["tenant_a"]  # type: ignore[attr-defined]
    assert await statuses(staging, [second]) == ["THROTTLED"]
    answers.set()
    await served(staging)
    assert await statuses(staging, [second]) == ["QUEUED"]
    await admission_of(staging)


async def test_a_fault_of_telemetry_is_none_of_the_job(
    staging: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The job ends and its slot is free; the log names the fault."""
    first, second = await posted(staging, 1, 2)

    def faulty(*_: Any, **__: Any) -> None:
        raise KeyError("of an instrument")

    monkeypatch.setattr(committed, "increment", faulty)
    await ended(staging, first)
    assert await statuses(staging, [first, second]) == ["SUCCEEDED", "QUEUED"]
    assert "TELEMETRY_FAILED" in caplog.text


@pytest.mark.parametrize("entries", [0, 1, 999, 1000, 1001, 4_321, 1_000_000])
@pytest.mark.parametrize("pruned", [0, 700])
async def test_the_head_of_a_long_log_takes_few_reads(world: World, entries: int, pruned: int) -> None:
    """An admission state without the gate reads it within its turn; the oldest entries may be deleted."""
    gate, reads = Gate(GateKind.SOURCE, "tenant_a", "scanner"), Counter[str]()

    async def log(tenant: str, gate_id: str, *, after: int, limit: int) -> list[LogEntry]:
        reads[tenant] += 1
        numbers = range(max(after, pruned) + 1, entries + 1)[:limit]
        return [
            LogEntry(
                gate_id=gate_id,
                seq=seq,
                type="HELD",
                at=START,
                actor="",
                reason="",
                data={},
                prev_hash="",
                hash=f"{seq}",
            )
            for seq in numbers
        ]

    world.index.admissions.log = log  # type: ignore[method-assign]
    state = await read_state(world.context, AdmissionState(tenant="tenant_a", counted_at=START), gate)
    assert (state.log_seq, state.log_hash) == ((entries, f"{entries}") if entries > pruned else (0, ""))
    assert reads["tenant_a"] <= 25


async def test_bulks_leave_half_of_the_calls_to_admissions(world: World) -> None:
    """A ninth bulk operation in one process is scheduled again later, and ends."""
    job_id = await made(world, 1)
    world.clock.advance(1)
    bulk = await started(world, BulkAction.CANCEL, request_type="OCR")
    queue = world.context.bus.admission_calls.bulk_calls  # type: ignore[attr-defined]
    queue.clear()
    for _ in range(8):
        await world.context.process.bulk_turns.acquire()
    await work_bulk(world.context, world.orchestrations, "tenant_a", bulk.bulk_id)
    [(_, _, at)] = queue
    assert at > world.clock.now()
    assert await outcomes(world, bulk) == {}
    world.context.process.bulk_turns.release()
    assert (await worked(world, bulk)).state is BulkState.DONE
    assert await statuses(world, [job_id]) == ["CANCELLED"]
