"""Rows that LUCIUS cannot read or act on: work is postponed, one incident names the row, and settles by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest

from shared.api.incident import IncidentKindName
from shared.core.bulks import BulkState
from shared.core.incidents import Incident, IncidentKind
from shared.core.jobs.states import JobStatus
from shared.errors import Contended, LedgerRefused, LedgerUnavailable, Undecodable
from shared.operations.incidents.incidents import dismiss_incident
from shared.operations.incidents.row_incidents import open_row, report_row
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.process.row_faults import MAX_REPORTED, RowFaults
from shared.operations.sweeper.incidents import DIRECTORY
from shared.operations.sweeper.sweep import sweep
from shared.ports.admissions import DirectoryRows
from tests.contexts import changed
from tests.operations.bulks.test_bulk_limits import begun
from tests.operations.conftest import World
from tests.operations.faults import Fault, failing
from tests.operations.support import by, cancelled, limited, submitted
from tests.worlds.gates import ended, posted, staging

__all__ = ["staging"]  # a fixture


async def open_rows(world: World) -> list[Incident]:
    rows = await world.context.incidents.list_open(after=None, limit=1000)
    return [row.incident for row in rows if row.incident.kind is IncidentKind.ROW and row.incident.is_open]


def unreadable(world: World, job_id: str, fault: Exception) -> Fault:
    return failing(world.ledger, "read", error=fault, only=lambda asked: asked == job_id)


async def swept_for(world: World, minutes: int) -> int:
    """Returns the number of checks in this number of sweeps, a minute apart."""
    looks = 0
    for _ in range(minutes):
        world.clock.advance(60)
        looks += (await sweep(world.context, world.orchestrations)).looked_at
    return looks


@pytest.mark.parametrize("fault", [KeyError("status"), LedgerRefused("413")])
async def test_a_job_that_cannot_be_read_is_looked_at_once_an_hour(world: World, fault: Exception) -> None:
    """One incident names it until a read succeeds, after any number of reads."""
    job_id = await submitted(world)
    broken = unreadable(world, job_id, fault)
    assert await swept_for(world, 180) == 3
    [incident] = await open_rows(world)
    assert (incident.subject, incident.code, incident.tenant) == (f"tenant_a ACTIVE:{job_id}", "ROW_FAILS", None)
    assert incident.detail == f"{type(fault).__name__}: {fault}"
    broken.ends()
    await swept_for(world, 60)
    assert await open_rows(world) == []
    settled = await world.context.incidents.read(None, incident.id, incident.opened_at)
    assert settled is not None
    assert settled.settled_by == "system"


async def test_an_ended_job_that_cannot_be_cleared_is_named_too(world: World) -> None:
    """Its clearing is postponed by an hour."""
    job_id = await submitted(world)
    await cancelled(world, job_id)
    world.clock.advance(3600)
    broken = unreadable(world, job_id, KeyError("status"))
    await swept_for(world, 61)
    [incident] = await open_rows(world)
    assert incident.subject == f"tenant_a ENDED:{job_id}"
    [due] = await world.index.due_for_clearing("tenant_a", now=world.clock.now() + timedelta(hours=1), limit=9)
    assert due.clear_at > world.clock.now()
    broken.ends()
    await swept_for(world, 60)
    assert await open_rows(world) == []


async def test_a_row_that_is_gone_settles_its_incident(world: World) -> None:
    """Its job ended by another way: nothing renews the incident for two hours."""
    job_id = await submitted(world)
    broken = unreadable(world, job_id, KeyError("status"))
    await swept_for(world, 2)
    broken.ends()
    await cancelled(world, job_id)
    await swept_for(world, 110)
    assert len(await open_rows(world)) == 1
    await swept_for(world, 20)
    assert await open_rows(world) == []


@pytest.mark.parametrize(("fault", "after_an_hour"), [(Contended("races"), 1), (LedgerUnavailable("503"), 0)])
async def test_a_fault_that_may_pass_is_tried_in_each_pass(world: World, fault: Exception, after_an_hour: int) -> None:
    """Races that last an hour are a fault of the row; an unavailable store has its own alert."""
    job_id = await submitted(world)
    unreadable(world, job_id, fault)
    assert await swept_for(world, 59) == 59
    assert await open_rows(world) == []
    looks = await swept_for(world, 60)
    assert len(await open_rows(world)) == after_an_hour
    assert looks == (2 if after_an_hour else 60)


async def test_failures_with_a_success_between_them_are_apart(world: World) -> None:
    """A job that is contended now and then is no incident."""
    faults, now = RowFaults(), world.clock.now()
    for minute in range(180):
        at = now + timedelta(minutes=minute)
        if minute % 20:
            faults.note_success("row")
        else:
            assert not faults.lasts("row", Contended(), at)
            assert not faults.lasts("another", ConnectionError(), at)


async def test_two_processes_make_one_incident(world: World) -> None:
    """Each knows nothing of the other."""
    for _ in range(2):
        context = changed(world.context, row_faults=RowFaults())
        assert await report_row(context, "row", KeyError("x"))
        world.clock.advance(1)
    assert len(await open_rows(world)) == 1


async def test_a_defect_at_which_all_rows_fail_opens_fifty_incidents(world: World) -> None:
    """An hour, of one process: an operator needs no more to see it."""
    for number in range(2 * MAX_REPORTED):
        assert await report_row(world.context, f"row {number}", KeyError("x"))
    assert len(await open_rows(world)) == MAX_REPORTED
    world.clock.advance(3600)
    assert await report_row(world.context, "row x", KeyError("x"))
    assert len(await open_rows(world)) == MAX_REPORTED + 1


async def test_an_incident_that_could_not_be_written_is_written_by_the_next_failure(world: World) -> None:
    """Work never fails for its incident."""
    with failing(world.context.incidents, "open"):
        assert await report_row(world.context, "row", KeyError("x"))
    assert await open_rows(world) == []
    assert await report_row(world.context, "row", KeyError("x"))
    assert len(await open_rows(world)) == 1


async def test_an_operator_may_settle_it(world: World) -> None:
    """The next failure, at most an hour later, opens another one."""
    await open_row(world.context, "row", "ROW_FAILS", "x")
    [first] = await open_rows(world)
    await dismiss_incident(world.context, first.id, by("known"))
    world.clock.advance(3600)
    await report_row(world.context, "row", KeyError("x"))
    [second] = await open_rows(world)
    assert second.id != first.id


async def test_a_tenant_whose_admission_state_cannot_be_decoded_holds_up_no_other(staging: World) -> None:
    """One incident names the row, for any number of jobs and duties that read it; the others' jobs are admitted."""
    first, second = await posted(staging, 1, 2)
    await submitted(staging, tenant_id="tenant_b")
    fault = Undecodable("tenant_b GATES", "TypeError")
    broken = failing(staging.index.admissions, "read", error=fault, only=lambda tenant: tenant == "tenant_b")
    await ended(staging, first)
    await swept_for(staging, 3)
    assert (await staging.job(second)).job.status is JobStatus.QUEUED
    assert [each.subject for each in await open_rows(staging)] in ([], ["tenant_b GATES"])
    broken.ends()
    await swept_for(staging, 2)
    assert await open_rows(staging) == []


async def test_rows_of_the_directory_that_cannot_be_decoded_are_named(world: World) -> None:
    """By the sweeper, in each pass; two hours after the last of these the incident settles."""
    rows = DirectoryRows(tenants={}, defaults={}, unread=("tenants TENANT:x",))
    groups = world.index.admissions.groups

    async def some() -> dict[str, DirectoryRows]:
        return {"x": rows}

    world.index.admissions.groups = some  # type: ignore[method-assign]
    await swept_for(world, 200)
    [incident] = await open_rows(world)
    assert (incident.subject, incident.code) == ("tenants TENANT:x", "ROW_UNDECODABLE")
    world.index.admissions.groups = groups  # type: ignore[method-assign]
    # another process starts with its own copy
    world = limited(world)
    await swept_for(world, 121)
    assert await open_rows(world) == []


async def test_a_directory_that_cannot_be_read_for_five_minutes_is_an_incident(world: World) -> None:
    """Until then the process has its copy; the first pass that can read it settles the incident."""
    world = limited(world, max_inflight_per_tenant=5)
    await swept_for(world, 1)
    away = failing(world.index.admissions, "versions")
    await swept_for(world, 4)
    assert await open_rows(world) == []
    await swept_for(world, 2)
    assert [each.subject for each in await open_rows(world)] == [DIRECTORY]
    away.ends()
    await swept_for(world, 1)
    assert await open_rows(world) == []
    assert isinstance(world.context.process.gate_directory, GateDirectory)


async def test_a_bulk_operation_that_cannot_be_read_holds_up_no_other(world: World) -> None:
    """The others continue; the row names the bulk operation."""
    for _ in range(3):
        await submitted(world, tenant_id="tenant_b")
    bad, good = [await begun(world, tenant) for tenant in ("tenant_a", "tenant_b")]
    failing(world.context.bulks, "read", error=KeyError("state"), only=lambda _, bulk_id: bulk_id == bad.bulk_id)
    await swept_for(world, 3)
    stored = await world.context.bulks.read("tenant_b", good.bulk_id)
    assert stored is not None
    assert stored.bulk.state is BulkState.DONE
    assert [each.subject for each in await open_rows(world)] == [f"tenant_a BULK:{bad.bulk_id}"]


def test_callers_see_each_kind() -> None:
    """The responses' kinds are those that are stored."""
    assert set(get_args(IncidentKindName)) == {kind.value for kind in IncidentKind}
