"""Kinds of values: what a property takes and what an expression gives, of Bicep's declarations and of Azure's types.

A `Kind` is a tuple of alternatives. The empty one, `ANY`, is of what is not known; nothing is said of it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "microsoft" / "resource_types.json"


@dataclass(frozen=True)
class Place:
    """Where an expression stands; `line` from 1."""

    path: Path
    line: int


@dataclass(frozen=True)
class Plain:
    """A string, an integer, a boolean or null."""

    #: `string`, `integer`, `boolean` or `null`
    name: str
    #: the only values that there are; None: any
    values: frozenset[str | int | bool] | None = None
    #: the least and the most of a number, or of a string's length; None: not known
    least: int | None = None
    most: int | None = None
    pattern: str | None = None
    #: of a property: Microsoft's compiler takes other values too, Azure seldom does
    loose: bool = False
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Items:
    """An array; `least` and `most` of its length."""

    of: Kind
    least: int | None = None
    most: int | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Record:
    """An object."""

    properties: Mapping[str, Kind]
    #: names that must be there
    required: frozenset[str] = frozenset()
    #: names that may be read and not set
    read_only: frozenset[str] = frozenset()
    #: what other names hold; None: there are no others
    others: Kind | None = None
    #: the property whose value decides which other properties there are
    discriminator: str | None = None
    cases: Mapping[str, Record] = field(default_factory=dict)
    #: of an expression: it may have properties that are not known
    partial: bool = False
    #: where each property of an expression stands
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)
    place: Place | None = field(default=None, compare=False)


Alternative = Plain | Items | Record
Kind = tuple[Alternative, ...]

ANY: Kind = ()
NULL: Kind = (Plain("null"),)
STRING: Kind = (Plain("string"),)
INTEGER: Kind = (Plain("integer"),)
BOOLEAN: Kind = (Plain("boolean"),)


def constant(value: str | int | bool, place: Place | None = None) -> Plain:
    """This value and no other."""
    if isinstance(value, bool):
        return Plain("boolean", frozenset({value}), place=place)
    if isinstance(value, int):
        return Plain("integer", frozenset({value}), value, value, place=place)
    return Plain("string", frozenset({value}), len(value), len(value), place=place)


def either(kinds: Iterable[Kind]) -> Kind:
    """One of several; not known where one of them is not. Beside a string of any length, no other's limits count."""
    found: list[Alternative] = []
    for kind in kinds:
        if kind == ANY:
            return ANY
        found += [each for each in kind if each not in found]
    free = {each.name for each in found if isinstance(each, Plain) and each == Plain(each.name)}
    return tuple(
        each
        for each in found
        if not (isinstance(each, Plain) and each.name in free and each.values is None and each != Plain(each.name))
    )


def nullable(kind: Kind) -> Kind:
    return either([kind, NULL])


def present(kind: Kind) -> Kind:
    """Without null."""
    return tuple(each for each in kind if each not in NULL)


def named(kind: Alternative) -> str:
    """What it is called in a finding."""
    if isinstance(kind, Items):
        return "an array"
    if isinstance(kind, Record):
        return "an object"
    return {"string": "a string", "integer": "a number", "boolean": "true or false", "null": "null"}[kind.name]


@functools.cache
def published() -> Mapping[str, Record]:
    """The bodies of the resource types of the data, by `TYPE@VERSION` in lower case."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    objects: list[Record] = []
    for schema in data["objects"]:
        objects.append(_record(schema, objects))
    return {name.lower(): objects[schema["$ref"]] for name, schema in data["resources"].items()}


def versions(resource_type: str) -> list[str]:
    """The API versions that the data has of a type."""
    pairs = (name.split("@") for name in published())
    return sorted(version for name, version in pairs if name == resource_type.lower())


def _kind(schema: Mapping[str, Any], objects: list[Record]) -> Kind:
    if "$ref" in schema:
        return (objects[schema["$ref"]],)
    if "anyOf" in schema:
        return either(_kind(each, objects) for each in schema["anyOf"])
    if "enum" in schema or "examples" in schema:
        return (Plain("string", frozenset(schema.get("enum", schema.get("examples"))), loose="examples" in schema),)
    if schema.get("type") == "array":
        return (Items(_kind(schema["items"], objects), schema.get("minLength"), schema.get("maxLength")),)
    if "type" not in schema:
        return ANY
    least, most = schema.get("minValue", schema.get("minLength")), schema.get("maxValue", schema.get("maxLength"))
    return (Plain(schema["type"], None, least, most, schema.get("pattern")),)


def _record(schema: Mapping[str, Any], objects: list[Record]) -> Record:
    others = schema.get("additionalProperties")
    return Record(
        {name: _kind(each, objects) for name, each in schema.get("properties", {}).items()},
        frozenset(schema.get("required", ())),
        frozenset(schema.get("readOnly", ())),
        None if others is None else _kind(others, objects),
        schema.get("discriminator"),
        {name: objects[each["$ref"]] for name, each in schema.get("cases", {}).items()},
    )
