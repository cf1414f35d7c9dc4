"""Checks container apps. Each app runs one service, with a scale rule for each of the service's subscriptions.

Rules must match KEDA's schema, since Resource Manager accepts a rule with any metadata. With a wrong rule, KEDA does
not scale, and reports this in the system logs only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.checks.finding import Finding
from infra.checks.snapshots import Resource, Snapshot
from infra.checks.topics import LANES

_SCALER: dict[str, Any] = json.loads((Path(__file__).parent / "keda_azure_servicebus.json").read_text(encoding="utf-8"))
_PARAMETERS = {each["name"]: each for each in _SCALER["parameters"] if each.get("metadataVariableReadable")}
_APPS = "Microsoft.App/containerApps"
_SUBNETS = "Microsoft.Network/virtualNetworks/subnets"


def check(root: Path, snapshot: Snapshot) -> list[Finding]:
    """Returns findings about rules, identities and the subnet of container apps."""
    topology = json.loads((root / "infra" / "bicep" / "topology.json").read_text(encoding="utf-8"))
    prefix = topology["directives"]["prefix"]
    found = [
        snapshot.finding("container-app", app, reason) for app in snapshot.of(_APPS) for reason in _app(app, prefix)
    ]
    for each in snapshot.of("Microsoft.App/managedEnvironments"):
        named = each.get("properties.vnetConfiguration.infrastructureSubnetId")
        subnet = next((subnet for subnet in snapshot.of(_SUBNETS) if subnet.content["id"] == named), None)
        delegations = subnet.get("properties.delegations") or [] if subnet is not None else []
        delegated = [delegation["properties"]["serviceName"] for delegation in delegations]
        if subnet is not None and delegated != ["Microsoft.App/environments"]:
            found.append(snapshot.finding("delegation", subnet, "must be delegated to Microsoft.App/environments"))
    return found


def _app(app: Resource, prefix: str) -> list[str]:
    """Returns findings about an app: its rules, and the identities that its code gets tokens of."""
    (container,) = app.get("properties.template.containers")
    rules = [each["custom"] for each in app.get("properties.template.scale.rules")]
    reasons = [reason for rule in rules for reason in _rule(rule)]
    watched = {(rule["metadata"].get("topicName"), rule["metadata"].get("subscriptionName")) for rule in rules}
    if watched != {(f"{prefix}{lane}", container["args"][0]) for lane in range(LANES)}:
        reasons.append(f"does not scale by the subscription {container['args'][0]} of each lane")
    stages = {each["identity"]: each["lifecycle"] for each in app.get("properties.configuration.identitySettings")}
    pulls = app.get("properties.configuration.registries")
    outside = {each["identity"] for each in [*rules, *pulls]}
    if {stages.get(each) for each in outside} != {"None"}:
        reasons.append("the code of the app must not get tokens of the identity that pulls images and counts messages")
    if sorted(stages.values()) != ["Main", "None"] or not all("identity" in each for each in pulls):
        reasons.append("needs two identities: its own identity, and the identity that Container Apps uses")
    return reasons


def _rule(rule: dict[str, Any]) -> list[str]:
    """Returns the errors of a rule for KEDA: another type, an unknown or missing parameter, or a forbidden value."""
    if rule["type"] != _SCALER["type"]:
        return [f"the rule has the type {rule['type']}; use {_SCALER['type']}"]
    metadata = rule["metadata"]
    reasons = [f"the scaler has no parameter {name}" for name in metadata if name not in _PARAMETERS]
    for name, each in _PARAMETERS.items():
        value = metadata.get(name)
        if value is None and not each.get("optional") and "default" not in each:
            reasons.append(f"the scaler needs the parameter {name}")
        if value is not None and value not in each.get("allowedValue", [value]):
            reasons.append(f"{name} must be one of {', '.join(each['allowedValue'])}")
    # with an identity, no connection string names the namespace (azure_servicebus_scaler.go)
    if not metadata.get("namespace"):
        reasons.append("the scaler needs the parameter namespace, because the rule uses an identity")
    return reasons
