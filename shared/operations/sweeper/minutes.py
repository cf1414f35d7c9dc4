"""Writes the sweeper's part of the overview: a row a minute and the tight quotas (`shared.core.gates.tight_quotas`)."""

from __future__ import annotations

from collections import Counter

from shared import telemetry
from shared.core.gates.tight_quotas import TightQuota, select_tight_quotas
from shared.operations.gates.admission_turns import read_directory
from shared.operations.gates.waiting import add_ages
from shared.operations.sweeper.state import IsOver, Pass
from shared.time_limits import time_limit

#: maximum seconds of the whole duty
_MINUTE_S = 5.0


async def write_minute(one: Pass, is_over: IsOver) -> None:
    """Adds the counts of the processes to the rows of their minutes. Raises LedgerUnavailable, Interrupted."""
    if not one.is_of_timer:
        return
    context = one.context
    async with time_limit(_MINUTE_S):
        await context.process.minute_buffer.write(context.minutes)
        await context.minutes.fold(context.clock.now(), await _active(one))


async def _active(one: Pass) -> Counter[str] | None:
    """Returns the jobs of all shares by state, or None if this sweep did not count them."""
    if one.counts is None or one.share.of == 1:
        return one.counts.active if one.counts is not None else None
    others = await one.context.sweep_marks.read(one.share.of)
    known = (mark.counts.active for number, mark in others.items() if number != one.share.number)
    return sum(known, one.counts.active)


async def find_tight_quotas(one: Pass) -> list[TightQuota]:
    """Returns the tight quotas of the share's tenants and over all tenants, at most 20. A tenant's quota has the
    creation time of its first waiting job. Logs a fault, and then returns no quotas.
    """
    context = one.context
    with telemetry.tolerate(Exception, "MINUTES_UNWRITTEN"):
        async with time_limit(_MINUTE_S):
            known, now = await read_directory(context), context.clock.now()
            return await add_ages(context, one.admissions, select_tight_quotas([*one.admissions.values()], known, now))
    return []
