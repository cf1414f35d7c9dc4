"""JSON Schemas (draft 2020-12) of the models, in the form that the documents use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

JsonObject = dict[str, Any]

#: `read`: schema of documents that LUCIUS writes; `write`: of documents that LUCIUS reads
Way = Literal["read", "write"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Plain(GenerateJsonSchema):
    """Leaves out titles that only repeat the names of fields, and defaults that only mean "may be left out"."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> JsonObject:
        field_schema = super().default_schema(schema)
        if field_schema.get("default", ...) is None:
            del field_schema["default"]
        return field_schema


class _Unsorted(_Plain):
    """Keeps the keys in the order in which pydantic writes them."""

    def sort(self, value: JsonObject, parent_key: str | None = None) -> JsonObject:
        return value


def schemas(
    models: Sequence[tuple[type[BaseModel], Literal["read", "write"]]],
    ref_template: str = "#/components/schemas/{model}",
) -> JsonObject:
    """Returns the schema of every model, and of the models to which these models refer, by model name."""
    modes: dict[str, JsonSchemaMode] = {"read": "serialization", "write": "validation"}
    by_model, whole = models_json_schema(
        [(model, modes[way]) for model, way in models], ref_template=ref_template, schema_generator=_Plain
    )
    definitions: JsonObject = whole.get("$defs", {})
    # an enum whose names are written out leaves a definition without a reference
    named = str(list(definitions.values())) + str(list(by_model.values()))
    return {name: each for name, each in definitions.items() if f"'{ref_template.format(model=name)}'" in named}


def dumped(model: BaseModel) -> JsonObject:
    """Returns the model as JSON, without the fields that were not set."""
    return model.model_dump(mode="json", exclude_unset=True)


def schema(model: type[BaseModel], way: Way) -> JsonObject:
    """Returns the complete schema of one model."""
    mode: JsonSchemaMode = "serialization" if way == "read" else "validation"
    return model.model_json_schema(mode=mode, schema_generator=_Plain)


def inlined(type_: Any) -> JsonObject:
    """Returns the schema of a TypedDict or of an annotated type, with each definition in place of its `$ref`.

    Docstrings of classes are not used as descriptions. The key `description` comes first in the schema of an object or
    a choice, and last in other schemas.
    """
    whole = TypeAdapter(type_).json_schema(schema_generator=_Unsorted)
    whole.pop("description", None)
    found: JsonObject = _inlined(whole, whole.pop("$defs", {}))
    return found


def _inlined(node: Any, definitions: JsonObject) -> Any:
    if isinstance(node, list):
        return [_inlined(each, definitions) for each in node]
    if not isinstance(node, dict):
        return node
    description = node.get("description")
    if "$ref" in node:
        node = definitions[node["$ref"].rsplit("/", 1)[1]]
    left_out = {"title", "description"} | ({"type"} if node.keys() & {"enum", "const"} else set())
    found = {name: _inlined(each, definitions) for name, each in node.items() if name not in left_out}
    if "properties" in node:
        found["properties"] = {name: _inlined(each, definitions) for name, each in node["properties"].items()}
    if found.get("additionalProperties") is True:
        del found["additionalProperties"]
    if description is None:
        return found
    is_whole = "anyOf" in found or found.get("type") == "object"
    return {"description": description, **found} if is_whole else {**found, "description": description}
