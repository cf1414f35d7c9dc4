"""Checks required properties, for example no keys, no public access, encryption, regions, the runtime, tags and logs.

Each template would compile and deploy with another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.checks.finding import Finding
from infra.checks.snapshots import Resource, Snapshot
from infra.package.environment import DEPLOYED

_PYTHON = ".".join(map(str, DEPLOYED))
#: required values of properties, by resource type
_VALUES: Mapping[str, Mapping[str, str | bool]] = {
    "Microsoft.AppConfiguration/configurationStores": {"properties.disableLocalAuth": True},
    "Microsoft.App/managedEnvironments": {"properties.publicNetworkAccess": "Disabled"},
    "Microsoft.ContainerRegistry/registries": {
        "properties.adminUserEnabled": False,
        "properties.anonymousPullEnabled": False,
    },
    "Microsoft.Insights/actionGroups": {"location": "global"},
    "Microsoft.Insights/components": {"properties.DisableLocalAuth": True},
    "Microsoft.Insights/metricAlerts": {"location": "global"},
    "Microsoft.Insights/privateLinkScopes": {"location": "global"},
    "Microsoft.KeyVault/vaults": {
        "properties.enablePurgeProtection": True,
        "properties.enableRbacAuthorization": True,
    },
    "Microsoft.Network/privateDnsZones": {"location": "global"},
    "Microsoft.Network/privateDnsZones/virtualNetworkLinks": {"location": "global"},
    "Microsoft.OperationalInsights/workspaces": {"properties.features.disableLocalAuth": True},
    "Microsoft.ServiceBus/namespaces": {"properties.disableLocalAuth": True, "properties.minimumTlsVersion": "1.2"},
    "Microsoft.Storage/storageAccounts": {
        "properties.allowBlobPublicAccess": False,
        "properties.allowSharedKeyAccess": False,
        "properties.isLocalUserEnabled": False,
        "properties.minimumTlsVersion": "TLS1_2",
        "properties.supportsHttpsTrafficOnly": True,
    },
    "Microsoft.Storage/storageAccounts/blobServices/containers": {"properties.publicAccess": "None"},
    "Microsoft.Web/sites": {
        "properties.functionAppConfig.runtime.name": "python",
        "properties.functionAppConfig.runtime.version": _PYTHON,
        "properties.functionsRuntimeAdminIsolationEnabled": True,
        "properties.httpsOnly": True,
        "properties.siteConfig.minTlsVersion": "1.2",
    },
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": {"properties.allow": False},
}
_PUBLIC = "properties.publicNetworkAccess"
#: resource types that are closed to the public if there are private endpoints
_WITH_ENDPOINT = (
    "Microsoft.AppConfiguration/configurationStores",
    "Microsoft.DurableTask/schedulers",
    "Microsoft.KeyVault/vaults",
    "Microsoft.ServiceBus/namespaces",
    "Microsoft.Storage/storageAccounts",
    "Microsoft.Web/sites",
)
#: resource types that log to the workspace, without the Durable Task Scheduler, whose logs are not documented
_LOGGED = (
    "Microsoft.App/managedEnvironments",
    "Microsoft.AppConfiguration/configurationStores",
    "Microsoft.ContainerRegistry/registries",
    "Microsoft.KeyVault/vaults",
    "Microsoft.Network/networkSecurityGroups",
    "Microsoft.Network/virtualNetworks",
    "Microsoft.OperationalInsights/workspaces",
    "Microsoft.ServiceBus/namespaces",
    "Microsoft.Storage/storageAccounts",
    "Microsoft.Web/sites",
)
#: the account of anchors
_ANCHORS = "staud"
_POLICY = "properties.immutableStorageWithVersioning.immutabilityPolicy"
_IMMUTABLE: dict[str, Any] = {
    "properties.immutableStorageWithVersioning.enabled": True,
    f"{_POLICY}.immutabilityPeriodSinceCreationInDays": 400,
    f"{_POLICY}.allowProtectedAppendWrites": False,
}


def check(snapshot: Snapshot) -> list[Finding]:
    isolated = bool(snapshot.of("Microsoft.Network/privateEndpoints"))
    expected: list[tuple[Resource, str, Any]] = [
        (each, path, value) for kind in _VALUES for each in snapshot.of(kind) for path, value in _VALUES[kind].items()
    ]
    expected += [(each, _PUBLIC, "Disabled" if isolated else "Enabled") for each in snapshot.of(*_WITH_ENDPOINT)]
    expected += [
        (each, path, value)
        for each in snapshot.of("Microsoft.Storage/storageAccounts")
        if each.name.startswith(_ANCHORS)
        for path, value in _IMMUTABLE.items()
    ]
    logged = {each.scope for each in snapshot.of("Microsoft.Insights/diagnosticSettings")}
    found = [
        snapshot.finding("hardening", each, f"{path} must be {value}, not {each.get(path)}")
        for each, path, value in expected
        if each.get(path) != value
    ]
    found += [
        snapshot.finding("hardening", each, "has no diagnostic setting")
        for each in snapshot.of(*_LOGGED)
        if each.content["id"] not in logged
    ]
    found += [
        snapshot.finding("hardening", each, "has no security group")
        for each in snapshot.of("Microsoft.Network/virtualNetworks/subnets")
        if not each.get("properties.networkSecurityGroup.id")
    ]
    # resources with a region can have tags, by which a company finds owner and cost
    found += [
        snapshot.finding("hardening", each, "has no tags")
        for each in snapshot.resources
        if each.get("location") and not each.get("tags")
    ]
    return found
