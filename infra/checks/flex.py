"""What Flex Consumption refuses in a site (error 51021), and what it wants instead."""

from __future__ import annotations

from collections.abc import Iterator

from infra.checks.finding import Finding
from infra.checks.template import Node, Template, literal, nested, text, walk

_SITE = "Microsoft.Web/sites"
#: what error 51021 was seen to name, and what only Elastic Premium has; a null counts as sent. Microsoft's list:
#: https://learn.microsoft.com/azure/azure-functions/functions-app-settings#flex-consumption-plan-deprecations
REFUSED = frozenset(
    {
        "alwaysOn",
        "containerSize",
        "ftpsState",
        "functionAppScaleLimit",
        "functionsRuntimeScaleMonitoringEnabled",
        "javaContainer",
        "javaContainerVersion",
        "javaVersion",
        "linuxFxVersion",
        "minimumElasticInstanceCount",
        "netFrameworkVersion",
        "nodeVersion",
        "phpVersion",
        "powerShellVersion",
        "preWarmedInstanceCount",
        "pythonVersion",
        "use32BitWorkerProcess",
        "windowsFxVersion",
    }
)
#: the condition of the template: its other branch is Elastic Premium's
_IS_FLEX = "isFlex"


def check(template: Template) -> list[Finding]:
    """Refused properties of `siteConfig` outside the branch of Elastic Premium."""
    found = []
    for resource in template.resources:
        if resource.type != _SITE or resource.existing:
            continue
        for node, name in _keys(nested(resource.node, "properties").get("siteConfig")):
            if name in REFUSED and not _premium(node):
                line = node.start_point.row + 1
                found.append(Finding(template.path, line, "flex", f"siteConfig.{name} is refused on Flex Consumption"))
    return found


def _keys(config: Node | None) -> Iterator[tuple[Node, str]]:
    for node in walk(config) if config is not None else ():
        if node.type == "object_property" and node.named_children:
            key = node.named_children[0]
            yield node, (literal(key) if key.type == "string" else text(key)) or ""


def _premium(node: Node) -> bool:
    """Whether it stands in the false branch of `isFlex ? ... : ...`."""
    while node.parent is not None:
        around = node.parent
        if around.type == "ternary_expression" and text(around.named_children[0]).strip() == _IS_FLEX:
            return around.named_children[-1] == node
        node = around
    return False
