"""Lists, reads and redrives messages that no job accepted."""

from __future__ import annotations

from datetime import date, timedelta

from shared import telemetry
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Provenance
from shared.core.jobs.occurrences import ReplyArrived
from shared.core.jobs.outcome import OutcomeKind
from shared.errors import LedgerRefused, ReplyUnfit
from shared.operations.jobs.replies.apply import apply_reply, parse_reply
from shared.operations.jobs.replies.receive import message_cause
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.rejected import RejectedMessage, Rejection, day_partition
from shared.refusals import RejectedNotFound, StillNotApplicable

#: retention in days, and the period of a list without a date
RETENTION_DAYS = 90
#: maximum messages that one sweep deletes; the next one continues
MAX_REMOVED = 1000


async def list_rejected(
    context: Context, *, day: date | None, tenant: str | None = None, after: str | None, limit: int
) -> tuple[list[Rejection], str | None]:
    """Returns a page of rejected messages, newest first, and the id to continue after, or None if the page is shorter
    than `limit`.

    `day`: day to list (default: all retained days). `tenant`: tenant to list (default: all tenants). `after` must be an
    id of an earlier page. Raises LedgerUnavailable.
    """
    today = context.clock.now().date()
    # up to tomorrow, since the clock of the bus can differ
    first, last = (day, day) if day is not None else (_oldest(today), today + timedelta(days=1))
    found = await context.rejected.list_days(first, last, tenant=tenant, after=after, limit=limit)
    return found, found[-1].id if len(found) == limit else None


async def remove_old(context: Context) -> bool:
    """Deletes messages older than the retention, for the sweeper. Returns `True` if more may remain. Raises
    LedgerUnavailable.
    """
    removed = await context.rejected.delete_before(_oldest(context.clock.now().date()), limit=MAX_REMOVED)
    if removed:
        telemetry.info("REJECTED_REMOVED", count=removed)
    return removed == MAX_REMOVED


def _oldest(today: date) -> date:
    return today - timedelta(days=RETENTION_DAYS)


async def read_rejected(context: Context, id_: str) -> RejectedMessage:
    """Returns the rejected message. Raises RejectedNotFound, DataLost, LedgerUnavailable."""
    try:
        day_partition(id_)
    except ValueError:
        found = None
    else:
        found = await context.rejected.read(id_)
    if found is None:
        raise RejectedNotFound(id_)
    return found


async def what_if(context: Context, message: RejectedMessage) -> tuple[str, str | None]:
    """Returns the result of a redrive now, without a write: the outcome's kind and its reason. Raises
    LedgerUnavailable.
    """
    try:
        reply = parse_reply(_body(message))
        stored = await context.ledger.read(reply.jobId)
    except ReplyUnfit as unfit:
        return "REJECTED", str(unfit)
    except LedgerRefused as refused:
        return "REJECTED", f"LEDGER_REFUSED: {refused}"
    if stored is None:
        return "REJECTED", f"UNKNOWN_JOB: job not found: {reply.jobId}"
    provenance = Provenance(cause_id="what-if", actor="what-if", source="http", at=context.clock.now(), salt="")
    outcome = apply(stored.record, ReplyArrived(reply, context.settings.progress_s), provenance)
    if outcome.kind is OutcomeKind.REFUSED:
        return "REJECTED", outcome.reason_code
    return outcome.kind.value, outcome.reason_code


async def redrive_rejected(context: Context, orchestrations: Orchestrations, id_: str) -> RejectedMessage:
    """Applies the message to its job, and returns the message marked as redriven. Idempotent.

    Raises RejectedNotFound, StillNotApplicable, DataLost, Undecodable, Transient.

    If a process dies between the transition and the mark, the next call finds the transition by its cause and only
    marks the message. The slower of two concurrent calls does the same (Race rejected).
    """
    message = await read_rejected(context, id_)
    if message.redriven_at is not None:
        return message
    cause_id = message_cause(message.lane, message.message_id, message.sequence_number)
    try:
        result = await apply_reply(
            context,
            orchestrations,
            parse_reply(_body(message)),
            cause_id=cause_id,
            source="redrive",
            maybe_repeated=True,
        )
    except ReplyUnfit as unfit:
        raise StillNotApplicable(unfit.reason, unfit.detail) from None
    telemetry.info("REJECTED_REDRIVEN", id=id_, jobId=result.record.job.job_id, outcome=result.outcome)
    await context.rejected.mark(message, redriven_at=context.clock.now(), outcome=result.outcome)
    return await read_rejected(context, id_)


def _body(message: RejectedMessage) -> bytes:
    """Returns the message's body. If the body was not UTF-8, `quarantine` replaced bytes by escapes that are not JSON,
    so such a message stays invalid.
    """
    return message.body.encode("utf-8")
