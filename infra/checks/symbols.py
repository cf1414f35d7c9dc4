"""Names that are used and not declared, or declared and not used; what a default names and a decorator is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.checks.built_in import DECORATORS, FUNCTIONS, TYPES
from infra.checks.declared import written
from infra.checks.finding import Finding
from infra.checks.kinds import NULL, Alternative, Items, Plain
from infra.checks.template import Declared, Node, Template, decorator, text, walk

#: the compiler's own rules
_LINTER = {
    "import": "no-unused-imports",
    "parameter": "no-unused-params",
    "type": "no-unused-types",
    "variable": "no-unused-vars",
}


def check(template: Template) -> list[Finding]:
    declared = {each.name: each for each in template.declared if each.kind != "output"}
    children = {resource.name for resource in template.resources}
    used: set[str] = set()
    found = []
    for node in references(template.root):
        name = text(node)
        if name in local_names(node):
            continue
        used.add(name)
        if name in declared or name in children or name in FUNCTIONS or name in TYPES:
            continue
        if name in DECORATORS and _within(node, "decorator"):
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
        found = {_name(each) for each in written(template, declared, templates) if each not in NULL}
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


def local_names(node: Node) -> set[str]:
    """Loop variables, lambda and function parameters around the node."""
    names: set[str] = set()
    around = node.parent
    while around is not None:
        if around.type == "for_statement":
            head = around.named_children[0]
            names |= {text(each) for each in ([head] if head.type == "identifier" else head.named_children)}
        elif around.type == "lambda_expression":
            names |= {text(each) for each in walk(around.named_children[0]) if each.type in ("identifier", "parameter")}
        elif around.type == "user_defined_function":
            names |= {text(each.named_children[0]) for each in walk(around) if each.type == "parameter"}
        around = around.parent
    return names


def _within(node: Node, kind: str) -> bool:
    around = node.parent
    while around is not None:
        if around.type == kind:
            return True
        around = around.parent
    return False
