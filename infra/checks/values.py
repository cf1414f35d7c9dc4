"""Values against what takes them: resources' properties, modules' parameters, outputs, defaults and parameter files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from infra.checks import declared
from infra.checks.differences import DECLARATION, Difference, differences, record_differences
from infra.checks.expressions import Expressions, is_short_circuited, key
from infra.checks.finding import Finding
from infra.checks.kinds import ANY, NULL, Kind, Place, Plain, Record, present, published, versions
from infra.checks.template import Node, Resource, Template, body, text, walk

#: properties that Bicep adds to each resource
_OF_BICEP: Mapping[str, Kind] = dict.fromkeys(("parent", "scope", "dependsOn"), ANY)
#: of a conditional resource these can be read (IsResourceInfoProperty of the compiler)
_ALWAYS_THERE = frozenset({"id", "name", "type", "apiVersion"})
_MODULE = Record({"name": (Plain("string", least=1, most=64),), **_OF_BICEP})
#: codes that are reported as limits, wherever they are found
_LIMITS = frozenset({"BCP329", "BCP330", "BCP334", "BCP335"})
_HOW = "python -m scripts.generate.azure_types"


def check(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """Of one template; `templates` by resolved path."""
    expressions = Expressions(template, templates)
    return sorted(
        {
            *_resources(template, expressions),
            *_modules(template, templates, expressions),
            *_declarations(template, templates, expressions),
            *_reads(template, expressions),
        }
    )


def check_parameters(file: Template, target: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """A `.bicepparam` file against the template that it names."""
    expressions, takes = Expressions(file, templates), declared.parameters(target, templates)
    found = []
    for name, given in file.of_kind("variable").items():
        place = Place(file.path, given.line)
        if name not in takes.properties:
            found.append(Difference(place, "BCP259", f"{target.path.name} takes no {name}"))
        else:
            kind = expressions.declared(name)
            found += differences(kind, takes.properties[name], place, name, optional=False, code=DECLARATION)
    for name in sorted(takes.required - file.of_kind("variable").keys()):
        text = f"{target.path.name} needs {name}, which is missing"
        found.append(Difference(Place(file.path, 1), "BCP258", text))
    return sorted(set(_findings(file, found, "module-parameter")))


def _resources(template: Template, expressions: Expressions) -> Iterator[Finding]:
    for resource in template.resources:
        name = f"{resource.type}@{resource.api_version}"
        expected = published().get(name.lower())
        if expected is None:
            yield Finding(template.path, resource.line, *_no_data(resource))
            continue
        inside = body(resource.node)
        given = expressions.of(inside) if inside is not None else ANY
        if not given or not isinstance(given[0], Record) or resource.existing:
            continue
        place = Place(template.path, resource.line)
        expected = replace(expected, properties={**_OF_BICEP, **expected.properties})
        yield from _findings(template, record_differences(given[0], expected, place, ""), "property")


def _no_data(resource: Resource) -> tuple[str, str]:
    known = versions(resource.type)
    if known:
        text = f"{resource.type}@{resource.api_version}: the data has {', '.join(known)} (BCP081); for another: {_HOW}"
        return "api-version", text
    return "resource-type", f"the data does not have {resource.type} (BCP081); where it is right: {_HOW}"


def _modules(template: Template, templates: Mapping[Path, Template], expressions: Expressions) -> Iterator[Finding]:
    for module in template.modules:
        target = template.other(module.path, templates)
        inside = body(module.node)
        given = expressions.of(inside) if inside is not None else ANY
        if target is None or not given or not isinstance(given[0], Record):
            continue
        takes = declared.parameters(target, templates)
        required = frozenset({"params"}) if takes.required else frozenset[str]()
        expected = Record({**_MODULE.properties, "params": (takes,)}, required)
        place = Place(template.path, module.line)
        yield from _findings(template, record_differences(given[0], expected, place, ""), "module-parameter")


def _declarations(
    template: Template, templates: Mapping[Path, Template], expressions: Expressions
) -> Iterator[Finding]:
    """Defaults of parameters, and outputs."""
    for each in template.declared:
        if each.value is None or each.kind not in ("parameter", "output"):
            continue
        read = declared.parameter if each.kind == "parameter" else declared.output
        expected, place = read(template, each, templates), Place(template.path, each.line)
        found = differences(expressions.of(each.value), expected, place, each.name, optional=False, code=DECLARATION)
        yield from _findings(template, found, each.kind)


def _reads(template: Template, expressions: Expressions) -> Iterator[Finding]:
    """What is read of objects: it is there (BCP053), and is not of something that may be null (BCP318)."""
    for node in walk(template.root):
        if node.type not in ("member_expression", "subscript_expression") or not node.named_children:
            continue
        owner, name, line = node.named_children[0], key(node), node.start_point.row + 1
        kind = expressions.owner(node)
        always = name in _ALWAYS_THERE and _is_resource(template, owner)
        if any(each in NULL for each in kind) and not is_short_circuited(node) and not always:
            yield Finding(template.path, line, "null", f"{text(owner)} may be null: .? or ! (BCP318)")
        objects = present(kind)
        if name is not None and objects and not any(_has(each, name) for each in objects):
            yield Finding(template.path, line, "property", f"{text(owner)} has no {name} (BCP053)")


def _has(kind: object, name: str) -> bool:
    if not isinstance(kind, Record):
        return False
    open_ended = kind.partial or kind.others is not None or kind.discriminator is not None
    return open_ended or name in kind.properties or name in kind.read_only


def _is_resource(template: Template, owner: Node) -> bool:
    while owner.type == "subscript_expression":
        owner = owner.named_children[0]
    return text(owner) in template.of_kind("resource")


def _findings(template: Template, found: Iterable[Difference], rule: str) -> Iterator[Finding]:
    for each in found:
        if each.code not in template.disabled.get(each.place.line, ()):
            text = f"{each.text} ({each.code})" if each.code else each.text
            yield Finding(each.place.path, each.place.line, "limit" if each.code in _LIMITS else rule, text)
