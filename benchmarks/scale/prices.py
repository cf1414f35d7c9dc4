"""List prices (`prices.json`) and limits of the model, each with its source page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

#: seconds and hours of an average month
MONTH_S = 2_628_000
MONTH_H = 730


@dataclass(frozen=True)
class Price:
    """A price in US dollars for one `unit`."""

    listed: float | None
    unit: str
    page: str
    #: date of the comparison, and the source with this or another price, or the text "no readable source found"
    compared: str

    @property
    def usd(self) -> float:
        """Returns the price. Raises ValueError for a price that could not be read."""
        if self.listed is None:
            raise ValueError(
                f"no price of a {self.unit}: read {self.page} and enter it in benchmarks/scale/prices.json"
            )
        return self.listed


_FILE = json.loads((Path(__file__).parent / "prices.json").read_text())
#: month and region of the prices
READ, REGION = str(_FILE["read"]), str(_FILE["region"])
PRICES = {
    name: Price(each["usd"], each["unit"], each["page"], each["compared"]) for name, each in _FILE["prices"].items()
}

FLEX_GB_S = PRICES["FLEX_GB_S"]
FLEX_EXECUTIONS = PRICES["FLEX_EXECUTIONS"]
FLEX_READY_GB_S = PRICES["FLEX_READY_GB_S"]
BUS_STANDARD_H = PRICES["BUS_STANDARD_H"]
BUS_STANDARD_OPERATIONS = PRICES["BUS_STANDARD_OPERATIONS"]
BUS_PREMIUM_H = PRICES["BUS_PREMIUM_H"]
TABLE_OPERATIONS = PRICES["TABLE_OPERATIONS"]
TABLE_GB = PRICES["TABLE_GB"]
QUEUE_OPERATIONS = PRICES["QUEUE_OPERATIONS"]
BLOB_WRITES = PRICES["BLOB_WRITES"]
BLOB_READS = PRICES["BLOB_READS"]
BLOB_OTHERS = PRICES["BLOB_OTHERS"]
LOGS_GB = PRICES["LOGS_GB"]
KEY_OPERATIONS = PRICES["KEY_OPERATIONS"]


@dataclass(frozen=True)
class Limit:
    """A throughput limit: one `thing` takes at most `per_s` of `unit`.

    A subscription and region has at most `most` things. None means no limit.
    """

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
#: limit of the Consumption SKU, which has no units
SCHEDULER_CONSUMPTION = Limit(500, "actions", "Durable Task Scheduler, Consumption", SCHEDULER_UNIT.page, most=1)
CONTROL_QUEUE = Limit(
    2_000, "messages", "control queue (Azure Storage backend)", _LEARN + "storage/queues/scalability-targets", most=16
)
