"""What a company has prepared for LUCIUS, as `az resource show` shows it, under ids of docs/guides/own-resources.md."""

from __future__ import annotations

from typing import Any

GROUPS = "/subscriptions/sub-1/resourceGroups"
NETWORK = f"{GROUPS}/rg-network/providers/Microsoft.Network/virtualNetworks/vnet-company"
ZONES = f"{GROUPS}/rg-dns"
WORKSPACE = f"{GROUPS}/rg-logs/providers/Microsoft.OperationalInsights/workspaces/log-company"


def subnet(delegated: str | None) -> dict[str, Any]:
    """A subnet that is delegated to a service, or to none."""
    return {"properties": {"delegations": [{"properties": {"serviceName": delegated}}] if delegated else []}}


def company(**changes: Any) -> dict[str, Any]:
    """The resources. Changes: delegations of `app`, `endpoints`, `containers`; regions of `workspace`, `network`."""
    apps = "Microsoft.App/environments"
    return {
        NETWORK: {"location": changes.get("network", "westeurope")},
        f"{NETWORK}/subnets/snet-lucius-app": subnet(changes.get("app", apps)),
        f"{NETWORK}/subnets/snet-lucius-endpoints": subnet(changes.get("endpoints")),
        f"{NETWORK}/subnets/snet-lucius-containers": subnet(changes.get("containers", apps)),
        f"{ZONES}/providers/Microsoft.Network/privateDnsZones/privatelink.servicebus.windows.net": {"id": "zone"},
        WORKSPACE: {"location": changes.get("workspace", "westeurope")},
    }
