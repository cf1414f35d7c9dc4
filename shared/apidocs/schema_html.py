"""A JSON Schema as HTML: one line for a type, a table for an object; names of components are links."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from shared.apidocs.json_schema import JsonObject

_COMPONENTS = "#/components/schemas/"
#: limits of a schema that are shown next to its type
_LIMITS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "above {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
    "pattern": "matches {}",
    "default": "default {}",
}


def prose(text: str) -> str:
    """Words with `code` in them; blank lines part paragraphs."""
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
    return "</p><p>".join(marked.split("\n\n"))


def example(text: str) -> str:
    return f"<pre>{escape(text, quote=False)}</pre>"


def anchor(name: str) -> str:
    return f"schema-{re.sub(r'[^A-Za-z0-9_-]', '-', name)}"


def type_of(schema: JsonObject) -> str:
    """In one line."""
    if isinstance(ref := schema.get("$ref"), str):
        name = ref.removeprefix(_COMPONENTS)
        return f'<a href="#{anchor(name)}">{escape(name)}</a>'
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        return " | ".join(_value(each) for each in schema["enum"])
    for word, sign in (("anyOf", " | "), ("oneOf", " | "), ("allOf", " &amp; ")):
        if word in schema:
            return sign.join(dict.fromkeys(type_of(each) for each in schema[word]))
    match schema.get("type"):
        case "array":
            return f"[{type_of(schema.get('items', {}))}]"
        case "object" if isinstance(rest := schema.get("additionalProperties"), dict):
            return f"{{name: {type_of(rest)}}}"
        case list() as several:
            return " | ".join(map(str, several))
        case str() as kind:
            return kind if "format" not in schema else f"{kind} ({escape(str(schema['format']))})"
    return "object" if "properties" in schema else "anything"


def limits(schema: JsonObject) -> str:
    described = [text.format(_value(schema[name])) for name, text in _LIMITS.items() if name in schema]
    branches = (each for each in schema.get("anyOf", ()) if isinstance(each, dict) and "$ref" not in each)
    return "; ".join([*described, *filter(None, map(limits, branches))])


def table(schema: JsonObject) -> str:
    """The members of an object, or of each of several that a body may be."""
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{' *' if name in schema.get('required', ()) else ''}<td>{type_of(each)}"
        f"<td>{prose(str(each.get('description', '')))} <span class=soft>{limits(each)}</span></tr>"
        for name, each in schema.get("properties", {}).items()
    )
    members = f"<table><thead><tr><th>member<th>type<th></tr></thead><tbody>{rows}</tbody></table>" if rows else ""
    several = ""
    for word, intro in (("allOf", "All of these hold:"), ("anyOf", "One of these holds:"), ("oneOf", "It is one of:")):
        if word in schema:
            several += f"<p>{intro}</p><ul>{''.join(f'<li>{_branch(each)}</li>' for each in schema[word])}</ul>"
    return members + several or f"<p>{type_of(schema)} <span class=soft>{limits(schema)}</span></p>"


def _branch(schema: JsonObject) -> str:
    title = f"<strong>{escape(schema['title'])}</strong> " if "title" in schema else ""
    plain = "properties" not in schema and not {"allOf", "anyOf", "oneOf"} & schema.keys()
    return title + (f"{type_of(schema)} <span class=soft>{limits(schema)}</span>" if plain else table(schema))


def _value(value: Any) -> str:
    words = {None: "null", True: "true", False: "false"}
    shown = words[value] if value is None or isinstance(value, bool) else str(value)
    return f"<code>{escape(shown)}</code>"
