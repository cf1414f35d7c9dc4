"""Properties that stay as they are: no keys, nothing public, nothing in the clear; regions that are none; the runtime.

Each of these templates would compile and deploy with another value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.checks.environment import DEPLOYED
from infra.checks.expressions import Expressions
from infra.checks.finding import Finding
from infra.checks.kinds import Kind, Plain, Record, present
from infra.checks.template import Resource, Template, body, nested, text

_PYTHON = ".".join(map(str, DEPLOYED))
#: by type: values of properties; a name that ends in `?` may be absent
_VALUES: Mapping[str, Mapping[str, str | bool]] = {
    "Microsoft.AppConfiguration/configurationStores": {"properties.disableLocalAuth": True},
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
    "Microsoft.ServiceBus/namespaces": {
        "properties.disableLocalAuth": True,
        "properties.minimumTlsVersion": "1.2",
    },
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
        "properties.httpsOnly": True,
        "properties.siteConfig.linuxFxVersion?": f"PYTHON|{_PYTHON}",
        "properties.siteConfig.minTlsVersion": "1.2",
    },
    "Microsoft.Web/sites/basicPublishingCredentialsPolicies": {"properties.allow": False},
}
_CLOSED = "privateAccess == null ? 'Enabled' : 'Disabled'"
#: what is closed to the public where there are private endpoints
_WITH_ENDPOINT = frozenset(
    {
        "Microsoft.AppConfiguration/configurationStores",
        "Microsoft.DurableTask/schedulers",
        "Microsoft.KeyVault/vaults",
        "Microsoft.ServiceBus/namespaces",
        "Microsoft.Storage/storageAccounts",
        "Microsoft.Web/sites",
    }
)


def check(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """Of one template; `templates` by resolved path."""
    expressions = Expressions(template, templates)
    found = []
    for resource in template.resources:
        inside = body(resource.node)
        if resource.existing or inside is None:
            continue
        for path, value in _VALUES.get(resource.type, {}).items():
            if not _is(expressions.of(inside), path.rstrip("?").split("."), value, optional=path.endswith("?")):
                expected = str(value).lower() if isinstance(value, bool) else f"'{value}'"
                found.append(_finding(template, resource, f"{path.rstrip('?')} must be {expected}"))
        public = nested(resource.node, "properties").get("publicNetworkAccess")
        if resource.type in _WITH_ENDPOINT and (public is None or " ".join(text(public).split()) != _CLOSED):
            found.append(_finding(template, resource, f"properties.publicNetworkAccess must be {_CLOSED}"))
    return found


def _finding(template: Template, resource: Resource, reason: str) -> Finding:
    return Finding(template.path, resource.line, "hardening", f"{resource.name}: {reason}")


def _is(kind: Kind, path: list[str], value: str | bool, *, optional: bool) -> bool:
    """Whether each alternative has the value, and no other."""
    alternatives = present(kind)
    if not path:
        return bool(alternatives) and all(
            isinstance(each, Plain) and each.values == frozenset({value}) for each in alternatives
        )
    held = [each.properties.get(path[0]) for each in alternatives if isinstance(each, Record)]
    known = [each for each in held if each is not None]
    if len(held) != len(alternatives) or (len(known) != len(held) and not optional):
        return False
    return bool(known) and all(_is(each, path[1:], value, optional=optional) for each in known)
