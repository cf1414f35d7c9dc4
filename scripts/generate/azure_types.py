"""Writes infra/checks/microsoft/resource_types.json: the resource types of the templates, as Azure publishes them.

`python -m scripts.generate.azure_types CHECKOUT COMMIT`, with a checkout of https://github.com/Azure/bicep-types-az and
its commit; run when a template takes a new type or API version. `make generate` does not run it: it needs no network.

The data has JSON Schema's words. Of read-only properties the names are kept and not the types, since nobody sets them;
an object that holds itself holds `{}`, which takes anything.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from infra.checks.kinds import DATA
from infra.checks.template import parse

REPOSITORY = "https://github.com/Azure/bicep-types-az"
TEMPLATES = Path(__file__).resolve().parents[2] / "infra" / "bicep"
#: bits of a property's `flags` (Azure/bicep-types, ObjectTypePropertyFlags)
_REQUIRED, _READ_ONLY = 1, 2
_LIMITS = ("minLength", "maxLength", "minValue", "maxValue", "pattern")
_PLAIN = {"StringType": "string", "IntegerType": "integer", "BooleanType": "boolean", "NullType": "null"}

Json = dict[str, Any]


class Missing(Exception):
    """The checkout has no file with this type and version."""


class Writer:
    """Turns the types of several files into one list of objects, each of which names earlier ones only."""

    def __init__(self) -> None:
        self.objects: list[Json] = []
        self._places: dict[str, int] = {}

    def resource(self, types: list[Json], body: Json) -> Json:
        """The schema of one resource's body."""
        return self._schema(types, body, ())

    def _schema(self, types: list[Json], reference: Json, around: tuple[int, ...]) -> Json:
        index = int(reference["$ref"].removeprefix("#/"))
        found = types[index]
        kind = found["$type"]
        if index in around:
            return {}
        inside = (*around, index)
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]} | {name: found[name] for name in _LIMITS if name in found}
        if kind == "StringLiteralType":
            return {"enum": [found["value"]]}
        if kind == "ArrayType":
            limits = {name: found[name] for name in _LIMITS if name in found}
            return {"type": "array", "items": self._schema(types, found["itemType"], inside)} | limits
        if kind == "UnionType":
            return self._union([self._schema(types, each, inside) for each in found["elements"]])
        if kind == "ObjectType":
            return self._place(self._object(types, found, found["properties"], inside))
        if kind == "DiscriminatedObjectType":
            schema = self._object(types, found, found["baseProperties"], inside)
            cases = {name: self._schema(types, each, inside) for name, each in sorted(found["elements"].items())}
            return self._place(schema | {"discriminator": found["discriminator"], "cases": cases})
        return {}

    def _object(self, types: list[Json], found: Json, properties: Json, inside: tuple[int, ...]) -> Json:
        flags = {name: each["flags"] for name, each in sorted(properties.items())}
        schema: Json = {"type": "object"}
        schema["properties"] = {
            name: self._schema(types, properties[name]["type"], inside)
            for name, bits in flags.items()
            if not bits & _READ_ONLY
        }
        schema["required"] = [name for name, bits in flags.items() if bits & _REQUIRED and not bits & _READ_ONLY]
        schema["readOnly"] = [name for name, bits in flags.items() if bits & _READ_ONLY]
        schema = {name: value for name, value in schema.items() if value}
        if found.get("additionalProperties"):
            schema["additionalProperties"] = self._schema(types, found["additionalProperties"], inside)
        return schema

    def _union(self, schemas: list[Json]) -> Json:
        """Strings become one `enum`; with a plain string among them all are taken, and the known ones are named."""
        values = [value for each in schemas for value in each.get("enum", ())]
        others = [each for each in schemas if "enum" not in each]
        if {} in others:
            return {}
        if values and {"type": "string"} in others:
            others.remove({"type": "string"})
            known: list[Json] = [{"type": "string", "examples": sorted(values)}]
        else:
            known = [{"enum": sorted(values)}] if values else []
        return (known + others)[0] if len(known + others) == 1 else {"anyOf": known + others}

    def _place(self, schema: Json) -> Json:
        text = json.dumps(schema, sort_keys=True)
        if text not in self._places:
            self._places[text] = len(self.objects)
            self.objects.append(schema)
        return {"$ref": self._places[text]}


def text(checkout: Path, commit: str, needed: Iterable[str]) -> str:
    """The data of `TYPE@VERSION`s, one object a line. Raises Missing with those that the checkout does not have."""
    writer, resources, missing = Writer(), dict[str, Json](), []
    for name in sorted(needed):
        body = _body(checkout, name)
        if body is None:
            missing.append(name)
        else:
            resources[name] = writer.resource(*body)
    if missing:
        raise Missing(", ".join(missing))
    source = {"repository": REPOSITORY, "commit": commit, "license": "MIT: LICENSE, in this folder"}
    lines = [f'{{"source": {json.dumps(source)},', '"resources": {']
    lines += [",\n".join(f"{json.dumps(name)}: {json.dumps(schema)}" for name, schema in resources.items()), "},"]
    lines += ['"objects": [', ",\n".join(json.dumps(each) for each in writer.objects), "]}", ""]
    return "\n".join(lines)


def used(folder: Path = TEMPLATES) -> set[str]:
    """`TYPE@VERSION` of each resource of the templates."""
    return {
        f"{resource.type}@{resource.api_version}"
        for path in folder.rglob("*.bicep")
        for resource in parse(path).resources
    }


def _body(checkout: Path, name: str) -> tuple[list[Json], Json] | None:
    kind, version = name.split("@")
    namespace = kind.split("/")[0].lower()
    for path in sorted(checkout.glob(f"generated/*/{namespace}/{version}/types.json")):
        types = json.loads(path.read_text(encoding="utf-8"))
        for each in types:
            if each["$type"] == "ResourceType" and each["name"].lower() == name.lower():
                return types, each["body"]
    return None


def main() -> int:
    """0: written; 1: the checkout lacks a type or version that a template names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a checkout of Azure/bicep-types-az")
    parser.add_argument("commit", help="its commit, which the data names")
    given = parser.parse_args()
    try:
        DATA.write_text(text(given.checkout, given.commit, used()), encoding="utf-8")
    except Missing as missing:
        print(f"{given.checkout} has no {missing}: take a version that it has", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
