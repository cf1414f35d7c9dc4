"""What is declared: a default names parameters only (BCP072), a decorator stands on a kind that it is for (BCP124)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.checks.built_in import DECORATORS, FUNCTIONS
from infra.checks.declared import written
from infra.checks.finding import Finding
from infra.checks.kinds import NULL, Alternative, Items, Plain
from infra.checks.symbols import references
from infra.checks.template import Declared, Template, decorator, text, walk


def check(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """Of one template; `templates` by resolved path."""
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
