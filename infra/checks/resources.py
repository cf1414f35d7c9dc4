"""Roles by name, and the topics of the bus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.template import Node, Resource, Template, literal, nested, text, walk

_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
#: https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
_ROLES = {
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
    "974c5e8b-45b9-4653-ba55-5f855dd0fb88": "Storage Queue Data Contributor",
    "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3": "Storage Table Data Contributor",
    "090c5cfd-751d-490a-894a-3ce6f1109419": "Service Bus Data Owner",
    "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0": "Service Bus Data Receiver",
    "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39": "Service Bus Data Sender",
    "516239f1-63e1-4d78-a4de-a74fb236a071": "App Configuration Data Reader",
    "4633458b-17de-408a-b874-0445c86b69e6": "Key Vault Secrets User",
    "3913510d-42f4-4e42-8a64-420c390055eb": "Monitoring Metrics Publisher",
    "0ad04412-c4d5-4796-b79c-f76d14c8d402": "Durable Task Data Contributor",
    "5ae67dd6-50cb-40e7-96ff-dc2bfa4b606b": "App Configuration Data Owner",
}
_RULES = "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules"
LANES = 16
#: declarations of each type: one for directives and one for replies
_BUS = {
    "Microsoft.ServiceBus/namespaces/topics": 2,
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": 2,
    _RULES: 1,
}


def check(template: Template) -> list[Finding]:
    """A GUID is the id of a role of the list, under that role's name."""
    found = []
    for node in walk(template.root):
        guid = literal(node) if node.type == "string" else None
        if guid is None or not _GUID.fullmatch(guid):
            continue
        line, role = node.start_point.row + 1, _ROLES.get(guid.lower())
        if role is None:
            found.append(Finding(template.path, line, "role", f"{guid} is not a role of the list"))
        elif (name := _name_of(node)) is None or _letters(name) != _letters(role):
            found.append(Finding(template.path, line, "role", f"{guid} is {role}, but is called {name}"))
    return found


def check_topics(root: Path, templates: Iterable[Template]) -> list[Finding]:
    """`topology.json` has sixteen lanes each way, and topics, subscriptions and rules are loops over its content."""
    path = root / "infra" / "bicep" / "topology.json"
    topology = json.loads(path.read_text())
    found = []
    if topology["lanes"] != LANES:
        found.append(Finding(path, 0, "topics", f"{topology['lanes']} lanes, not {LANES} each way"))
    declared = dict.fromkeys(_BUS, 0)
    for template in templates:
        reads = "topology.json" in text(template.root)
        for resource in template.resources:
            if resource.type not in declared or resource.existing:
                continue
            declared[resource.type] += 1
            if resource.type == _RULES:
                found += _rule(template, resource)
            if not reads or not _loops(resource.node):
                found.append(
                    Finding(template.path, resource.line, "topics", f"{resource.name} is not a loop over topology.json")
                )
    return found + [
        Finding(root / "infra" / "bicep", 0, "topics", f"{count} declarations of {kind}, not {_BUS[kind]}")
        for kind, count in declared.items()
        if count != _BUS[kind]
    ]


def _rule(template: Template, resource: Resource) -> list[Finding]:
    """Named `$Default` it replaces the true rule of a new subscription; beside that one, a service gets all steps."""
    wrong = []
    if literal(nested(resource.node).get("name")) != "$Default":
        wrong.append("must be named $Default: beside the rule of that name, it lets everything through")
    kind = literal(nested(resource.node, "properties").get("filterType"))
    names = nested(resource.node, "properties", "correlationFilter", "properties").keys()
    if kind != "CorrelationFilter" or names != {"step_type"}:
        wrong.append("must be a correlation filter on step_type, which directives carry")
    return [Finding(template.path, resource.line, "topics", f"{resource.name} {each}") for each in wrong]


def _name_of(node: Node) -> str | None:
    """The name of the property, variable or parameter that holds the value."""
    around = node.parent
    while around is not None:
        if around.type in ("object_property", "variable_declaration", "parameter_declaration"):
            key = around.named_children[0]
            return literal(key) if key.type == "string" else text(key)
        around = around.parent
    return None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _loops(node: Node) -> bool:
    """The declaration, or one around it, is a `for`."""
    around: Node | None = node
    while around is not None:
        if any(child.type == "for_statement" for child in around.named_children):
            return True
        around = around.parent
    return False
