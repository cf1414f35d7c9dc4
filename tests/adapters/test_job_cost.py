"""The cost of a job in requests, messages and bytes."""

from __future__ import annotations

from datetime import timedelta

from shared.api.receipt import operations
from shared.core.jobs.directive import encode_directive
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.read_history import read_history
from tests.adapters.job_cost import STEPS, App, app, world
from tests.jobs import START

__all__ = ["app", "world"]  # fixtures


#: bytes of directives, and of table requests per job and per step: at least two percent above the sent ones
DIRECTIVE_BYTES = 600
JOB_TABLE_BYTES, STEP_TABLE_BYTES = 8_800, 18_200


async def test_cost_of_a_job(app: App) -> None:
    """Writes: two at POST, the first attempt, two a step, one at the end; the end has the earlier one's clearing in it.
    A directive a step, an event a reply.

    Reads: none in one process; apart, one before each directive and one at the first ACK.
    """
    await app.job("OCR", 0)  # the tables are made sure of, and the tenant is woken
    for number in (1, 2):
        await app.job("OCR", number)
    for number, (request_type, steps) in enumerate(STEPS.items(), 3):
        for counted in (app.requests, app.sent, app.world.publisher.sent, app.world.orchestrations.raised):
            counted.clear()
        await app.job(request_type, number)
        n = len(steps)
        # the directory of quotas, once in ten seconds, for any number of jobs
        assert app.requests.pop("directory") <= (1 if app.lane is app.http else 3)
        reads = 0 if app.lane is app.http else n + 1
        assert app.requests == {"writes": 4 + 2 * n} | ({"reads": reads} if reads else {})
        assert (len(app.world.publisher.sent), len(app.world.orchestrations.raised)) == (n, 2 * n)
        directives = sum(len(encode_directive(each)) for each in app.world.publisher.sent)
        assert directives <= DIRECTIVE_BYTES * n
        assert app.sent["table bytes"] <= JOB_TABLE_BYTES + STEP_TABLE_BYTES * n
        receipt = operations(*await read_history(app.lane.context, list(app.world.orchestrations.started)[-1]))
        assert (receipt.table_writes.count, receipt.table_reads.count) == (4 + 2 * n, n + 1)
    stored = await app.lane.context.ledger.read(list(app.world.orchestrations.started)[-1])
    assert stored is not None
    assert stored.record.job.status is JobStatus.SUCCEEDED
    later = await app.lane.context.index.due_for_clearing("tenant_a", now=START + timedelta(days=365), limit=10)
    assert [row.purged for row in later] == [False, False, True, True, True, True]
