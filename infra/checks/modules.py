"""Modules: the file exists, gets the parameters that it needs and no other, and has the outputs that are read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.template import Node, Template, literal, text, walk


def check(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """Wrong paths, parameters and outputs of the template's modules; `templates` by resolved path."""
    found = []
    for module in template.modules:
        target = templates.get((template.path.parent / module.path).resolve())
        if target is None:
            found.append(Finding(template.path, module.line, "module-path", f"there is no {module.path}"))
            continue
        takes = target.of_kind("parameter")
        for name, node in module.parameters.items():
            if name not in takes:
                line = node.start_point.row + 1
                found.append(Finding(template.path, line, "module-parameter", f"{module.path} takes no {name}"))
        for name, parameter in takes.items():
            if not parameter.optional and name not in module.parameters:
                found.append(
                    Finding(
                        template.path, module.line, "module-parameter", f"{module.path} needs {name}, which is missing"
                    )
                )
        found += _outputs(template, module.name, module.path, target)
    return found


def check_parameters(file: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """A `.bicepparam` file against the template that it names."""
    path, target = _using(file), used(file, templates)
    if target is None:
        return [Finding(file.path, 1, "module-path", f"uses {path}, which does not exist")]
    takes, sets = target.of_kind("parameter"), file.of_kind("variable")
    found = [
        Finding(file.path, each.line, "module-parameter", f"{path} takes no {name}")
        for name, each in sets.items()
        if name not in takes
    ]
    return found + [
        Finding(file.path, 1, "module-parameter", f"{path} needs {name}, which is missing")
        for name, parameter in takes.items()
        if not parameter.optional and name not in sets
    ]


def used(file: Template, templates: Mapping[Path, Template]) -> Template | None:
    """The template of a `.bicepparam` file; None where there is none."""
    path = _using(file)
    return templates.get((file.path.parent / path).resolve()) if path else None


def _using(file: Template) -> str | None:
    using = next((node for node in file.root.named_children if node.type == "using_statement"), None)
    return literal(next((each for each in walk(using) if each.type == "string"), None)) if using else None


def _outputs(template: Template, name: str, path: str, target: Template) -> list[Finding]:
    has = target.of_kind("output")
    found = []
    for node in walk(template.root):
        if node.type == "member_expression" and _reads_outputs(node.named_children[0], name):
            output = text(node.named_children[-1])
            if output not in has:
                line = node.start_point.row + 1
                found.append(Finding(template.path, line, "module-output", f"{path} has no output {output}"))
    return found


def _reads_outputs(node: Node, name: str) -> bool:
    """`NAME.outputs`, also of one of a loop (`NAME[0].outputs`) and where it may be missing (`NAME.?outputs`)."""
    if node.type != "member_expression" or text(node.named_children[-1]) != "outputs":
        return False
    owner = node.named_children[0]
    while owner.type != "identifier" and owner.named_children:
        owner = owner.named_children[0]
    return text(owner) == name
