"""Dollars for a million jobs by resource, and the number of each thing that a rate needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.scale import prices
from benchmarks.scale.job import HOST_CPU_S, ROW_BYTES, TELEMETRY_BYTES_A_STEP, Job
from benchmarks.scale.prices import Limit

MILLION = 1_000_000
#: an instance is paid for while any function runs on it; of that time, this share is our CPU
CPU_SHARE = 0.6
INSTANCE_GB = 2
#: Flex Consumption: instances of 2 GB that a subscription has in a region before it asks for more
FLEX_INSTANCES = 250
#: share of traces and logs that is kept
SAMPLED = 0.1

#: `partitionCount` and `maxQueuePollingInterval` of host.AzureStorage.json: the control queues and one of work items
IDLE_QUEUES, POLL_S = 4 + 1, 2

STANDARD, PREMIUM = "Standard", "Premium"


def instance_s(job: Job) -> float:
    """Seconds that a job keeps an instance busy."""
    return HOST_CPU_S[job.steps] / CPU_SHARE


def per_million(job: Job) -> dict[str, float]:
    """What grows with the jobs; fixed charges are `fixed_a_month`."""
    queue_calls = 3 * (job.durable_messages + job.activities)  # put, get, delete; an activity is a message too
    history_calls = 3 * job.episodes  # read, append, instance
    return {
        "Functions: time": MILLION * instance_s(job) * INSTANCE_GB * prices.FLEX_GB_S.usd,
        "Functions: executions": job.executions * prices.FLEX_EXECUTIONS.usd,
        "Service Bus Standard: operations": job.bus_operations * prices.BUS_STANDARD_OPERATIONS.usd,
        "Tables: every entity of a transaction counted": (
            (job.entities_written + job.table_reads) * prices.TABLE_OPERATIONS.usd
        ),
        "Tables: data, a month": MILLION * job.rows_kept * ROW_BYTES / 1e9 * prices.TABLE_GB.usd,
        "Durable on Azure Storage: queues": queue_calls * prices.QUEUE_OPERATIONS.usd,
        "Durable on Azure Storage: tables": history_calls * prices.TABLE_OPERATIONS.usd,
        "Logs and traces, one in ten kept": (
            MILLION * job.steps * TELEMETRY_BYTES_A_STEP * SAMPLED / 1e9 * prices.LOGS_GB.usd
        ),
    }


def fixed_a_month() -> dict[str, float]:
    """What is paid without a job."""
    return {
        "Service Bus Standard: a namespace": prices.BUS_STANDARD_H.usd * prices.MONTH_H,
        "Service Bus Premium: a messaging unit": prices.BUS_PREMIUM_H.usd * prices.MONTH_H,
        "Functions: an always ready instance of 2 GB": prices.FLEX_READY_GB_S.usd * INSTANCE_GB * prices.MONTH_S,
        f"Durable on Azure Storage: {IDLE_QUEUES} idle queues, looked at every {POLL_S} s": (
            IDLE_QUEUES * prices.MONTH_S / POLL_S / MILLION * prices.QUEUE_OPERATIONS.usd
        ),
    }


@dataclass(frozen=True)
class Need:
    """One `thing` carries `jobs_per_s`; a deployment can have `most` of them, None: as many as it takes."""

    thing: str
    jobs_per_s: float
    most: int | None
    page: str = ""

    def count(self, rate: float) -> int:
        return math.ceil(rate / self.jobs_per_s)

    @property
    def ends_at(self) -> float | None:
        """Jobs a second at which this deployment cannot get more of it."""
        return None if self.most is None else self.jobs_per_s * self.most


def needs(job: Job) -> list[Need]:
    """Every limit, the first one hit first."""

    def need(limit: Limit, each: float, most: int | None) -> Need:
        return Need(limit.thing, limit.per_s / each, most, limit.page)

    found = [
        need(prices.BUS_STANDARD, job.bus_credits, 1),
        need(prices.BUS_PREMIUM, job.bus_bytes, prices.BUS_PREMIUM.most),
        need(prices.TABLE_ACCOUNT, job.entities_written + job.entities_read, 1),
        need(prices.TABLE_PARTITION, job.index_entities, 1),
        need(prices.SCHEDULER_UNIT, job.scheduler_actions, prices.SCHEDULER_UNIT.most),
        need(prices.CONTROL_QUEUE, job.durable_messages, prices.CONTROL_QUEUE.most),
        Need(
            "Functions instance of 2 GB",
            1 / instance_s(job),
            FLEX_INSTANCES,
            "https://learn.microsoft.com/azure/azure-functions/flex-consumption-plan",
        ),
    ]
    return sorted(found, key=lambda each: each.ends_at or math.inf)
