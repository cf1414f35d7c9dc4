"""Values against Azure's published types and Bicep's own, and the generator of that data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.checks import modules, symbols, values
from infra.checks.template import parse
from scripts.generate import azure_types
from tests.jobs import ROOT

ACCOUNT = """
@allowed(['Standard_LRS', 'Premium_LRS'])
param sku string = 'Standard_LRS'
param days int?
param flags ('a' | 'b')[] = []
param wide bool = false
param shape shapeType = { size: 1 }
type shapeType = {
  @minValue(1)
  size: int
  note: string?
}

resource account 'Microsoft.Storage/storageAccounts@2025-06-01' = if (wide) {
  name: 'account'
  location: 'westeurope'
  kind: 'StorageV2'
  sku: { name: sku }
  properties: {
    accessTier: 'Hot'
    allowSharedKeyAccess: false
  }
}

resource blobs 'Microsoft.Storage/storageAccounts/blobServices@2025-06-01' = {
  parent: account
  name: 'default'
  properties: union({ deleteRetentionPolicy: { enabled: true, days: days } }, wide ? {} : { isVersioningEnabled: wide })
}

output all array = [days, flags, shape.?note, account.?properties.accessTier, blobs.id]
"""


def found(folder: Path, text: str) -> list[str]:
    (folder / "it.bicep").write_text(text)
    template = parse(folder / "it.bicep")
    assert template.broken == []
    checked = [*values.check(template, {}), *symbols.check_declarations(template, {})]
    return [each.text for each in checked]


@pytest.mark.parametrize(
    ("was", "becomes", "text"),
    [
        ("accessTier: 'Hot'", "accesTier: 'Hot'", "properties.accesTier is not known: accessTier? (BCP089)"),
        ("accessTier: 'Hot'", "zebra: 'Hot'", "properties.zebra is not known (BCP037)"),
        ("accessTier: 'Hot'", "#disable-next-line BCP037\n    zebra: 'Hot'", None),
        ("accessTier: 'Hot'", "provisioningState: 'Hot'", "properties.provisioningState can be read, not set (BCP073)"),
        ("'Hot'", "'Hott'", "properties.accessTier is Hott, none of Cold, Cool, Hot, Premium: Hot? (BCP036)"),
        ("'Hot'", "wide ? 'Hot' : 'Warm'", "properties.accessTier is Warm, none of Cold, Cool, Hot, Premium (BCP036)"),
        ("'Hot'", "wide ? 'Hot' : null", None),
        ("'Hot'", "days", "properties.accessTier is a number, not a string (BCP036)"),
        ("  kind: 'StorageV2'\n", "", "needs kind, which is missing (BCP035)"),
        ("isVersioningEnabled: wide", "isVersioningEnabled: sku", "is a string, not true or false (BCP036)"),
        (
            "{ isVersioningEnabled: wide }",
            "{ deleteRetentionPolicy: { allowPermanentDelete: wide } }",
            None,
        ),
        ("{ enabled: true,", "{ enabeld: true,", "properties.deleteRetentionPolicy.enabeld is not known: enabled?"),
        ("days: days", "days: 366", "deleteRetentionPolicy.days can be 366, above its most value 365 (BCP330)"),
        ("= 'Standard_LRS'", "= 'Standard_ZRS'", "sku is Standard_ZRS, none of Premium_LRS, Standard_LRS"),
        ("[] = []", "[] = ['c']", "flags[] is c, none of a, b (BCP034)"),
        ("{ size: 1 }", "{}", "shape needs size, which is missing (BCP035)"),
        ("{ size: 1 }", "{ size: 0 }", "shape.size can be 0, below its least value 1 (BCP329)"),
        ("shape.?note", "shape.nota", "shape has no nota (BCP053)"),
        ("account.?properties", "account.properties", "account may be null: .? or ! (BCP318)"),
        ("@minValue(1)\n", "@minLength(1)\n", "@minLength is for array and string, not integer (BCP124)"),
        ("@allowed(['Standard_LRS', 'Premium_LRS'])", "@maxValue(3)", "@maxValue is for integer, not string (BCP124)"),
    ],
)
def test_values(tmp_path: Path, was: str, becomes: str, text: str | None) -> None:
    """Each mistake is one finding that names the compiler's code; what is sound or silenced is none."""
    assert found(tmp_path, ACCOUNT) == []
    assert was in ACCOUNT
    texts = found(tmp_path, ACCOUNT.replace(was, becomes, 1))
    assert len(texts) == (0 if text is None else 1), texts
    assert text is None or text in texts[0]


@pytest.mark.parametrize(
    ("main", "inner", "rules"),
    [
        ("module a 'inner.bicep' = {}", "param x string?\noutput y string? = x", []),
        ("module a 'inner.bicep' = {}", "module b 'main.bicep' = {}", ["module-cycle", "module-cycle"]),
        ("module a 'main.bicep' = {}", "", ["module-cycle"]),
        ("var text = loadTextContent('inner.bicep')", "", []),
        ("var text = loadTextContent('outer.bicep')", "", ["file"]),
        ("import { t } from 'inner.bicep'", "@export()\ntype t = string", []),
        ("import { t } from 'inner.bicep'", "type t = string", ["import"]),
        ("import { t } from 'outer.bicep'", "", ["module-path"]),
    ],
)
def test_files(tmp_path: Path, main: str, inner: str, rules: list[str]) -> None:
    """Modules hold each other in no circle; what is loaded or imported is there."""
    (tmp_path / "main.bicep").write_text(main + "\n")
    (tmp_path / "inner.bicep").write_text(inner + "\n")
    templates = {path.resolve(): parse(path) for path in tmp_path.glob("*.bicep")}
    assert [each.rule for one in templates.values() for each in modules.check(one, templates)] == rules


def test_an_object_with_an_optional_property_is_required(tmp_path: Path) -> None:
    """What may be absent in it does not make the parameter optional."""
    (tmp_path / "inner.bicep").write_text(
        "param hub {\n  name: string\n  endpoint: string?\n}\noutput all object = hub\n"
    )
    (tmp_path / "main.bicep").write_text("module inner 'inner.bicep' = {}\n")
    templates = {path.resolve(): parse(path) for path in tmp_path.glob("*.bicep")}
    found = values.check(templates[(tmp_path / "main.bicep").resolve()], templates)
    assert [each.text for each in found] == ["needs params, which is missing (BCP035)"]


def test_the_data_has_what_the_templates_use() -> None:
    """Neither a type too few nor one that no template names any more."""
    data = json.loads((ROOT / "infra" / "checks" / "microsoft" / "resource_types.json").read_text())
    assert set(data["resources"]) == azure_types.used()


def test_the_generator(tmp_path: Path) -> None:
    """Kinds, literals, limits, what is required and read-only; a circle ends, and a missing type is named."""
    folder = tmp_path / "generated" / "widgets_0" / "microsoft.widgets" / "2026-01-01"
    folder.mkdir(parents=True)
    types = [
        {"$type": "StringType", "minLength": 2},
        {"$type": "StringLiteralType", "value": "red"},
        {"$type": "StringLiteralType", "value": "blue"},
        {"$type": "UnionType", "elements": [{"$ref": "#/1"}, {"$ref": "#/2"}]},
        {"$type": "ArrayType", "itemType": {"$ref": "#/5"}},
        {
            "$type": "ObjectType",
            "name": "Widget",
            "properties": {
                "name": {"type": {"$ref": "#/0"}, "flags": 9},
                "color": {"type": {"$ref": "#/3"}, "flags": 0},
                "id": {"type": {"$ref": "#/0"}, "flags": 10},
                "parts": {"type": {"$ref": "#/4"}, "flags": 0},
            },
        },
        {"$type": "ResourceType", "name": "Microsoft.Widgets/widgets@2026-01-01", "body": {"$ref": "#/5"}},
    ]
    (folder / "types.json").write_text(json.dumps(types))
    data = json.loads(azure_types.text(tmp_path, "abc", ["microsoft.widgets/Widgets@2026-01-01"]))
    assert data["resources"] == {"microsoft.widgets/Widgets@2026-01-01": {"$ref": 0}}
    assert data["objects"] == [
        {
            "type": "object",
            "properties": {
                "color": {"enum": ["blue", "red"]},
                "name": {"type": "string", "minLength": 2},
                "parts": {"type": "array", "items": {}},
            },
            "required": ["name"],
            "readOnly": ["id"],
        }
    ]
    with pytest.raises(azure_types.Missing, match="gadgets@2026-01-01"):
        azure_types.text(tmp_path, "abc", ["Microsoft.Widgets/gadgets@2026-01-01"])
