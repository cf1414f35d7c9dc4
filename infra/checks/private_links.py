"""Endpoints: a private one's group and zone by what it leads to, the app's subnet by its plan, blob, queue or table.

Groups and zones: https://learn.microsoft.com/azure/private-link/private-endpoint-dns. Delegations:
https://learn.microsoft.com/azure/azure-functions/functions-networking-options#subnets
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from infra.checks.finding import Finding
from infra.checks.template import Module, Node, Template, literal, properties, text, walk

_ENDPOINT = "private-endpoint.bicep"
#: by type: its groups, each with the zone of `privateAccess` that gets its records; None: the zones come by parameter
_GROUPS: dict[str, dict[str, str | None]] = {
    "Microsoft.AppConfiguration/configurationStores": {"configurationStores": "appConfiguration"},
    "Microsoft.DurableTask/schedulers": {"scheduler": "durableTask"},
    "Microsoft.Insights/privateLinkScopes": {"azuremonitor": None},
    "Microsoft.KeyVault/vaults": {"vault": "keyVault"},
    "Microsoft.ServiceBus/namespaces": {"namespace": "serviceBus"},
    "Microsoft.Web/sites": {"sites": "sites"},
}
#: its groups are a parameter, and its zones are named as they are
_STORAGE = "Microsoft.Storage/storageAccounts"
_ZONES = {
    "blob": "privatelink.blob.${environment().suffixes.storage}",
    "queue": "privatelink.queue.${environment().suffixes.storage}",
    "table": "privatelink.table.${environment().suffixes.storage}",
    "serviceBus": "privatelink.servicebus.windows.net",
    "appConfiguration": "privatelink.azconfig.io",
    "keyVault": "privatelink.vaultcore.azure.net",
    "sites": "privatelink.azurewebsites.net",
    "durableTask": "privatelink.durabletask.io",
    "monitor": "privatelink.monitor.azure.com",
    "oms": "privatelink.oms.opinsights.azure.com",
    "ods": "privatelink.ods.opinsights.azure.com",
    "agents": "privatelink.agentsvc.azure-automation.net",
}
_DELEGATION = "hosting == 'FlexConsumption' ? 'Microsoft.App/environments' : 'Microsoft.Web/serverFarms'"
#: of what a name is that an endpoint is given to, and what is read for it
_SERVICE = re.compile(r"(blob|queue|table)(?:service)?_?(?:endpoint|uri)", re.IGNORECASE)
_READ = re.compile(r"(?:primaryEndpoints\.)?(blob|queue|table)(?:Endpoint)?$")


def check(template: Template) -> list[Finding]:
    found = [each for module in template.modules for each in _module(template, module)]
    return [*found, *_zones(template), *_services(template)]


def _module(template: Template, module: Module) -> Iterator[Finding]:
    delegation = module.parameters.get("appSubnetDelegation")
    if delegation is not None and " ".join(text(delegation).split()) != _DELEGATION:
        reason = f"appSubnetDelegation must be {_DELEGATION}"
        yield Finding(template.path, delegation.start_point.row + 1, "delegation", reason)
    if not module.path.endswith(_ENDPOINT):
        return
    given = {name: text(node) for name, node in module.parameters.items()}
    target = given.get("targetResourceId", "").removesuffix(".id")
    kind = next((each.type for each in template.resources if each.name == target), None)
    group = literal(module.parameters.get("groupId"))
    zones = re.findall(r"privateAccess!\.zones(?:\.(\w+)|\[(\w+)\])", given.get("zoneResourceIds", ""))
    if kind == _STORAGE:
        right = zones == [("", given.get("groupId"))]
    else:
        groups = _GROUPS.get(kind or "", {})
        zone = groups.get(group or "")
        right = group in groups and zones == ([] if zone is None else [(zone, "")])
    if not right:
        reason = f"group {given.get('groupId')} and its zone do not fit {kind or 'what it leads to'}"
        yield Finding(template.path, module.line, "private-link", reason)


def _zones(template: Template) -> Iterator[Finding]:
    """Names of zones, and that each is put out under its own name."""
    names = template.of_kind("variable").get("zoneNames")
    if names is None or names.value is None:
        return
    given = {name: text(node).strip("'") for name, node in properties(names.value).items()}
    for name in sorted(given.keys() | _ZONES.keys()):
        if given.get(name) != _ZONES.get(name):
            reason = f"the zone {name} must be {_ZONES.get(name, 'in the list')}"
            yield Finding(template.path, names.line, "private-link", reason)
    outputs = [each.value for each in template.of_kind("output").values() if each.value is not None]
    shown = [properties(each).get("zones") for each in outputs if each.type == "object"]
    for zone, node in ((zone, node) for each in shown if each is not None for zone, node in properties(each).items()):
        if text(node) != f"zones[indexOf(zoneKeys, '{zone}')].id":
            reason = f"the zone {zone} must be that of the same name"
            yield Finding(template.path, node.start_point.row + 1, "private-link", reason)


def _services(template: Template) -> Iterator[Finding]:
    """A blob endpoint is no table endpoint."""
    for name, node in _named(template):
        expected = _SERVICE.search(name)
        read = _READ.search(text(node)) if node.type == "member_expression" else None
        if expected is not None and read is not None and read[1] != expected[1].lower():
            reason = f"{name} is given {text(node)}"
            yield Finding(template.path, node.start_point.row + 1, "endpoint", reason)


def _named(template: Template) -> Iterator[tuple[str, Node]]:
    """Properties and outputs with their values."""
    for output in template.of_kind("output").values():
        if output.value is not None:
            yield output.name, output.value
    for node in walk(template.root):
        if node.type == "object":
            yield from properties(node).items()
