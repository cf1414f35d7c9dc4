"""What Azure refuses though the compiler takes it: of a site on Flex Consumption, and of a second deployment."""

from __future__ import annotations

from collections.abc import Iterator

from infra.checks.finding import Finding
from infra.checks.symbols import references
from infra.checks.template import Node, Resource, Template, key_name, literal, nested, text, walk

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

_SEARCH = "Microsoft.OperationalInsights/workspaces/savedSearches"
_ROLE = "Microsoft.Authorization/roleAssignments"
_NETWORK = "Microsoft.Network/virtualNetworks"
#: another value each time: a name or a date that Azure does not let change
_CHANGING = frozenset({"utcNow", "newGuid"})


def check(template: Template) -> list[Finding]:
    return [*_on_flex(template), *_again(template)]


def _on_flex(template: Template) -> list[Finding]:
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
            yield node, key_name(node.named_children[0]) or ""


def _premium(node: Node) -> bool:
    """Whether it stands in the false branch of `isFlex ? ... : ...`."""
    while node.parent is not None:
        around = node.parent
        if around.type == "ternary_expression" and text(around.named_children[0]).strip() == _IS_FLEX:
            return around.named_children[-1] == node
        node = around
    return False


def _again(template: Template) -> list[Finding]:
    """What a first deployment takes and a later one refuses, or takes away."""
    found = [
        Finding(template.path, node.start_point.row + 1, "again", f"{text(node)} has another value at each deployment")
        for node in references(template.root)
        if text(node) in _CHANGING
    ]
    for resource in template.resources:
        reason = None if resource.existing else _refused(resource)
        if reason is not None:
            found.append(Finding(template.path, resource.line, "again", f"{resource.name}: {reason}"))
    return found


def _refused(resource: Resource) -> str | None:
    given, values = nested(resource.node), nested(resource.node, "properties")
    if resource.type == _SEARCH and literal(values.get("etag")) != "*":
        return "without the property etag: '*', a second deployment is a 409"
    if resource.type == _NETWORK and "subnets" in values:
        return "a list of subnets deletes those that others made; make each a resource"
    if resource.type == _ROLE and "principalId" in values and "name" in given:
        named = {text(each) for each in walk(given["name"])}
        if text(values["principalId"]) not in named:
            return "its name must hold its principalId: an identity that was made anew keeps no old assignment"
    return None
