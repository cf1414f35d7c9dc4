"""The GraphQL schema as text, made from routes and the models of their responses (R83).

The arguments are the parameters of the routes. The types are the models of the routes' responses. Names and meanings
are the same, except that a path parameter is the argument `id`. `docs/schema.graphql` is a copy of the text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from shared.apidocs.json_schema import JsonObject, schemas
from shared.apidocs.route import Parameter, Route

_INT_MAX = 2**31 - 1
_SCALARS = {
    "DateTime": "Timestamp (RFC 3339), in UTC.",
    "JSON": "Any JSON value.",
    "Long": "Integer of up to 53 bits.",
}
_NAMED = {"string": "String", "boolean": "Boolean", "integer": "Int", "number": "Float"}
_REF = "#/"


@dataclass(frozen=True, kw_only=True)
class RootField:
    """A field of `Query` or `Subscription`, with the response of a route."""

    name: str
    route: Route
    model: type[BaseModel]
    #: parameters by the name of the argument
    arguments: Mapping[str, Parameter]
    description: str


def root_field(
    name: str,
    route: Route,
    *,
    without: Collection[str],
    model: type[BaseModel] | None = None,
    description: str | None = None,
) -> RootField:
    """Makes the field of a route. A path parameter becomes `id`. Leaves out headers and the parameters in `without`."""
    found = model or route.responses[200]
    assert isinstance(found, type)
    assert issubclass(found, BaseModel)
    arguments = {
        "id" if each.where == "path" else each.name: each
        for each in route.parameters
        if each.where != "header" and each.name not in without
    }
    return RootField(
        name=name, route=route, model=found, arguments=arguments, description=description or f"{route.summary}."
    )


def text(queries: Sequence[RootField], subscriptions: Sequence[RootField]) -> str:
    """Returns the schema in the schema definition language (GraphQL 3)."""
    models = [(each.model, "read") for each in (*queries, *subscriptions)]
    components = schemas(models, f"{_REF}{{model}}")  # type: ignore[arg-type]
    parts = [
        *(f"{_quoted(meaning, '')}scalar {name}" for name, meaning in _SCALARS.items()),
        _root("Query", queries),
        _root("Subscription", subscriptions),
    ]
    # each object in the order in which the root fields lead to it
    names = [each.model.__name__ for each in (*queries, *subscriptions)]
    seen: dict[str, JsonObject] = {}
    while names:
        name = names.pop(0)
        if name not in seen and _has_fields(components[name]):
            seen[name] = components[name]
            names += _named_by(components[name])
    parts += [_object(name, each, components) for name, each in seen.items()]
    return "\n\n".join(parts) + "\n"


def _root(name: str, fields: Iterable[RootField]) -> str:
    lines = []
    for field in fields:
        arguments = [_argument(each, parameter) for each, parameter in field.arguments.items()]
        given = "(\n" + "".join(arguments) + "  )" if arguments else ""
        # null if it is refused, so that the other fields stay
        of = field.model.__name__ + ("!" if name == "Subscription" else "")
        lines.append(f"{_quoted(field.description, '  ')}  {field.name}{given}: {of}\n")
    return f"type {name} {{\n{''.join(lines)}}}"


def _argument(name: str, parameter: Parameter) -> str:
    kind = parameter.schema.get("type", "string")
    of = "[String!]" if kind == "array" else _NAMED[kind]
    # an argument has a list, and only the query of a URL has commas
    meaning = parameter.description.replace(", separated by commas", "") if kind == "array" else parameter.description
    return f"{_quoted(meaning, '    ')}    {name}: {of}{'!' if parameter.where == 'path' else ''}\n"


def _object(name: str, schema: JsonObject, components: JsonObject) -> str:
    required = schema.get("required", ())
    lines = []
    for member, each in schema["properties"].items():
        of, nullable = _type(each, components)
        mark = "" if nullable or member not in required else "!"
        lines.append(f"{_quoted(each.get('description', ''), '  ')}  {member}: {of}{mark}\n")
    return f"{_quoted(schema.get('description', ''), '')}type {name} {{\n{''.join(lines)}}}"


def _type(schema: JsonObject, components: JsonObject) -> tuple[str, bool]:
    """Returns the GraphQL type of the schema, and True if the type can be null."""
    if "anyOf" in schema:
        others = [each for each in schema["anyOf"] if each != {"type": "null"}]
        of = _type(others[0], components)[0] if len(others) == 1 else "JSON"
        return of, len(others) < len(schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REF)
        return (name if _has_fields(components[name]) else "JSON"), False
    match schema.get("type"):
        case "array":
            of, nullable = _type(schema["items"], components)
            return f"[{of}{'' if nullable else '!'}]", False
        case "string" if schema.get("format") == "date-time":
            return "DateTime", False
        case "integer" if schema.get("maximum", 0) > _INT_MAX:
            return "Long", False
        case str() as simple if simple in _NAMED:
            return _NAMED[simple], False
    # null is one of any values
    return "JSON", "type" not in schema


def _has_fields(schema: JsonObject) -> bool:
    """Returns True if all fields are declared. If not, the type is JSON, since a selection would leave out the
    undeclared fields.
    """
    return "properties" in schema and not schema.get("additionalProperties")


def _named_by(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        named = [schema["$ref"].removeprefix(_REF)] if isinstance(schema.get("$ref"), str) else []
        return named + [name for each in schema.values() for name in _named_by(each)]
    return [name for each in schema for name in _named_by(each)] if isinstance(schema, list) else []


def _quoted(description: str, indent: str) -> str:
    """Returns the description as a GraphQL string on a line of its own. Every JSON string is a valid GraphQL string."""
    return f"{indent}{json.dumps(' '.join(description.split()), ensure_ascii=False)}\n" if description else ""
