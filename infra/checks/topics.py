"""The topics of the bus, in the template, the topology and the emulator's Config.json."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.template import Node, Resource, Template, ancestors, literal, nested, text

_RULES = "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules"
LANES = 16
#: declarations of each type: one for directives and one for replies; and the one topic of public events
_BUS = {
    "Microsoft.ServiceBus/namespaces/topics": 3,
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": 2,
    _RULES: 1,
}


def check(root: Path, templates: Iterable[Template]) -> list[Finding]:
    """`topology.json` has sixteen lanes each way, and topics, subscriptions and rules are loops over its content, but
    for the one topic of public events.
    """
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
            is_one = text(nested(resource.node)["name"]) == "topology.events.topic"
            if not reads or not (is_one or _loops(resource.node)):
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


def _loops(node: Node) -> bool:
    """The declaration, or one around it, is a `for`."""
    return any(child.type == "for_statement" for each in (node, *ancestors(node)) for child in each.named_children)
