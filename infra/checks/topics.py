"""The bus: the template makes what `topology.json` says, sixteen topics each way."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.template import Node, Template, text

LANES = 16
_NEEDED = {
    "Microsoft.ServiceBus/namespaces/topics": 2,
    "Microsoft.ServiceBus/namespaces/topics/subscriptions": 2,
    "Microsoft.ServiceBus/namespaces/topics/subscriptions/rules": 1,
}


def check(root: Path, templates: Iterable[Template]) -> list[Finding]:
    """Topics, subscriptions and rules are loops over what is read from `topology.json`, never written out by hand."""
    path = root / "infra" / "bicep" / "topology.json"
    topology = json.loads(path.read_text())
    found = []
    if topology["lanes"] != LANES:
        found.append(Finding(path, 0, "topics", f"{topology['lanes']} lanes, not {LANES} each way"))
    made = dict.fromkeys(_NEEDED, 0)
    for template in templates:
        reads = "topology.json" in text(template.root)
        for resource in template.resources:
            if resource.type not in made or resource.existing:
                continue
            made[resource.type] += 1
            if not reads or not _loops(resource.node):
                found.append(
                    Finding(template.path, resource.line, "topics", f"{resource.name} is not a loop over topology.json")
                )
    return found + [
        Finding(root / "infra" / "bicep", 0, "topics", f"{count} declarations of {kind}, not {_NEEDED[kind]}")
        for kind, count in made.items()
        if count != _NEEDED[kind]
    ]


def _loops(node: Node) -> bool:
    """The declaration, or the one around it, is a `for`."""
    around: Node | None = node
    while around is not None:
        if any(child.type == "for_statement" for child in around.named_children):
            return True
        around = around.parent
    return False
