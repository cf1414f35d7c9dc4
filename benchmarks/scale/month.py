"""The monthly price of a deployment for a number of jobs, as rows.

Flex Consumption bills an instance while a function runs on it, at least one second each time. Flex Consumption scales
HTTP, Durable and each other function separately. On a plan all functions share the instances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from benchmarks.scale import prices
from benchmarks.scale.cost import BILLED_S, CPU_SHARE, IDLE_QUEUES, MILLION, POLL_S, needs
from benchmarks.scale.deployment import CONSUMPTION, FLEX, PLAN, PREMIUM, SIZES, Deployment
from benchmarks.scale.events import events_by_commits, events_of
from benchmarks.scale.job import LANES, METRIC_BYTES_A_MINUTE, REPLIES, ROW_BYTES, Group, Job
from benchmarks.scale.prices import MONTH_H, MONTH_S

#: price tiers of a Standard namespace by millions of operations per month; the base price includes those below the
#: first tier
_TIERS = {13: "BUS_STANDARD_OPERATIONS", 100: "BUS_STANDARD_OPERATIONS_100M", 2500: "BUS_STANDARD_OPERATIONS_2500M"}
#: receives of an idle trigger per minute: each concurrent call (`maxConcurrentCalls`) waits a minute for a message, and
#: an empty response is an operation. Azure.Messaging.ServiceBus: `ServiceBusProcessor` receives in that many loops,
#: `ReceiverManager` begins again when one ends empty, `ServiceBusRetryOptions.TryTimeout` is a minute. A trigger with
#: batches has one loop.
IDLE_RECEIVES, IDLE_BATCH_RECEIVES = 16, 1
#: polls of a trigger's source by the scale controller per minute: an assumption, since no source has their number.
#: azure-functions-dotnet-worker issue 2902 saw polls at zero instances
SCALE_LOOKS = 6
#: polls of each queue of a task hub on Azure Storage by the scale controller per minute
#: (azure-functions-durable-extension issue 391)
HUB_LOOKS = 6
#: moments of a job whose hints are in separate batches, without RESULTs: its creation and the first ACK; each RESULT is
#: one more
_HINTED = 2
#: seconds of a sweep without jobs, and of an hourly `prune`: estimates
SWEEP_S, PRUNE_S = 2.0, 2.0
_SWEEPS, _PRUNES = MONTH_S / 60, MONTH_S / 3600
#: seconds per batch of hints: a read and a write, as for a reply
_FEED_S = 0.015
#: maximum jobs per second at which the committing processes write the feed, an estimate. Above it they lose too many
#: writes to one another and leave them to `tell`. Measured for one tenant on Azurite (2026-11-28, six tries, one run of
#: 25 s each, median write 2 to 5 ms).
#:
#: Two processes left no hint to `tell` at 3 and at 10 jobs per second. Three left none at 3, and 19 % at 10. One
#: process, which meets no conflict, left none at 27. Writes in Azure take longer, so that more are lost
_BY_COMMITS = 3.0
#: peeks of a sweep: the dead-letter queue of each lane, and that of the shared queue
_PEEKS = 17


@dataclass(frozen=True)
class Row:
    """A row of the price. `usd` is None if the price could not be read. Then `what` has the quantity."""

    what: str
    usd: float | None


@dataclass(frozen=True)
class Month:
    deployment: Deployment
    jobs: int
    rows: list[Row]
    #: limits of the deployment that these jobs exceed
    beyond: list[str]

    @property
    def usd(self) -> float:
        return sum(row.usd or 0 for row in self.rows)

    @property
    def unpriced(self) -> list[str]:
        return [row.what for row in self.rows if row.usd is None]


def groups(deployment: Deployment, job: Job, *, by_messages: bool) -> list[Group]:
    """Returns the groups that scale separately on Flex Consumption and work for jobs.

    With `by_messages`, `tell` writes the feed.
    """
    found = []
    for group in job.groups:
        apart = group.name == REPLIES and not deployment.shared_replies
        found.append(replace(group, functions=LANES) if apart else group)
    if by_messages:
        found.append(Group("tell", 1, _HINTED + job.steps, _FEED_S, (_HINTED + job.steps) * _FEED_S))
    return found


def month(deployment: Deployment, jobs: int, *, steps: int = 3, events: bool = True) -> Month:
    """Returns the rows for evenly spread jobs of `steps` steps.

    Public events are in the feed unless `events` is false.
    """
    by_messages = events and jobs / MONTH_S > _BY_COMMITS
    in_feed = (
        events_by_commits(steps)
        if events and not by_messages
        else events_of(steps, "feed" if by_messages else "off", alone=False)
    )
    job = Job(steps)
    works = groups(deployment, job, by_messages=by_messages)
    times = jobs / MILLION
    executions = (job.executions + (_HINTED + steps if by_messages else 0)) * jobs + _SWEEPS + _PRUNES
    rows = [*_functions(deployment, works, jobs)]
    if deployment.hosting == FLEX:
        rows.append(Row("Functions: executions", executions / MILLION * prices.FLEX_EXECUTIONS.usd))
    rows += _bus(deployment, (job.bus_operations + in_feed.bus_operations) * jobs, job.replies * jobs)
    entities = job.entities_written + job.table_reads + in_feed.entities_written + in_feed.table_reads
    kept = (job.rows_kept + in_feed.rows_kept) * ROW_BYTES * times * MILLION / 1e9
    rows += [
        Row("Tables: operations", entities * times * prices.TABLE_OPERATIONS.usd),
        Row("Tables: data of the month's jobs", kept * prices.TABLE_GB.usd),
        Row("Blobs: results of steps", times * job.blob_usd),
    ]
    rows += _durable(deployment, job, jobs)
    rows += _watched(deployment, job, jobs, _processes(deployment, works, jobs / MONTH_S))
    shown = [row for row in rows if row.usd is None or row.usd >= 0.005]
    return Month(deployment, jobs, shown, _beyond(deployment, job, jobs))


def _functions(deployment: Deployment, works: list[Group], jobs: int) -> list[Row]:
    per_s = jobs / MONTH_S
    if deployment.hosting != FLEX:
        count = _instances(deployment, works, per_s)
        return [Row(f"Functions: instances {deployment.size}, {count}", count * _instance_usd(deployment))]
    ready = sum(deployment.ready.values())
    waiting = ready * deployment.gb * MONTH_S * prices.FLEX_READY_GB_S.usd
    rows = [Row(f"Functions: instances always ready, {ready}", waiting)]
    for group in works:
        busy = _busy(group, per_s, deployment.cores)
        rows.append(Row(f"Functions: time of {group.name}", _time_usd(deployment, _ready(deployment, group), busy)))
    sweeps = (_SWEEPS * SWEEP_S + _PRUNES * PRUNE_S) / MONTH_S
    rows.append(Row("Functions: time of timers", _time_usd(deployment, deployment.ready.get("sweep", 0), sweeps)))
    return rows


def _busy(group: Group, per_s: float, cores: float) -> float:
    """Returns the average number of busy instances of the group. An instance with fewer cores is busy longer."""
    each = per_s * group.executions / group.functions
    awake = 1 - math.exp(-each * max(BILLED_S, group.wall_s / min(cores, 1)))
    return group.functions * max(awake, per_s * group.cpu_s / group.functions / CPU_SHARE / cores)


def _ready(deployment: Deployment, group: Group) -> int:
    names = [f"reply_p{lane}" for lane in range(group.functions)] if group.functions > 1 else [group.name]
    return sum(deployment.ready.get(name, 0) for name in names)


def _time_usd(deployment: Deployment, ready: int, busy: float) -> float:
    at_ready = min(ready, busy)
    gb_s = deployment.gb * MONTH_S
    return gb_s * (at_ready * prices.PRICES["FLEX_READY_BUSY_GB_S"].usd + (busy - at_ready) * prices.FLEX_GB_S.usd)


def _instances(deployment: Deployment, works: list[Group], per_s: float) -> int:
    """Returns the instances of a plan: those that the CPU of the jobs needs, and at least the configured number."""
    cores = sum(group.cpu_s for group in works) * per_s / CPU_SHARE
    return max(deployment.instances, math.ceil(cores / deployment.cores))


def _instance_usd(deployment: Deployment) -> float:
    gb, cores = SIZES[deployment.size]
    if deployment.hosting == PREMIUM:
        hour = cores * prices.PRICES["PREMIUM_VCPU_H"].usd + gb * prices.PRICES["PREMIUM_GB_H"].usd
    else:
        hour = prices.PRICES[f"PLAN_{deployment.size.upper()}_H"].usd
    return hour * MONTH_H


def idle_operations(deployment: Deployment) -> float:
    """Returns a month's Service Bus operations without messages, by triggers, scale controller and sweeper."""
    replies = ["replies"] if deployment.shared_replies else [f"reply_p{lane}" for lane in range(LANES)]
    triggers = [*replies, "admission", "tell", *(["deliver"] if deployment.webhooks else [])]
    listening = 0.0
    for name in triggers:
        up = deployment.ready.get(name, 0) if deployment.hosting == FLEX else deployment.instances
        listening += up * (IDLE_BATCH_RECEIVES if name == "tell" else IDLE_RECEIVES)
    looks = 0 if deployment.hosting == PLAN else len(triggers) * SCALE_LOOKS
    return (listening + looks + _PEEKS) * MONTH_S / 60


def _bus(deployment: Deployment, operations: float, replies: int) -> list[Row]:
    if deployment.bus_units:
        name = f"Service Bus Premium: {deployment.bus_units} messaging units"
        return [Row(name, deployment.bus_units * MONTH_H * prices.BUS_PREMIUM_H.usd)]
    idle = idle_operations(deployment)
    # a forwarded message is one more operation
    whole = operations + (replies if deployment.shared_replies else 0) + idle
    return [
        Row("Service Bus Standard: a namespace", MONTH_H * prices.BUS_STANDARD_H.usd),
        Row("Service Bus Standard: operations past those included", operations_usd(whole / MILLION)),
    ]


def operations_usd(millions: float) -> float:
    """Returns the price of a month's operations of a Standard namespace above its base price."""
    ends = [*_TIERS, math.inf][1:]
    return sum(
        max(0.0, min(millions, end) - begin) * prices.PRICES[name].usd
        for (begin, name), end in zip(_TIERS.items(), ends, strict=True)
    )


def _durable(deployment: Deployment, job: Job, jobs: int) -> list[Row]:
    times = jobs / MILLION
    if deployment.scheduler == CONSUMPTION:
        actions = job.scheduler_actions * times
        return [_unread(f"Durable Task Scheduler: {actions:,.2f} million actions", "SCHEDULER_ACTIONS", actions)]
    if deployment.scheduler:
        units = deployment.scheduler_units
        return [_unread(f"Durable Task Scheduler: {units} capacity units", "SCHEDULER_UNIT_H", units * MONTH_H)]
    calls = 3 * (job.durable_messages + job.activities) * times
    # an App Service plan has no scale controller
    looks = 0 if deployment.hosting == PLAN else HUB_LOOKS
    idle = IDLE_QUEUES * (MONTH_S / POLL_S + looks * MONTH_S / 60) / MILLION
    return [
        Row("Durable on Azure Storage: queues", (calls + idle) * prices.QUEUE_OPERATIONS.usd),
        Row("Durable on Azure Storage: tables", 3 * job.episodes * times * prices.TABLE_OPERATIONS.usd),
    ]


def _unread(what: str, price: str, quantity: float) -> Row:
    listed = prices.PRICES[price].listed
    return Row(what, None if listed is None and quantity else quantity * (listed or 0))


def _processes(deployment: Deployment, works: list[Group], per_s: float) -> float:
    """Returns the average number of running processes of the app."""
    if deployment.hosting != FLEX:
        return _instances(deployment, works, per_s)
    return sum(max(_ready(deployment, group), _busy(group, per_s, deployment.cores)) for group in works)


def _watched(deployment: Deployment, job: Job, jobs: int, processes: float) -> list[Row]:
    """Returns the rows of telemetry, alerts, the store and the network."""
    gb = {
        "Log records": jobs * job.record_bytes / 1e9,
        "Traces": jobs * job.span_bytes(deployment.traces_kept) / 1e9,
        "Metrics": processes * METRIC_BYTES_A_MINUTE * MONTH_S / 60 / 1e9,
    }
    cap = math.inf if deployment.log_cap_gb is None else deployment.log_cap_gb * MONTH_H / 24
    share = min(1.0, cap / sum(gb.values()))
    tier, registry = deployment.app_configuration.upper(), deployment.registry.upper()
    return [
        *(
            Row(name + (" (at the daily cap)" if share < 1 else ""), share * each * prices.LOGS_GB.usd)
            for name, each in gb.items()
        ),
        Row(
            "Alerts",
            deployment.metric_series * prices.PRICES["METRIC_ALERT"].usd
            + deployment.log_rules * prices.PRICES["LOG_ALERT"].usd,
        ),
        Row("App Configuration", prices.PRICES[f"CONFIG_{tier}_H"].usd * MONTH_H if tier else 0.0),
        Row("Container registry", prices.PRICES[f"REGISTRY_{registry}_H"].usd * MONTH_H if registry else 0.0),
        Row(
            "Private endpoints and DNS zones",
            deployment.private_endpoints * MONTH_H * prices.PRICES["PRIVATE_ENDPOINT_H"].usd
            + deployment.dns_zones * prices.PRICES["DNS_ZONE"].usd,
        ),
    ]


def _beyond(deployment: Deployment, job: Job, jobs: int) -> list[str]:
    """Returns the limits of the bus and of the ledger's account that the rate exceeds."""
    standard, premium = f"{prices.BUS_STANDARD.thing}, events `feed`", prices.BUS_PREMIUM.thing
    has = {prices.TABLE_ACCOUNT.thing: 1, premium if deployment.bus_units else standard: deployment.bus_units or 1}
    return [each.thing for each in needs(job) if has.get(each.thing, math.inf) * each.jobs_per_s < jobs / MONTH_S]
