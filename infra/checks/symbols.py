"""Names: used and not declared, declared and not used, in a default, in a decorator, as the id of a resource."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.checks.built_in import DECORATORS, FUNCTIONS, TYPES
from infra.checks.declared import written
from infra.checks.finding import Finding
from infra.checks.kinds import Alternative, Items, Plain, present
from infra.checks.template import (
    Declared,
    Node,
    Template,
    ancestors,
    decorator,
    key_name,
    local_names,
    nested,
    text,
    walk,
)

#: the compiler's own rules
_LINTER = {
    "import": "no-unused-imports",
    "parameter": "no-unused-params",
    "type": "no-unused-types",
    "variable": "no-unused-vars",
}

#: the rule of the linter, UseResourceIdFunctionsRule.cs of Azure/bicep
_IDS = "use-resource-id-functions"
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
    declared = {each.name: each for each in template.declared if each.kind != "output"}
    children = {resource.name for resource in template.resources}
    used: set[str] = set()
    found = []
    for node in references(template.root):
        name = text(node)
        if name in _locals(node):
            continue
        used.add(name)
        if name in declared or name in children or name in FUNCTIONS or name in TYPES:
            continue
        if name in DECORATORS and any(around.type == "decorator" for around in ancestors(node)):
            continue
        found.append(Finding(template.path, node.start_point.row + 1, "undefined", f"{name} is not declared (BCP057)"))
    for each in template.declared:
        if each.kind in ("parameter", "variable", "type", "function", "import") and each.name not in used:
            if each.public and each.kind != "parameter":
                continue
            rule = f" ({_LINTER[each.kind]})" if each.kind in _LINTER else ""
            found.append(Finding(template.path, each.line, "unused", f"{each.kind} {each.name} is not used{rule}"))
    return found


def check_declarations(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """A default names parameters only, a decorator stands on a kind that it is for; `templates` by resolved path."""
    parameters = template.of_kind("parameter").values()
    return [*(each for one in parameters for each in _default(template, one)), *_decorators(template, templates)]


def _default(template: Template, parameter: Declared) -> Iterator[Finding]:
    if parameter.value is None:
        return
    parameters = template.of_kind("parameter")
    for node in references(parameter.value):
        name, line = text(node), node.start_point.row + 1
        if name.startswith("load"):
            reason = f"{parameter.name}: {name} becomes a variable, which Resource Manager refuses in a default"
            yield Finding(template.path, line, "default", reason)
        elif name not in parameters and name not in FUNCTIONS:
            yield Finding(template.path, line, "default", f"{parameter.name}: {name} is no parameter (BCP072)")


def _decorators(template: Template, templates: Mapping[Path, Template]) -> Iterator[Finding]:
    """Of parameters, outputs and types, and of the properties of types."""
    for node in walk(template.root):
        if node.type != "decorators" or node.next_named_sibling is None:
            continue
        target = node.next_named_sibling
        if target.type in ("parameter_declaration", "output_declaration"):
            declared = target.named_children[1]
        elif target.type in ("type_declaration", "object_property"):
            declared = target.named_children[-1]
        else:
            continue
        found = {_name(each) for each in present(written(template, declared, templates))}
        for each in node.named_children:
            name, line = decorator(each), each.start_point.row + 1
            takes = DECORATORS.get(name)
            if takes and not found <= takes:
                reason = f"@{name} is for {' and '.join(sorted(takes))}, not {' or '.join(sorted(found))} (BCP124)"
                yield Finding(template.path, line, "decorator", reason)


def _name(kind: Alternative) -> str:
    if isinstance(kind, Plain):
        return kind.name
    return "array" if isinstance(kind, Items) else "object"


def references(root: Node) -> Iterator[Node]:
    """Identifiers that refer to a declaration."""
    for node in walk(root):
        if node.type != "identifier" or node.parent is None:
            continue
        parent = node.parent
        is_name = parent.named_children[0] == node
        if parent.type in _NAMING and is_name:
            continue
        if parent.type == "object_property" and is_name and len(parent.named_children) > 1:
            continue
        if parent.type == "import_functionality":
            continue
        if parent.type in ("for_statement", "lambda_expression", "for_loop_parameters") and is_name:
            continue
        yield node


_NAMING = frozenset(
    {
        "parameter_declaration",
        "variable_declaration",
        "type_declaration",
        "user_defined_function",
        "resource_declaration",
        "module_declaration",
        "output_declaration",
        "parameter",
        "metadata_declaration",
    }
)


def _locals(node: Node) -> set[str]:
    """Loop variables, lambda and function parameters around the node."""
    names: set[str] = set()
    for around in ancestors(node):
        if around.type == "for_statement":
            names |= set(local_names(around.named_children[0]))
        elif around.type == "lambda_expression":
            names |= {text(each) for each in walk(around.named_children[0]) if each.type in ("identifier", "parameter")}
        elif around.type == "user_defined_function":
            names |= {text(each.named_children[0]) for each in walk(around) if each.type == "parameter"}
    return names


def check_resource_ids(template: Template) -> list[Finding]:
    """Properties whose names end in `id`, below `properties` of a resource: none is a loop or lambda variable.

    The linter takes a symbol, a parameter or a function of ids.
    """
    found = []
    for resource in template.resources:
        given = nested(resource.node).get("properties")
        for name, value in _ids(given) if given is not None else ():
            line, root = value.start_point.row + 1, _root(value)
            silenced = _IDS in template.disabled.get(line, ())
            if root.type == "identifier" and text(root) in _locals(root) and not silenced:
                reason = f"{name} is {text(value)}, a loop or lambda variable ({_IDS})"
                found.append(Finding(template.path, line, "resource-id", reason))
    return found


def _ids(node: Node) -> Iterator[tuple[str, Node]]:
    """Properties that hold an id of a resource, by their names."""
    if node.type != "object_property" or len(node.named_children) < 2:
        for child in node.named_children:
            yield from _ids(child)
        return
    key, value = node.named_children[0], node.named_children[-1]
    name = key_name(key) or ""
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
