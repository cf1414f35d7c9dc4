"""JSON Schemas (draft 2020-12) of the models, in the form that the documents use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

JsonObject = dict[str, Any]

#: as others read what we write, or write what we read
Way = Literal["read", "write"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Plain(GenerateJsonSchema):
    """Without titles that only repeat the names of fields, and without defaults that only say "may be left out"."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> JsonObject:
        field_schema = super().default_schema(schema)
        if field_schema.get("default", ...) is None:
            del field_schema["default"]
        return field_schema


def schemas(
    models: Sequence[tuple[type[BaseModel], Literal["read", "write"]]],
    ref_template: str = "#/components/schemas/{model}",
) -> JsonObject:
    """The schema of every model and of those that it names, by model name."""
    modes: dict[str, JsonSchemaMode] = {"read": "serialization", "write": "validation"}
    by_model, whole = models_json_schema(
        [(model, modes[way]) for model, way in models], ref_template=ref_template, schema_generator=_Plain
    )
    definitions: JsonObject = whole.get("$defs", {})
    # an enum whose names are written out in place leaves a definition that nothing refers to
    named = str(list(definitions.values())) + str(list(by_model.values()))
    return {name: each for name, each in definitions.items() if f"'{ref_template.format(model=name)}'" in named}


def schema(model: type[BaseModel], way: Way) -> JsonObject:
    """One model's schema, whole."""
    mode: JsonSchemaMode = "serialization" if way == "read" else "validation"
    return model.model_json_schema(mode=mode, schema_generator=_Plain)
