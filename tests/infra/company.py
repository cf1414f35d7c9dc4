"""Existing resources of a company for LUCIUS, as `az resource show` shows them, under ids of
docs/guides/own-resources.md.
"""

from __future__ import annotations

from typing import Any

GROUPS = "/subscriptions/sub-1/resourceGroups"
NETWORK = f"{GROUPS}/rg-network/providers/Microsoft.Network/virtualNetworks/vnet-company"
ZONES = f"{GROUPS}/rg-dns"
WORKSPACE = f"{GROUPS}/rg-logs/providers/Microsoft.OperationalInsights/workspaces/log-company"

#: all that the template needs beside those of telemetry, which has a private link of the company's
_ZONES = (
    *(f"{service}.core.windows.net" for service in ("blob", "queue", "table")),
    *("servicebus.windows.net", "azconfig.io", "vaultcore.azure.net", "azurewebsites.net", "durabletask.io"),
)


def subnet(delegated: str | None, size: int = 24) -> dict[str, Any]:
    """Returns a subnet that is delegated to a service, or to none; a /24 unless `size` is set."""
    delegations = [{"properties": {"serviceName": delegated}}] if delegated else []
    return {"properties": {"addressPrefix": f"10.1.0.0/{size}", "delegations": delegations}}


def company(**changes: Any) -> dict[str, Any]:
    """The resources. Changes: delegations of `app`, `endpoints`, `containers`; regions of `workspace`, `network`; the
    `size` of the subnet of container apps.
    """
    apps = "Microsoft.App/environments"
    return {
        NETWORK: {"location": changes.get("network", "westeurope")},
        f"{NETWORK}/subnets/snet-lucius-app": subnet(changes.get("app", apps)),
        f"{NETWORK}/subnets/snet_app": subnet(apps),
        f"{NETWORK}/subnets/snet-lucius-endpoints": subnet(changes.get("endpoints")),
        f"{NETWORK}/subnets/snet-lucius-containers": subnet(changes.get("containers", apps), changes.get("size", 24)),
        **{f"{ZONES}/providers/Microsoft.Network/privateDnsZones/privatelink.{zone}": {"id": zone} for zone in _ZONES},
        WORKSPACE: {"location": changes.get("workspace", "westeurope")},
    }
