"""Dollars per million jobs by resource, and the number of resources that a rate needs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from benchmarks.scale import prices
from benchmarks.scale.events import events_of
from benchmarks.scale.job import (
    CALL_CPU_S,
    CLEARING_CALLS,
    LOOK_CALLS,
    ROW_BYTES,
    Group,
    Job,
)
from benchmarks.scale.prices import Limit

MILLION = 1_000_000
#: jobs per second of a million jobs a month
MONTHLY_PER_S = MILLION / prices.MONTH_S
#: maximum share of its core that an instance uses
CPU_SHARE = 0.6
#: minimum seconds of each billing period; an instance is billed while any function runs on it
#: (https://learn.microsoft.com/azure/azure-functions/flex-consumption-plan)
BILLED_S = 1.0
INSTANCE_GB = 2
#: Flex Consumption: instances of 2 GB in the default quota of a subscription in a region
FLEX_INSTANCES = 250
#: share of the traces that are kept, the default of the template
SAMPLED = 0.1

#: `partitionCount` and `maxQueuePollingInterval` of host.AzureStorage.json: the control queues and one of work items
IDLE_QUEUES, POLL_S = 4 + 1, 2

#: seconds of each minute in which a sweep checks jobs and clears ended ones (docs/reference/sweeper-and-retention.md)
LOOKS_S, PERIOD_S = 40, 60
#: seconds between two checks of a job that waits for its service: a lease of 15 minutes, and a minute's grace
LOOK_EVERY_S = 16 * 60
#: sweepers of a deployment; more are possible, each with its own instance
SWEEPERS = 16

STANDARD, PREMIUM = "Standard", "Premium"


def instances(group: Group, per_s: float) -> float:
    """Returns the average number of billed instances of a group at `per_s` jobs per second.

    Each function of the group scales separately. At low rates an execution is billed for its wall time, at least
    `BILLED_S`, unless another execution runs (Poisson arrivals). At high rates the CPU decides the number of instances.
    """
    each = per_s * group.executions / group.functions
    awake = 1 - math.exp(-each * max(BILLED_S, group.wall_s))
    return group.functions * max(awake, per_s * group.cpu_s / group.functions / CPU_SHARE)


def time_usd(group: Group, per_s: float) -> float:
    """Returns the dollars for execution time of a million jobs at `per_s` jobs per second."""
    return MILLION / per_s * instances(group, per_s) * INSTANCE_GB * prices.FLEX_GB_S.usd


def per_million(job: Job, per_s: float = MONTHLY_PER_S) -> dict[str, float]:
    """Returns the dollars for a million jobs at `per_s` jobs per second, without the charges of `fixed_a_month`."""
    queue_calls = 3 * (job.durable_messages + job.activities)  # put, get, delete; an activity is a message too
    history_calls = 3 * job.episodes  # read, append, instance
    return {
        "Functions: time": sum(time_usd(group, per_s) for group in job.groups),
        "Functions: executions": job.executions * prices.FLEX_EXECUTIONS.usd,
        "Service Bus Standard: operations, with forwarding": (
            (job.bus_operations + job.replies) * prices.BUS_STANDARD_OPERATIONS.usd
        ),
        "Tables: every entity of a transaction counted": (
            (job.entities_written + job.table_reads) * prices.TABLE_OPERATIONS.usd
        ),
        "Tables: data, a month": MILLION * job.rows_kept * ROW_BYTES / 1e9 * prices.TABLE_GB.usd,
        "Blobs: results of steps": job.blob_usd,
        "Durable on Azure Storage: queues": queue_calls * prices.QUEUE_OPERATIONS.usd,
        "Durable on Azure Storage: tables": history_calls * prices.TABLE_OPERATIONS.usd,
        "Log records": MILLION * job.record_bytes / 1e9 * prices.LOGS_GB.usd,
        "Traces, one in ten kept": MILLION * job.span_bytes(SAMPLED) / 1e9 * prices.LOGS_GB.usd,
    }


def fixed_a_month() -> dict[str, float]:
    """Returns the charges of a month without jobs."""
    return {
        "Service Bus Standard: a namespace": prices.BUS_STANDARD_H.usd * prices.MONTH_H,
        "Service Bus Premium: a messaging unit": prices.BUS_PREMIUM_H.usd * prices.MONTH_H,
        "Functions: an always ready instance of 2 GB": prices.FLEX_READY_GB_S.usd * INSTANCE_GB * prices.MONTH_S,
        f"Durable on Azure Storage: {IDLE_QUEUES} idle queues, polled every {POLL_S} s": (
            IDLE_QUEUES * prices.MONTH_S / POLL_S / MILLION * prices.QUEUE_OPERATIONS.usd
        ),
    }


def swept_per_s() -> float:
    """Returns the jobs per second that one sweeper checks once and clears, if each job lives longer than a minute."""
    return LOOKS_S / PERIOD_S / ((LOOK_CALLS + CLEARING_CALLS) * CALL_CPU_S)


def watched() -> float:
    """Returns the number of living jobs that one sweeper checks when the jobs are due, if the sweeper clears none."""
    return LOOKS_S / PERIOD_S / (LOOK_CALLS * CALL_CPU_S) * LOOK_EVERY_S


@dataclass(frozen=True)
class Need:
    """A demand for a resource.

    One `thing` serves `jobs_per_s`. A deployment can have at most `most` things. None means no limit.
    """

    thing: str
    jobs_per_s: float
    most: int | None
    page: str = ""

    def count(self, rate: float) -> int:
        return math.ceil(rate / self.jobs_per_s)

    @property
    def ends_at(self) -> float | None:
        """Returns the jobs per second at which this deployment cannot get more of the resource, or None if no such
        limit exists.
        """
        return None if self.most is None else self.jobs_per_s * self.most


def needs(job: Job) -> list[Need]:
    """Returns every limit, the lowest first, with the job's events in the feed by default."""

    def need(limit: Limit, each: float, most: int | None) -> Need:
        return Need(limit.thing, limit.per_s / each, most, limit.page)

    def namespace(mode: str) -> Need:
        limit = replace(prices.BUS_STANDARD, thing=f"{prices.BUS_STANDARD.thing}, events `{mode}`")
        return need(limit, job.bus_credits + events_of(job.steps, mode, alone=False).bus_credits, 1)

    events = events_of(job.steps, "feed", alone=False)
    rows = job.entities_written + job.entities_read + events.entities_written + events.table_reads
    found = [
        *map(namespace, ("off", "feed", "topic")),
        need(prices.BUS_PREMIUM, job.bus_bytes + events.bus_bytes, prices.BUS_PREMIUM.most),
        need(prices.TABLE_ACCOUNT, rows, 1),
        need(prices.TABLE_PARTITION, job.index_entities, 1),
        need(replace(prices.TABLE_PARTITION, thing="tenant's feed partition"), events.entities_written, 1),
        need(prices.SCHEDULER_UNIT, job.scheduler_actions, prices.SCHEDULER_UNIT.most),
        need(prices.CONTROL_QUEUE, job.durable_messages, prices.CONTROL_QUEUE.most),
        Need("sweeper (`LUCIUS_SWEEPERS`)", swept_per_s(), SWEEPERS, "#the-sweeper"),
        Need(
            "Functions instance of 2 GB",
            CPU_SHARE / job.cpu_s,
            FLEX_INSTANCES,
            "https://learn.microsoft.com/azure/azure-functions/flex-consumption-plan",
        ),
    ]
    return sorted(found, key=lambda each: each.ends_at or math.inf)
