"""Alert rules against what they watch: Azure's table of metrics, and the columns that a rule's own query puts out.

Resource Manager takes a rule over a metric that does not exist, and a measure that its query does not have, as far as
`skipQueryValidation` goes; such a rule never fires.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.checks import kql
from infra.checks.finding import Finding
from infra.checks.template import Node, Template, literal, properties, text, walk

_METRICS: dict[str, Any] = json.loads((Path(__file__).parent / "azure_metrics.json").read_text())
_MODULE = "alerts.bicep"
_ARRAYS = {"metricAlerts": frozenset({"namespace", "metric"}), "logAlerts": frozenset({"query", "measure"})}


@dataclass(frozen=True)
class Rule:
    """One rule of the module: its properties by name, as they stand there."""

    kind: str
    node: Node
    properties: Mapping[str, Node]

    def word(self, name: str) -> str | None:
        """A property that is a plain string; None for any other, and where there is none."""
        return literal(self.properties.get(name))

    @property
    def line(self) -> int:
        return self.node.start_point.row + 1

    @property
    def threshold(self) -> int:
        """The number that rules where no parameter does."""
        return int(text(self.properties["threshold"]).rpartition("?? ")[2])

    def query(self, folder: Path) -> str:
        """The text of its query, by `loadTextContent` relative to the template's folder. Raises OSError."""
        return (folder / next(loaded(self.properties["query"]))).read_text(encoding="utf-8")


def loaded(node: Node) -> Iterator[str]:
    """The path of each `loadTextContent` in an expression."""
    for call in walk(node):
        if call.type == "call_expression" and text(call.named_children[0]) == "loadTextContent":
            yield from filter(None, (literal(each) for each in walk(call) if each.type == "string"))


def rules(template: Template) -> list[Rule]:
    """Every object of the template's arrays of rules."""
    found = []
    variables = template.of_kind("variable")
    for kind in _ARRAYS:
        value = variables[kind].value if kind in variables else None
        members = value.named_children if value is not None else []
        found += [Rule(kind, each, properties(each)) for each in members if each.type == "object"]
    return found


def check(template: Template) -> list[Finding]:
    """Findings in the module of alert rules; none in any other template."""
    if template.path.name != _MODULE:
        return []
    found = rules(template)
    wrong = [
        Finding(template.path, 0, "alert", f"no rule was read in {kind}")
        for kind in _ARRAYS
        if not any(rule.kind == kind for rule in found)
    ]
    for rule in found:
        if missing := _ARRAYS[rule.kind] - rule.properties.keys():
            reasons = [f"has no {', '.join(sorted(missing))}"]
        else:
            reasons = _metric(rule) if rule.kind == "metricAlerts" else _log(rule, template.path.parent)
        wrong += [Finding(template.path, rule.line, "alert", f"{rule.word('name')}: {reason}") for reason in reasons]
    return wrong


def _metric(rule: Rule) -> list[str]:
    namespace, name = rule.word("namespace"), rule.word("metric")
    known = _METRICS.get(namespace or "", {}).get(name)
    if known is None:
        return [f"{namespace} has no metric {name} (azure_metrics.json)"]
    reasons = []
    if (aggregation := rule.word("aggregation")) not in known["aggregations"]:
        reasons.append(f"{name} has no aggregation {aggregation}")
    if (dimension := rule.word("dimension")) not in known["dimensions"]:
        reasons.append(f"{name} has no dimension {dimension}")
    return reasons


def _log(rule: Rule, folder: Path) -> list[str]:
    try:
        query = kql.read(rule.query(folder))
    except (OSError, StopIteration):
        return ["its query is not there"]
    except kql.UnreadableQuery as unread:
        return [str(unread)]
    named = [rule.word("measure"), *([rule.word("dimension")] if "dimension" in rule.properties else [])]
    return [f"its query puts out no {name}" for name in named if query.output is None or name not in query.output]
