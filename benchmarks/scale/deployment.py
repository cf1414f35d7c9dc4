"""The parts of a deployment that have a price, read from the committed snapshot of a parameter file
(`infra/bicep/snapshots`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SNAPSHOTS = Path(__file__).parents[2] / "infra" / "bicep" / "snapshots"
#: parameter files, the smallest deployment first
NAMES = ("minimal", "dev", "prod")

FLEX, PREMIUM, PLAN = "Flex Consumption", "Elastic Premium", "App Service"
CONSUMPTION, DEDICATED = "Consumption", "Dedicated"
#: Flex Consumption: cores per GB of an instance's memory
CORES_A_GB = 0.5
#: memory and cores of an instance by the size of its plan
SIZES = {"EP1": (3.5, 1), "EP2": (7.0, 2), "EP3": (14.0, 4), "B1": (1.75, 1), "P0v3": (4.0, 1), "P1v3": (8.0, 2)}


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployment of LUCIUS in one month. The defaults are those of a small deployment on Flex Consumption, with the
    Azure Storage backend.
    """

    name: str = ""
    hosting: str = FLEX
    #: memory of an instance on Flex Consumption in GB; a plan's size decides it
    gb: float = 2.0
    size: str = ""
    #: number of instances of a plan
    instances: int = 1
    #: Flex Consumption: always-ready instances, by scale group (`http`, `durable`, a function's name)
    ready: dict[str, int] = field(default_factory=lambda: {"durable": 1})
    #: one function reads the replies of all lanes
    shared_replies: bool = True
    webhooks: bool = False
    bus_units: int = 0  #: messaging units of Premium; 0: Standard
    scheduler: str = ""  #: tier of the Durable Task Scheduler; "": Azure Storage
    scheduler_units: int = 0
    app_configuration: str = ""  #: tier of App Configuration; "": none
    registry: str = ""  #: tier of the registry; "": none
    private_endpoints: int = 0
    dns_zones: int = 0
    #: time series of metric alerts, and log alert rules
    metric_series: int = 0
    log_rules: int = 0
    #: maximum GB of logs per day; None means no limit
    log_cap_gb: float | None = None
    #: share of the traces that are kept
    traces_kept: float = 0.1

    @property
    def cores(self) -> float:
        """Returns the cores of one instance."""
        return CORES_A_GB * self.gb if self.hosting == FLEX else SIZES[self.size][1]


def read(name: str) -> Deployment:
    """Returns the deployment of a parameter file. Raises FileNotFoundError for an unknown name."""
    resources: list[dict[str, Any]] = json.loads((_SNAPSHOTS / f"{name}.json").read_text(encoding="utf-8"))

    def of(kind: str) -> list[dict[str, Any]]:
        return [each for each in resources for _ in range(each.get("count", 1)) if each["type"] == kind]

    def sku(kind: str) -> str:
        return next((each["sku"]["name"] for each in of(kind)), "")

    [plan], [site] = of("Microsoft.Web/serverfarms"), of("Microsoft.Web/sites")
    [bus] = of("Microsoft.ServiceBus/namespaces")
    scheduler = next((each["properties"]["sku"] for each in of("Microsoft.DurableTask/schedulers")), {})
    [workspace] = of("Microsoft.OperationalInsights/workspaces")
    cap = workspace["properties"]["workspaceCapping"]["dailyQuotaGb"]
    scaling = site["properties"].get("functionAppConfig", {}).get("scaleAndConcurrency", {})
    [settings] = (each["properties"] for each in of("Microsoft.Web/sites/config"))
    size = plan["sku"]["name"]
    replies = [each for each in of("Microsoft.ServiceBus/namespaces/topics/subscriptions") if "replies" in each["name"]]
    return Deployment(
        name=name,
        hosting={"FlexConsumption": FLEX, "ElasticPremium": PREMIUM}.get(plan["sku"]["tier"], PLAN),
        gb=scaling["instanceMemoryMB"] / 1024 if scaling else SIZES[size][0],
        size="" if scaling else size,
        instances=plan["sku"].get("capacity", 1),
        ready={
            each["name"].removeprefix("function:"): each["instanceCount"] for each in scaling.get("alwaysReady", ())
        },
        shared_replies=all("forwardTo" in each["properties"] for each in replies),
        bus_units=bus["sku"].get("capacity", 0),
        scheduler=scheduler.get("name", ""),
        scheduler_units=scheduler.get("capacity", 0),
        app_configuration=sku("Microsoft.AppConfiguration/configurationStores"),
        registry=sku("Microsoft.ContainerRegistry/registries"),
        private_endpoints=len(of("Microsoft.Network/privateEndpoints")),
        dns_zones=len(of("Microsoft.Network/privateDnsZones")),
        metric_series=sum(map(_series, of("Microsoft.Insights/metricAlerts"))),
        log_rules=len(of("Microsoft.Insights/scheduledQueryRules")),
        log_cap_gb=cap if cap > 0 else None,
        traces_kept=float(settings["LUCIUS_TRACE_RATIO"].strip("'")),
    )


def _series(alert: dict[str, Any]) -> int:
    """Returns the number of time series that a metric alert watches: one for each value of its dimensions."""
    conditions = alert["properties"]["criteria"]["allOf"]
    return sum(max(len(each["values"]) for each in one.get("dimensions") or [{"values": [""]}]) for one in conditions)
