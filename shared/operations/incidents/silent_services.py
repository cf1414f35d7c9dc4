"""Finds services that do not respond while directives wait for them (R57).

Each reply records that its service responds, and the sweeper checks these records without a count of the bus. A service
is silent if it sends no reply for five minutes while an attempt is unacknowledged and the directive is still on the
lane.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.incidents import IncidentKind
from shared.core.jobs.directive import message_id
from shared.core.jobs.job import Record
from shared.core.jobs.states import StepStatus
from shared.errors import BusUnavailable
from shared.operations.incidents.incidents import raise_incident, settle_incident
from shared.operations.jobs.backlog import LOOK_SHARED
from shared.operations.jobs.replies.apply import NOTED_EVERY
from shared.operations.process.context import Context
from shared.ports.sweeps import Heard

#: time without a reply while a directive waits
SILENT_AFTER = timedelta(minutes=5)
#: minimum time for which the bus has had the directive, since its clock may be a minute ahead
_ON_LANE_FOR = timedelta(minutes=4)


@dataclass(frozen=True)
class Untaken:
    """An attempt that was sent and that no service has acknowledged."""

    service: str
    lane: int
    message_id: str
    sent_at: datetime


def untaken(record: Record) -> Iterable[Untaken]:
    """Returns the attempts of a job that the bus accepted and no service has acknowledged."""
    for step in record.open_steps:
        if step.status is StepStatus.INITIATED and not step.owes_publish:
            own_id = message_id(record.job.job_id, step.step_id, step.attempt_no)
            yield Untaken(step.service, step.lane, own_id, step.sent_at)


def longer_out(known: dict[str, Untaken], others: Iterable[Untaken]) -> None:
    """Keeps in `known`, for each service, the attempt that was sent first."""
    for other in others:
        if (found := known.get(other.service)) is None or other.sent_at < found.sent_at:
            known[other.service] = other


async def look_for_silence(context: Context, out: dict[str, Untaken]) -> None:
    """Opens and closes incidents of silent services. `out`: the longest unacknowledged attempt of each service.

    If the bus cannot be read, no further service counts as silent, and the next sweep reads the bus again. Raises
    Contended, LedgerUnavailable.
    """
    now, heard = context.clock.now(), await context.answers.read()
    for service in sorted(service for service, known in heard.items() if known.has_answered_since):
        telemetry.info("SERVICE_ANSWERS", service=service)
        await settle_incident(context, IncidentKind.SERVICE, service, "the service replies again")
        await context.answers.mark(service, None)
    for service, attempt in sorted(out.items()):
        known = heard.get(service, Heard())
        # the last reply may be this much later than the recorded one
        last = known.answered_at + NOTED_EVERY if known.answered_at is not None else attempt.sent_at
        waits_since = max(attempt.sent_at, last)
        is_marked = known.silent_since is not None and not known.has_answered_since
        if is_marked or now - waits_since < SILENT_AFTER or not await _lies_there(context, attempt, now):
            continue
        telemetry.warn("SERVICE_SILENT", service=service, lane=attempt.lane, since=waits_since.isoformat())
        detail = f"no reply since {waits_since.isoformat(timespec='seconds')} while a directive waits"
        await raise_incident(context, IncidentKind.SERVICE, service, tenant=None, code="SERVICE_SILENT", detail=detail)
        await context.answers.mark(service, now)


async def _lies_there(context: Context, attempt: Untaken, now: datetime) -> bool:
    try:
        look = await context.bus.lanes.directives(attempt.lane, attempt.service, since=now - LOOK_SHARED)
    except BusUnavailable as fault:
        telemetry.record_fault(fault)
        return False
    # a RESULT may have recorded the attempt some time before it was sent
    return look.ahead_of(attempt.message_id, attempt.sent_at) is not None and look.has_older(now - _ON_LANE_FOR)
