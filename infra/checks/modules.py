"""Modules and files: each exists, no module holds itself, imports are exported.

What a module is given, and what is read of it, is checked in values.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.template import Module, Template, literal, text, walk


def check(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """Of one template; `templates` by resolved path."""
    found = [*_files(template), *_imports(template, templates)]
    for module in template.modules:
        target = template.other(module.path, templates)
        if target is None:
            found.append(Finding(template.path, module.line, "module-path", f"there is no {module.path} (BCP091)"))
        elif (cycle := _cycle(template, module, templates)) is not None:
            names = " -> ".join(each.path.name for each in cycle)
            found.append(Finding(template.path, module.line, "module-cycle", f"{names} (BCP095)"))
    return found


def check_parameters(file: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """A `.bicepparam` file names a template that exists."""
    if used(file, templates) is not None:
        return []
    return [Finding(file.path, 1, "module-path", f"uses {_using(file)}, which does not exist")]


def used(file: Template, templates: Mapping[Path, Template]) -> Template | None:
    """The template of a `.bicepparam` file; None where there is none."""
    path = _using(file)
    return file.other(path, templates) if path else None


def _using(file: Template) -> str | None:
    using = next((node for node in file.root.named_children if node.type == "using_statement"), None)
    return literal(next((each for each in walk(using) if each.type == "string"), None)) if using else None


def _files(template: Template) -> Iterator[Finding]:
    """`loadTextContent` and its like read files that are there (BCP091)."""
    for node in walk(template.root):
        if node.type != "call_expression" or not text(node.named_children[0]).startswith("load"):
            continue
        given = node.named_children[1].named_children
        path = literal(given[0]) if given else None
        if path is not None and not (template.path.parent / path).exists():
            yield Finding(template.path, node.start_point.row + 1, "file", f"there is no {path} (BCP091)")


def _imports(template: Template, templates: Mapping[Path, Template]) -> Iterator[Finding]:
    for name, path in template.imports.items():
        line = template.of_kind("import")[name].line
        target = template.other(path, templates)
        if target is None:
            yield Finding(template.path, line, "module-path", f"there is no {path} (BCP091)")
        elif not any(each.name == name and "export" in each.decorators for each in target.declared):
            yield Finding(template.path, line, "import", f"{path} exports no {name} (BCP360)")


def _cycle(template: Template, module: Module, templates: Mapping[Path, Template]) -> list[Template] | None:
    """The way back to the template through one of its modules; None: there is none."""
    ways = [[template, target] for target in [template.other(module.path, templates)] if target is not None]
    seen = {template.path.resolve()}
    while ways:
        way = ways.pop()
        if way[-1] is template:
            return way
        for each in way[-1].modules:
            target = way[-1].other(each.path, templates)
            if target is not None and (target is template or target.path.resolve() not in seen):
                seen.add(target.path.resolve())
                ways.append([*way, target])
    return None
