"""Checks templates for values that compile, but that Flex Consumption refuses, or with which a second deployment fails
or deletes resources.
"""

from __future__ import annotations

import json

from infra.checks.finding import Finding
from infra.checks.snapshots import Resource, Snapshot

#: Settings that error 51021 named, and settings that only Elastic Premium has; null counts as sent. Microsoft's list:
#: https://learn.microsoft.com/azure/azure-functions/functions-app-settings#flex-consumption-plan-deprecations
REFUSED = frozenset(
    {
        *("alwaysOn", "containerSize", "ftpsState", "functionAppScaleLimit", "functionsRuntimeScaleMonitoringEnabled"),
        *("javaContainer", "javaContainerVersion", "javaVersion", "linuxFxVersion", "minimumElasticInstanceCount"),
        *("netFrameworkVersion", "nodeVersion", "phpVersion", "powerShellVersion", "preWarmedInstanceCount"),
        *("pythonVersion", "use32BitWorkerProcess", "windowsFxVersion"),
    }
)
#: values that change at each deployment: a name, or a date that Azure refuses to change
_CHANGING = ("utcNow(", "newGuid(")


def check(snapshot: Snapshot) -> list[Finding]:
    found = []
    for each in snapshot.resources:
        if each.type == "Microsoft.Web/sites" and snapshot.on_flex:
            refused = sorted(REFUSED & set(each.get("properties.siteConfig") or {}))
            found += [
                snapshot.finding("flex", each, f"siteConfig.{name}: Flex Consumption refuses this property; remove it")
                for name in refused
            ]
        if (reason := _again(each)) is not None:
            found.append(snapshot.finding("again", each, reason))
    return found


def _again(resource: Resource) -> str | None:
    """Returns the reason why a second deployment would fail or delete resources, or None."""
    if any(name in json.dumps(resource.content) for name in _CHANGING):
        return "must not use utcNow or newGuid, whose value changes at each deployment"
    if (
        resource.type == "Microsoft.OperationalInsights/workspaces/savedSearches"
        and resource.get("properties.etag") != "*"
    ):
        return "must have the property etag: '*'; without etag, a second deployment gets 409"
    if resource.type == "Microsoft.Network/virtualNetworks" and resource.get("properties.subnets") is not None:
        return (
            "must have no list of subnets, because a list deletes all other subnets; declare each subnet as a resource"
        )
    if resource.type == "Microsoft.Authorization/roleAssignments":
        # the id of a principal that the deployment creates is an expression
        principal = str(resource.get("properties.principalId")).strip("[]")
        if "(" in principal and principal not in resource.name:
            return "the name must contain the principalId, so that a new identity gets a new assignment"
    return None
