"""Ids of resources that are loop or lambda variables: the linter takes a symbol, a parameter or a function of ids."""

from __future__ import annotations

from collections.abc import Iterator

from infra.checks.finding import Finding
from infra.checks.symbols import local_names
from infra.checks.template import Node, Template, body, literal, properties, text

#: the rule of the linter, UseResourceIdFunctionsRule.cs of Azure/bicep
RULE = "use-resource-id-functions"
#: names that the rule leaves alone with all below them, in lower case: those of its list that such templates use
_NO_RESOURCE = frozenset(
    {
        *("appid", "clientid", "contentid", "groupid", "keyid", "keyvaultid", "metadata", "metricid", "objectid"),
        *("parentid", "principalid", "resource", "ruleid", "schemaid", "sid", "subscriptionid", "tags", "tenantid"),
    }
)
#: through which the rule looks for what is read
_ACCESS = frozenset({"member_expression", "subscript_expression", "parenthesized_expression"})


def check(template: Template) -> list[Finding]:
    """Properties whose names end in `id`, below `properties` of a resource."""
    found = []
    for resource in template.resources:
        inside = body(resource.node)
        given = properties(inside).get("properties") if inside is not None else None
        for name, value in _ids(given) if given is not None else ():
            line, root = value.start_point.row + 1, _root(value)
            silenced = RULE in template.disabled.get(line, ())
            if root.type == "identifier" and text(root) in local_names(root) and not silenced:
                reason = f"{name} is {text(value)}, a loop or lambda variable ({RULE})"
                found.append(Finding(template.path, line, "resource-id", reason))
    return found


def _ids(node: Node) -> Iterator[tuple[str, Node]]:
    """Properties that hold an id of a resource, by their names."""
    if node.type != "object_property" or len(node.named_children) < 2:
        for child in node.named_children:
            yield from _ids(child)
        return
    key, value = node.named_children[0], node.named_children[-1]
    name = (literal(key) if key.type == "string" else text(key)) or ""
    if name.lower() in _NO_RESOURCE:
        return
    if name.lower().endswith("id") and not name.endswith(("uid", "UID")):
        yield name, value
    else:
        yield from _ids(value)


def _root(node: Node) -> Node:
    while node.type in _ACCESS and node.named_children:
        node = node.named_children[0]
    return node
