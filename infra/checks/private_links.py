"""Checks endpoints: zones of a private endpoint by its target, the app's subnet by its plan, kind of storage URLs.

Groups and zones: https://learn.microsoft.com/azure/private-link/private-endpoint-dns. Delegations:
https://learn.microsoft.com/azure/azure-functions/functions-networking-options#subnets
"""

from __future__ import annotations

import re

from infra.checks.finding import Finding
from infra.checks.snapshots import Resource, Snapshot, settings

_STORAGE = "core.windows.net"
#: private DNS zones with the records of a target, by its type and group
_ZONES = {
    ("Microsoft.AppConfiguration/configurationStores", "configurationStores"): {"privatelink.azconfig.io"},
    ("Microsoft.DurableTask/schedulers", "scheduler"): {"privatelink.durabletask.io"},
    ("Microsoft.Insights/privateLinkScopes", "azuremonitor"): {
        "privatelink.monitor.azure.com",
        "privatelink.oms.opinsights.azure.com",
        "privatelink.ods.opinsights.azure.com",
        "privatelink.agentsvc.azure-automation.net",
        f"privatelink.blob.{_STORAGE}",
    },
    ("Microsoft.KeyVault/vaults", "vault"): {"privatelink.vaultcore.azure.net"},
    ("Microsoft.ServiceBus/namespaces", "namespace"): {"privatelink.servicebus.windows.net"},
    ("Microsoft.Web/sites", "sites"): {"privatelink.azurewebsites.net"},
    **{
        ("Microsoft.Storage/storageAccounts", group): {f"privatelink.{group}.{_STORAGE}"}
        for group in ("blob", "queue", "table")
    },
}
#: settings with an endpoint, and the endpoint that a template reads for them
_SERVICE = re.compile(r"(blob|queue|table)(?:service)?_?(?:endpoint|uri)$", re.IGNORECASE)
_READ = re.compile(r"\.primaryEndpoints\.(\w+)$")


def check(snapshot: Snapshot) -> list[Finding]:
    zones = {each.name.partition("/")[0]: each for each in snapshot.of(f"{_ENDPOINT}/privateDnsZoneGroups")}
    found = [each for endpoint in snapshot.of(_ENDPOINT) for each in _endpoint(snapshot, endpoint, zones)]
    for site in snapshot.of("Microsoft.Web/sites"):
        found += _delegation(snapshot, site)
    for config in snapshot.of("Microsoft.Web/sites/config"):
        for name, value in settings(config.get("properties")).items():
            service, read = _SERVICE.search(name), _READ.search(value)
            if service and read and service[1].lower() != read[1]:
                found.append(
                    snapshot.finding(
                        "endpoint", config, f"{name} has the endpoint of {read[1]}, not {service[1].lower()}"
                    )
                )
    return found


_ENDPOINT = "Microsoft.Network/privateEndpoints"


def _endpoint(snapshot: Snapshot, endpoint: Resource, groups: dict[str, Resource]) -> list[Finding]:
    """Checks that the zones of the target's group have the records of the endpoint, and no others."""
    (connection,) = endpoint.get("properties.privateLinkServiceConnections")
    target, (group,) = connection["properties"]["privateLinkServiceId"], connection["properties"]["groupIds"]
    kind = "/".join(target.rpartition("/providers/")[2].split("/")[:2])
    given = groups.get(endpoint.name)
    configured = given.get("properties.privateDnsZoneConfigs") if given is not None else []
    zones = {_zone(each["properties"]["privateDnsZoneId"]) for each in configured}
    if zones == _ZONES.get((kind, group)):
        return []
    shown = ", ".join(sorted(zones)) or "no zone"
    return [snapshot.finding("private-link", endpoint, f"group {group} and {shown} do not fit {kind}")]


def _zone(identifier: str) -> str:
    """Returns the name of a zone by its id, which is an expression if the suffix of storage depends on the cloud."""
    by_cloud = re.search(r"format\('([\w.]+)\{0\}', environment\(\)\.suffixes\.storage\)", identifier)
    return f"{by_cloud[1]}{_STORAGE}" if by_cloud else identifier.rpartition("/")[2]


def _delegation(snapshot: Snapshot, site: Resource) -> list[Finding]:
    subnet = next(
        (each for each in snapshot.resources if each.content["id"] == site.get("properties.virtualNetworkSubnetId")),
        None,
    )
    if subnet is None:
        return []
    expected = "Microsoft.App/environments" if snapshot.on_flex else "Microsoft.Web/serverFarms"
    given = [each["properties"]["serviceName"] for each in subnet.get("properties.delegations") or []]
    return [] if given == [expected] else [snapshot.finding("delegation", subnet, f"must be delegated to {expected}")]
