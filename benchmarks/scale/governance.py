"""Reads and writes of quotas, incidents and the sweeper's lists beyond those of the jobs, and their limits.

Rows of a tenant's quotas and of allocations are counted by `tests/adapters/test_quota_cost.py`, the incident of a job
by `tests/operations/quotas/test_quota_limits.py`. A request that finds no row counts as one row.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scale.cost import FLEX_INSTANCES, PERIOD_S, Need, needs
from benchmarks.scale.job import GATED, Job
from benchmarks.scale.prices import SCHEDULER_CONSUMPTION, TABLE_ACCOUNT, TABLE_PARTITION

#: maximum ends in one turn of a tenant, and creations in one transaction: `MAX_FREED` and `MAX_JOBS` of the app
ENDS_TOGETHER, CREATIONS_TOGETHER = 40, 18
#: rows of the tenant's partition that each end writes beyond those of a job without quotas: FREED in and out. Rows that
#: it reads: ACTIVE and FREED
END_WRITES, END_READS = 2, 2
#: rows read and written by each turn, and by each transaction of creations, for any number of jobs: GATES
SHARED = 2
#: requests of a turn, and of creations, in sequence under one ETag: GATES and FREED read, then the write
TURN_CALLS, CREATION_CALLS = 3, 2
#: seconds per table request: an assumption
CALL_S = 0.01

#: writes of one incident to the list of open incidents: two when its job fails (by the end and by the sweeper), and
#: three when an operator closes the incident (two, and the deletion later)
OPENING_WRITES, SETTLING_WRITES = 2, 3
#: share of jobs that fail
FAILING = 0.05

#: maximum tenants in the allocation record of one quota over all tenants: `MAX_TENANTS` of the app
BOOK_TENANTS = 1_000
#: reads and writes of an allocation, without those of the tenants: the allocation record, and its requests
BOOK_READS, BOOK_WRITES = 2, 1
#: minimum seconds between two allocations of a quota
ALLOCATED_EVERY_S = 1

#: rows that a process reads in each refresh of an unchanged directory; seconds between two refreshes
DIRECTORY_ROWS, DIRECTORY_S = 1, 8


@dataclass(frozen=True)
class Counts:
    """Numbers of ends that share a turn, and of creations that share a transaction, of a tenant with quotas."""

    ends: int = 1
    creations: int = 1

    @property
    def rows(self) -> float:
        """Returns the rows of the tenant's index partition, written and read, of an immediately admitted job."""
        return Job(1).index_entities + END_WRITES + END_READS + SHARED / self.ends + SHARED / self.creations

    @property
    def calls(self) -> float:
        """Returns the number of requests in sequence."""
        return TURN_CALLS / self.ends + CREATION_CALLS / self.creations

    @property
    def by_partition(self) -> float:
        """Returns the jobs per second at the limit of the partition."""
        return TABLE_PARTITION.per_s / self.rows

    @property
    def by_calls(self) -> float:
        """Returns the jobs per second if each request takes `CALL_S`."""
        return 1 / (self.calls * CALL_S)


ALONE, TOGETHER = Counts(), Counts(ENDS_TOGETHER, CREATIONS_TOGETHER)


def waiting_rows() -> int:
    """Returns the rows of a job that waits until another job ends. Each end and each creation is a separate
    transaction.

    The two or three rows of the job itself that are read count as rows of the partition.
    """
    gated = GATED["waits, admitted after another job ended"]
    return Job(1).index_entities + gated.entities_written + gated.table_reads


@dataclass(frozen=True)
class Load:
    """Rows per second of one partition, and its limit."""

    name: str
    per_s: float
    limit: float
    whose: str

    @property
    def share(self) -> float:
        return self.per_s / self.limit


def allocation(tenants: int, changed: int) -> float:
    """Returns the rows that an allocation reads and writes, without the rows of the jobs that it admits.

    The allocation reads each tenant's GATES row. If the tenant's part changed, the allocation reads the row again and
    writes the row.
    """
    return tenants + 2 * changed + BOOK_READS + BOOK_WRITES


def loads(jobs_per_s: float) -> list[Load]:
    """Returns the loads of one deployment at `jobs_per_s`. The name of a load states each size that it depends on."""
    partition, account = (TABLE_PARTITION.per_s, "partition"), (TABLE_ACCOUNT.per_s, "account")
    found = [
        Load(
            f"directory of quotas, {FLEX_INSTANCES} processes, without a change",
            FLEX_INSTANCES * DIRECTORY_ROWS / DIRECTORY_S,
            *partition,
        )
    ]
    for tenants in (100, BOOK_TENANTS):
        for what, changed in (("none changes", 0), ("each one changes", tenants)):
            name = f"allocation each second, {tenants:,} tenants, {what}"
            found.append(Load(name, allocation(tenants, changed) / ALLOCATED_EVERY_S, *account))
    writes = OPENING_WRITES + SETTLING_WRITES
    found += [
        Load(
            f"open incidents, {FAILING:.0%} of jobs fail, and operators close the incidents",
            jobs_per_s * FAILING * writes,
            *partition,
        ),
        Load("open incidents, all jobs fail (an outage)", jobs_per_s * OPENING_WRITES, *partition),
    ]
    for living in (10_000, 100_000, 1_000_000):
        found.append(Load(f"lists and counts, {living:,} active jobs, once a minute", living / PERIOD_S, *account))
    living = int(TABLE_PARTITION.per_s * PERIOD_S)
    name = f"lists and counts, {living:,} active jobs of one tenant, once a minute"
    found.append(Load(name, living / PERIOD_S, *partition))
    return found


#: numbers of each resource of `needs` in a deployment with default parameters and settings: `serviceBusSku`, the feed,
#: one sweeper, `scale.maximumInstances`. The Consumption SKU of the scheduler is added
DEFAULTS = {
    "Standard namespace, events `feed`": (1, "`serviceBusSku`: Premium, 10 units"),
    "sweeper (`LUCIUS_SWEEPERS`)": (1, "`LUCIUS_SWEEPERS`"),
    "ledger account": (1, "not built ([steps to grow](#steps-to-grow))"),
    "Functions instance of 2 GB": (100, "`scale.maximumInstances`, and the subscription's quota"),
}
CONSUMPTION_GROWS = "`schedulerSku`: Dedicated, 3 units at most; then more task hubs"


def by_default(rate: float) -> list[tuple[Need, int, float, str]]:
    """Returns each limit of a deployment with default settings, the lowest first.

    A row has the number of the resource, the factor that `rate` needs, and the way to get more.
    """
    job = Job(3)
    scheduler = Need(
        SCHEDULER_CONSUMPTION.thing,
        SCHEDULER_CONSUMPTION.per_s / job.scheduler_actions,
        1,
        SCHEDULER_CONSUMPTION.page,
    )
    found = [(each, *DEFAULTS[each.thing]) for each in needs(job) if each.thing in DEFAULTS]
    found.append((scheduler, 1, CONSUMPTION_GROWS))
    whole = [(each, has, rate / (has * each.jobs_per_s), more) for each, has, more in found]
    return sorted(whole, key=lambda row: -row[2])
