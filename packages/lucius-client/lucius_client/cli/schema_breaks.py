"""Finds payloads that one JSON Schema accepts and a later schema refuses.

The module compares the values of `type`, `required`, `enum`, `const`, bounds, `properties`, `additionalProperties`,
`items` and `$defs`. A change of any other keyword counts as a break, because the module cannot compare its values.
Annotations such as `title` are not breaks. A keyword that the later schema lacks is not a break, since the later schema
then accepts more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any] | bool

#: keywords without effect on validation
_ANNOTATIONS = frozenset(
    {"$comment", "$id", "$schema", "default", "deprecated", "description", "examples", "format", "readOnly", "title"}
    | {"writeOnly"}
)
_NAMED_SCHEMAS = frozenset({"$defs", "dependentSchemas", "patternProperties", "properties"})
_MINIMA = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains")
_MAXIMA = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_COMPARED = frozenset(
    {*_ANNOTATIONS, *_MINIMA, *_MAXIMA, "type", "required", "enum", "const", "properties", "items", "$defs"}
    | {"additionalProperties"}
)


def schema_breaks(old: Schema, new: Schema, place: str) -> Iterator[str]:
    """Yields a line for each way in which `new` refuses values that `old` accepts. `place` is the position of the
    value.
    """
    if old == new or new in (True, {}) or old is False:
        return
    if new is False:
        yield f"{place}: no value is accepted"
        return
    before: Mapping[str, Any] = old if isinstance(old, Mapping) else {}
    after: Mapping[str, Any] = new if isinstance(new, Mapping) else {}
    yield from _value_breaks(before, after, place)
    yield from _object_breaks(before, after, place)
    if "items" in after:
        yield from schema_breaks(before.get("items", True), after["items"], f"{place}[]")
    for name in before.get("$defs", {}).keys() & after.get("$defs", {}).keys():
        yield from schema_breaks(before["$defs"][name], after["$defs"][name], f"{place} ($defs {name})")
    for keyword in sorted(after.keys() - _COMPARED):
        if before.get(keyword) != after[keyword]:
            yield f"{place}: {keyword} changed; compare the old and the new value"


def rules_of(schema: Any) -> Any:
    """Returns a JSON Schema without keywords that have no effect on validation."""
    if isinstance(schema, list):
        return [rules_of(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _NAMED_SCHEMAS and isinstance(value, Mapping):
            found[keyword] = {name: rules_of(each) for name, each in value.items()}
        elif keyword not in _ANNOTATIONS:
            found[keyword] = value if keyword in ("const", "enum") else rules_of(value)
    return found


def _value_breaks(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[str]:
    if "type" in new and (lost := _types(old) - _types(new)):
        yield f"{place}: type {' or '.join(sorted(lost))} is no longer accepted"
    for keyword in ("enum", "const"):
        if keyword in new and (was := _values(old)) != (now := _values(new)):
            lost_values = [each for each in was if each not in now] if was is not None and now is not None else None
            if lost_values != []:
                what = "other values are" if lost_values is None else f"{', '.join(map(repr, lost_values))} is"
                yield f"{place}: {what} no longer accepted"
    for keyword in _MINIMA:
        if keyword in new and (keyword not in old or new[keyword] > old[keyword]):
            yield f"{place}: {keyword} {old.get(keyword, 'none')} -> {new[keyword]}"
    for keyword in _MAXIMA:
        if keyword in new and (keyword not in old or new[keyword] < old[keyword]):
            yield f"{place}: {keyword} {old.get(keyword, 'none')} -> {new[keyword]}"


def _object_breaks(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> Iterator[str]:
    for name in sorted(set(new.get("required", ())) - set(old.get("required", ()))):
        yield f"{place}.{name}: is required"
    was, now = old.get("properties", {}), new.get("properties", {})
    other_was, other_now = old.get("additionalProperties", True), new.get("additionalProperties", True)
    for name in was:
        if was[name] is not False:
            refused = name not in now and other_now is False
            if refused:
                yield f"{place}.{name}: is no longer accepted"
            else:
                yield from schema_breaks(was[name], now.get(name, other_now), f"{place}.{name}")
    # a property that only the new schema names: an old one without a rule for it ignored its value
    if isinstance(other_was, Mapping):
        for name in now.keys() - was.keys():
            yield from schema_breaks(other_was, now[name], f"{place}.{name}")
    yield from schema_breaks(other_was, other_now, f"{place}.*")


def _types(schema: Mapping[str, Any]) -> set[str]:
    """Returns the accepted types. An integer is a number too."""
    named = schema.get("type", ["array", "boolean", "null", "number", "object", "string"])
    types = {named} if isinstance(named, str) else set(named)
    return types | ({"integer"} if "number" in types else set())


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    """Returns the accepted values, if the schema lists them."""
    return [schema["const"]] if "const" in schema else schema.get("enum")
