"""List prices and limits that the model uses, each with where it can be read. Prices: US dollars, East US, 2026-11."""

from __future__ import annotations

from dataclasses import dataclass

#: seconds and hours of an average month
MONTH_S = 2_628_000
MONTH_H = 730


@dataclass(frozen=True)
class Price:
    """`usd` for one of `unit`."""

    usd: float
    unit: str
    page: str


_PAGE = "https://azure.microsoft.com/pricing/details/"

FLEX_GB_S = Price(0.000026, "GB-second on demand", _PAGE + "functions")
FLEX_EXECUTIONS = Price(0.40, "million executions", _PAGE + "functions")
FLEX_READY_GB_S = Price(0.000004, "GB-second always ready, idle", _PAGE + "functions")
BUS_STANDARD_H = Price(0.0135, "hour of a Standard namespace", _PAGE + "service-bus")
BUS_STANDARD_OPERATIONS = Price(0.80, "million operations past the first 13 a month", _PAGE + "service-bus")
BUS_PREMIUM_H = Price(0.928, "hour of a Premium messaging unit", _PAGE + "service-bus")
TABLE_OPERATIONS = Price(0.036, "million table operations", _PAGE + "storage/tables")
TABLE_GB = Price(0.045, "GB and month of table data, LRS", _PAGE + "storage/tables")
QUEUE_OPERATIONS = Price(0.40, "million queue operations", _PAGE + "storage/queues")
BLOB_WRITES = Price(5.00, "million blob writes, hot, LRS", _PAGE + "storage/blobs")
BLOB_READS = Price(0.40, "million blob reads, hot, LRS", _PAGE + "storage/blobs")
LOGS_GB = Price(2.30, "GB of logs and traces taken in", _PAGE + "monitor")

PRICES = {name: value for name, value in globals().items() if isinstance(value, Price)}


@dataclass(frozen=True)
class Limit:
    """`per_s` of `unit`, the most that one `thing` takes; `most` of them in one subscription and region, None: many."""

    per_s: float
    unit: str
    thing: str
    page: str
    most: int | None = None


_LEARN = "https://learn.microsoft.com/azure/"

BUS_STANDARD = Limit(
    1_000,
    "credits, one a send or receive",
    "Standard namespace",
    _LEARN + "service-bus-messaging/service-bus-throttling",
)
BUS_PREMIUM = Limit(
    4_000_000,
    "bytes in and out",
    "Premium messaging unit",
    _LEARN + "service-bus-messaging/service-bus-premium-messaging",
    most=16,
)
TABLE_ACCOUNT = Limit(20_000, "entities", "ledger account", _LEARN + "storage/tables/scalability-targets")
TABLE_PARTITION = Limit(2_000, "entities", "tenant's index partition", _LEARN + "storage/tables/scalability-targets")
SCHEDULER_UNIT = Limit(
    2_000,
    "actions",
    "Durable Task Scheduler capacity unit",
    _LEARN + "durable-task/scheduler/durable-task-scheduler-billing",
    most=3,
)
#: of the Consumption SKU, which has no units
SCHEDULER_CONSUMPTION = Limit(500, "actions", "Durable Task Scheduler, Consumption", SCHEDULER_UNIT.page, most=1)
CONTROL_QUEUE = Limit(
    2_000, "messages", "control queue (Azure Storage backend)", _LEARN + "storage/queues/scalability-targets", most=16
)
