"""What a first deployment takes and a later one refuses, or takes away."""

from __future__ import annotations

from infra.checks.finding import Finding
from infra.checks.symbols import references
from infra.checks.template import Resource, Template, literal, nested, text, walk

_SEARCH = "Microsoft.OperationalInsights/workspaces/savedSearches"
_ROLE = "Microsoft.Authorization/roleAssignments"
_NETWORK = "Microsoft.Network/virtualNetworks"
#: another value each time: a name or a date that Azure does not let change
_CHANGING = frozenset({"utcNow", "newGuid"})


def check(template: Template) -> list[Finding]:
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
