"""Invariants of the rows of a simulated world at its end."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shared.adapters.tables.keys import ARCHIVED_ROW
from shared.core.incidents import IncidentKind, escalates
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import digest
from shared.operations.sweeper.incidents import DIRECTORY
from tests.audit_bundles import faults

if TYPE_CHECKING:
    from tests.simulation.world import World

_EPSILON = timedelta(microseconds=1)
#: from the last fault until every job has ended, at most
MAX_SETTLING = timedelta(hours=24)


async def check_final_state(world: World) -> None:
    report = world.report
    report.calls, report.crashes, report.steps = world.host.calls, world.host.crashes, world.scheduler.events
    report.settled_after = max(world.scheduler.now - world.faults.end_at, timedelta())
    report.behaviours.update(world.services.behaviours)
    if report.violations:
        return
    if world.callers.busy:
        world.add_violation(f"{world.callers.busy} callers were never answered")
    for left in world.unfinished():
        world.add_violation(f"unfinished after {MAX_SETTLING}: {left}")
    for hung in world.durable.hung():
        world.add_violation(f"Azure would hang: {hung}")
    for number, job_ids in world.callers.promised.items():
        if len(job_ids) > 1:
            world.add_violation(f"request {number} became {len(job_ids)} jobs: {sorted(job_ids)}")
    for tenant, stored in world.index.admissions.admissions.items():
        admission = stored.admission
        if world.plan.tenant_limit is None and world.plan.platform_limit is None:
            # while a tenant has no gate its jobs are not counted
            continue
        if admission.active or admission.staged or admission.queues:
            world.add_violation(
                f"the admission of {tenant} counts {admission.active_by_kind}, {admission.staged} staged, "
                f"{admission.queues}"
            )
    if world.feeds is not None:
        world.feeds.check()
    if world.webhooks is not None:
        world.webhooks.check_at_rest()
    for job_id, record in world.ledger.records.items():
        await _audit(world, job_id, record)
    if world.plan.retention is not None:
        _audit_archive(world)
    if report.violations:
        for job_id in world.ledger.records:
            report.violations.append(f"history of {job_id}:\n{world.ledger.history(job_id)}")


async def _audit(world: World, job_id: str, record: Any) -> None:
    job = record.job
    withdrawn = job.error_code == Reason.WITHDRAWN
    world.report.jobs["WITHDRAWN" if withdrawn else job.status.value] += 1
    events = await world.ledger.events(job_id, limit=100_000)
    world.report.events.update(event.type for event in events)
    try:
        await world.ledger.check_history(job_id)
    except ValueError as broken:
        world.add_violation(f"{job_id}: {broken}")
    if withdrawn:
        if any(job_id in promised for promised in world.callers.promised.values()):
            world.add_violation(f"{job_id} was promised by a 202 and withdrawn")
        return
    _audit_redrive(world, job)
    for awaited in job.dependencies or ():
        other = world.ledger.records.get(awaited)
        ended_at = other.job.completed_at if other is not None else None
        if job.attempts_total and (ended_at is None or ended_at > job.dependencies_settled_at):
            world.add_violation(f"{job_id} began before {awaited} had ended")
    for step in record.steps:
        if step.status == "SUCCEEDED" and not step.carried:
            written = world.services.results.get((step.result_ref or {}).get("uri", ""))
            if written != (job_id, step.step_id, step.attempt_no, step.lease_id):
                world.add_violation(f"{job_id}: {step.step_id} succeeded with a result that its attempt never sent")
    last = [step for step in record.steps if step.group is not None and step.group == record.steps[-1].group]
    if job.status is JobStatus.SUCCEEDED and job.final_output != [*last, record.steps[-1]][0].result_ref:
        world.add_violation(f"{job_id}: its output is not its last step's, or that of the first of its last group")
    [row] = [row for row in world.index.listed if row.job_id == job_id]
    if row.status != job.status:
        world.add_violation(f"{job_id} is {job.status} and listed as {row.status}")
    dead = [row for row in world.index.dead if row.job_id == job_id]
    if bool(dead) != (job.status is JobStatus.FAILED_FINAL and job.redriven_by is None):
        world.add_violation(
            f"{job_id} is {job.status}, redriven by {job.redriven_by}, and has {len(dead)} dead letters"
        )
    await _audit_incident(world, job)
    claim = await world.index.read_claim(job.tenant, job.idempotency_hash)
    if claim is None or claim.job_id != job_id or claim.expires_at is None:
        world.add_violation(f"{job_id} ended and its claim lives on: {claim}")


async def _audit_incident(world: World, job: Any) -> None:
    """A job that failed so has one, open and listed until the job is redriven; where the end came late, none."""
    incidents = world.index.incidents
    found = [each for each in incidents.all if each.subject == job.job_id]
    allowed: list[list[str]] = [[]]
    if escalates(job):
        allowed = [["OPEN"]] if job.redriven_by is None else [["RETRIED"], []]
    states = [each.state.value for each in found]
    if states not in allowed:
        world.add_violation(f"{job.job_id} is {job.error_code}, redriven by {job.redriven_by}, and incidents {states}")
    listed = {each.id for each in incidents.listed_open}
    if not {each.id for each in found if each.is_open} <= listed:
        world.add_violation(f"{job.job_id} has an open incident that the list of open ones does not have")


def _audit_redrive(world: World, job: Any) -> None:
    """A job and its redrive name each other, and a job has one redrive at most."""
    heirs = [
        other.job.job_id
        for other in world.ledger.records.values()
        if other.job.redrive_of == job.job_id and other.job.error_code != Reason.WITHDRAWN
    ]
    if heirs != [one for one in (job.redriven_by,) if one is not None]:
        world.add_violation(f"{job.job_id} was redriven by {job.redriven_by}, and as its redrive there are {heirs}")
    world.report.jobs.update(["redriven"] * len(heirs))


def _audit_archive(world: World) -> None:
    """Every job is there, verified at each level that a bundle has, and nowhere else."""
    for name, text in world.archive.kept.items():
        for wrong in faults(json.loads(text)):
            world.add_violation(f"{name}: {wrong}")
        world.report.jobs["ARCHIVED"] += 1
    index = world.index
    archived = {each["PartitionKey"]: each for each in world.ledger.rows.all_rows if each["RowKey"] == ARCHIVED_ROW}
    left = [row["PartitionKey"] for row in world.ledger.rows.all_rows if row["RowKey"] != ARCHIVED_ROW]
    left += [*index.claims, *index.active, *index.ended, *index.listed, *index.dead]
    # those of no job stay: a directory that could not be read for minutes, a service that was silent
    stays = [each for each in index.incidents.all if each.kind is IncidentKind.SERVICE and not each.is_open]
    left += [each.id for each in index.incidents.all if each.subject != DIRECTORY and each not in stays]
    if left:
        world.add_violation(f"archived, and there is left of it: {left}")
    for job_ids in world.callers.promised.values():
        for job_id in job_ids:
            row = archived.get(job_id)
            if row is None or digest(world.archive.kept.get(row["blob"], "")) != row["sha256"]:
                world.add_violation(f"{job_id} was promised by a 202, and no row leads to its bundle")
