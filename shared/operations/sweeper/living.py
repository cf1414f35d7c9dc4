"""Uses the survey of living jobs: closes ended jobs, and checks counts of tenants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from shared.core.records.canonical import encode_key
from shared.operations.process.concurrency import run_concurrently
from shared.operations.sweeper.admission import check_counts, settle_before_sleep, take_turns
from shared.operations.sweeper.gauges import set_queue_gauges
from shared.operations.sweeper.listing import Surveyed, continue_survey
from shared.operations.sweeper.looks import look_at, look_at_job
from shared.operations.sweeper.state import IsOver, Pass
from shared.ports.index import AWAKE_AFTER_POST, WAKE_LASTS
from shared.ports.sweeps import Survey

#: maximum unreadable jobs and tenants that one sweep names in the log
_MAX_NAMED = 50


async def survey_living(one: Pass, is_over: IsOver) -> None:
    """Continues the survey, and closes ended jobs that are still in the index. Raises Transient."""
    before = one.position.survey if one.is_of_timer else Survey()
    found = await continue_survey(one.context, [*one.awake], before, is_over, due_at=one.began)
    one.position, one.untaken = replace(one.position, survey=found.survey), found.untaken
    if found.survey.after is None:
        left_out = sum(row is None for _, row, _ in found.unread)
        # without the jobs of many tenants, the last counts are better
        one.counts = found.survey.counts if 2 * left_out <= len(found.tenants) else None
        one.position = replace(one.position, survey=Survey(whole_at=found.survey.whole_at))
    # the lost row may have been the one that an admission waited for
    owed = [*found.restored]
    # a tenant with a skipped row may have a living job
    unread = {tenant for tenant, _, _ in found.unread}
    one.idle = [each.tenant for each in found.tenants if not each.counts.rows and each.tenant not in unread]
    await run_concurrently(found.tenants, lambda surveyed: _take(one, surveyed, owed))
    for tenant, row, fault in found.unread[:_MAX_NAMED]:
        await one.report_fault("RELIST_FAILED", fault, row=row or f"{encode_key(tenant)} ACTIVE", tenant_id=tenant)
    await take_turns(one, sorted({*owed}), is_over)
    # closes ended jobs in this sweep
    await look_at(one, sorted(found.ended), is_over)
    await run_concurrently(found.astray, lambda active: look_at_job(one, active))
    if found.fault is not None:
        raise found.fault


async def _take(one: Pass, surveyed: Surveyed, owed: list[str]) -> None:
    """Sets the gauges and the peaks of a surveyed tenant, and checks its counts. Adds the tenant to `owed` if it needs
    a turn.
    """
    context, tenant, counts = one.context, surveyed.tenant, surveyed.counts
    set_queue_gauges(tenant, counts.queued)
    try:
        peaks: Mapping[tuple[str, str], int] = surveyed.inside_by
        if not surveyed.at_one_time:
            peaks = Counter({("", ""): counts.inside})
        await context.process.usage_buffer.raise_peaks(context.usage, tenant, peaks, context.clock.now())
        if await check_counts(one, tenant, counts, at_one_time=surveyed.at_one_time):
            owed.append(tenant)
    except Exception as fault:
        await one.report_fault("DESK_UNSEEN", fault, row=f"{encode_key(tenant)} GATES", tenant_id=tenant)


async def put_to_sleep(one: Pass, is_over: IsOver) -> None:
    """Puts tenants to sleep that have no living job and no counted ended job, over an hour after `posted_at`. A tenant
    whose usage is not rolled up stays awake.
    """

    async def sleep(tenant: str) -> None:
        awake = one.awake[tenant]
        if is_over() or one.began - awake.posted_at <= AWAKE_AFTER_POST:
            return
        # no sweep rolls up the hours of a sleeping tenant
        if one.rolled_up_to is None or awake.posted_at + WAKE_LASTS >= one.rolled_up_to:
            return
        try:
            if await settle_before_sleep(one.context, tenant):
                await one.context.index.put_to_sleep(awake)
        except Exception as fault:
            await one.report_fault("DESK_UNSEEN", fault, row=f"{encode_key(tenant)} GATES", tenant_id=tenant)

    await run_concurrently(one.idle, sleep)
