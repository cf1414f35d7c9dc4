"""Kinds of parameters, outputs and user-defined types, read from Bicep's type syntax and its decorators.

https://learn.microsoft.com/azure/azure-resource-manager/bicep/data-types and user-defined-data-types
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from infra.checks.kinds import (
    ANY,
    BOOLEAN,
    INTEGER,
    NULL,
    STRING,
    Items,
    Kind,
    Plain,
    Record,
    constant,
    either,
    nullable,
)
from infra.checks.template import Declared, Node, Template, decorator, key_name, literal, number, text, walk

_PRIMITIVE: Mapping[str, Kind] = {
    "string": STRING,
    "int": INTEGER,
    "bool": BOOLEAN,
    "array": (Items(ANY),),
    "object": (Record({}, others=ANY),),
}
#: nodes that stand around a type and say nothing
_AROUND = frozenset({"type", "parenthesized_type"})


def parameters(template: Template, templates: Mapping[Path, Template]) -> Record:
    """What a module or parameter file gives: without a default it is required, with one null may be given."""
    found = template.of_kind("parameter")
    kinds = {name: parameter(template, each, templates) for name, each in found.items()}
    return Record(
        {name: nullable(kind) if found[name].optional and kind else kind for name, kind in kinds.items()},
        frozenset(name for name, each in found.items() if not each.optional),
    )


def parameter(template: Template, declared: Declared, templates: Mapping[Path, Template]) -> Kind:
    """The kind of one parameter."""
    kind = _limited(_declared(template, declared.node, templates), declared.limits)
    allowed = declared.decorators.get("allowed")
    values = _values(allowed) if allowed is not None else ANY
    if values and not any(isinstance(each, Items) for each in kind):
        # a value has its own length: what `@minLength` says beside `@allowed`, the list says better
        kind = tuple(each for each in kind if each in NULL) + values
    return kind


def output(template: Template, declared: Declared, templates: Mapping[Path, Template]) -> Kind:
    return _limited(_declared(template, declared.node, templates), declared.limits)


def _declared(template: Template, node: Node, templates: Mapping[Path, Template]) -> Kind:
    """What stands after the name of a parameter or output."""
    return written(template, node.named_children[1], templates) if len(node.named_children) > 1 else ANY


def written(template: Template, node: Node, templates: Mapping[Path, Template]) -> Kind:
    """The kind that a type expression stands for."""
    return _kind(template, node, templates, frozenset())


def _kind(template: Template, node: Node, templates: Mapping[Path, Template], around: frozenset[str]) -> Kind:
    inner = node.named_children
    if node.type in _AROUND:
        return _kind(template, inner[0], templates, around)
    if node.type == "primitive_type":
        return _PRIMITIVE.get(text(node), ANY)
    if node.type == "nullable_type":
        return nullable(_kind(template, inner[0], templates, around))
    if node.type == "array_type":
        return (Items(_kind(template, inner[0], templates, around)),)
    if node.type == "union_type":
        return either(_kind(template, each, templates, around) for each in inner)
    if node.type == "string" and (value := literal(node)) is not None:
        return (constant(value),)
    if node.type == "number":
        return (constant(int(text(node))),)
    if node.type == "boolean":
        return (constant(text(node) == "true"),)
    if node.type == "object":
        return (_record(template, node, templates, around),)
    if node.type == "identifier" and text(node) not in around:
        return _type(template, text(node), templates, around | {text(node)})
    return ANY


def _type(template: Template, name: str, templates: Mapping[Path, Template], around: frozenset[str]) -> Kind:
    """A type by its name: primitive, of this file, or imported."""
    own = template.of_kind("type").get(name)
    if own is not None:
        node = own.node.named_children[-1]
        return _limited(_kind(template, node, templates, around), own.limits)
    path = template.imports.get(name)
    target = template.other(path, templates) if path is not None else None
    if target is not None and target is not template:
        return _type(target, name, templates, frozenset({name}))
    return _PRIMITIVE.get(name, ANY)


def _record(template: Template, node: Node, templates: Mapping[Path, Template], around: frozenset[str]) -> Record:
    found: dict[str, Kind] = {}
    others: Kind | None = None
    limits: dict[str, int] = {}
    for each in node.named_children:
        if each.type == "decorators":
            marks = {decorator(mark): mark for mark in each.named_children}
            limits = {name: value for name, mark in marks.items() if (value := number(mark)) is not None}
        if each.type != "object_property":
            continue
        kind = _limited(_kind(template, each.named_children[-1], templates, around), limits)
        limits = {}
        if each.children[0].type == "*":
            others = kind
        elif (name := key_name(each.named_children[0])) is not None:
            found[name] = kind
    required = frozenset(name for name, kind in found.items() if kind and not any(one in NULL for one in kind))
    return Record(found, required, others=others)


def _limited(kind: Kind, limits: Mapping[str, int]) -> Kind:
    """With what `@minLength` and its like promise."""

    def of(each: Plain | Items | Record) -> Plain | Items | Record:
        if isinstance(each, Record) or each in NULL:
            return each
        unit = "Value" if isinstance(each, Plain) and each.name == "integer" else "Length"
        least, most = limits.get(f"min{unit}"), limits.get(f"max{unit}")
        return replace(each, least=each.least if least is None else least, most=each.most if most is None else most)

    return tuple(of(each) for each in kind) if limits else kind


def _values(allowed: Node) -> Kind:
    """The values of `@allowed([...])`."""
    found: list[Kind] = []
    for node in walk(allowed):
        if node.type == "string" and (value := literal(node)) is not None:
            found.append((constant(value),))
        elif node.type == "number":
            found.append((constant(int(text(node))),))
    return either(found)
