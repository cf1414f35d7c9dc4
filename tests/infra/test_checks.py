"""The templates pass every check, and each rule notices when it is broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from infra.checks import app_settings, every, host_json, modules, package_files, seeds, symbols, topics, values
from infra.checks.finding import Finding
from infra.checks.template import Template, parse
from tests.jobs import ROOT

GOOD = """
@description('Required. Where.')
param location string

@description('Optional. More.')
param zones string[] = []

var names = [for lane in range(0, 2): 'p${lane}']

resource storage 'Microsoft.Storage/storageAccounts@2025-06-01' = [for (name, index) in names: {
  name: 'docs${name}${index}'
  location: location
  kind: 'StorageV2'
  sku: { name: 'Standard_LRS' }
  tags: { zones: join(map(zones, zone => toLower(zone)), ',') }
}]

@description('The ids.')
output ids array = [for (name, index) in names: storage[index].id]
"""

CALLER = """
param location string

module inner 'inner.bicep' = {
  params: { location: location }
}

output ids array = inner.outputs.ids
"""


def template(folder: Path, text: str, name: str = "inner.bicep") -> Template:
    (folder / name).write_text(text)
    return parse(folder / name)


def rules(found: list[Finding]) -> list[str]:
    return [each.rule for each in found]


def test_the_repository_passes() -> None:
    """Nothing is found in the templates, host.json and `.funcignore` as they are."""
    assert [str(each) for each in every.check(ROOT)] == []


def test_a_sound_template_passes(tmp_path: Path) -> None:
    """Loops, lambdas and outputs are understood."""
    good = template(tmp_path, GOOD)
    assert good.broken == []
    assert [*symbols.check(good), *values.check(good, {})] == []


def test_syntax(tmp_path: Path) -> None:
    """A line that is not Bicep is named."""
    assert template(tmp_path, GOOD.replace("location: location\n", "location location\n")).broken


@pytest.mark.parametrize(
    ("was", "becomes", "rule", "text"),
    [
        ("location: location", "location: any(region, location)", "undefined", "region"),
        ("toLower(zone)", "toLover(zone)", "undefined", "toLover"),
        ("range(0, 2): 'p${lane}'", "range(0, 2): 'p${line}'", "undefined", "line"),
        ("  location: location\n", "", "unused", "parameter location"),
        ("range(0, 2): 'p${lane}'", "range(0, 2): 'p'", None, ""),
        ("var names", "var spare = 1\nvar names", "unused", "variable spare"),
    ],
)
def test_names(tmp_path: Path, was: str, becomes: str, rule: str | None, text: str) -> None:
    """What is used is declared, and what is declared is used."""
    assert was in GOOD
    found = symbols.check(template(tmp_path, GOOD.replace(was, becomes)))
    assert rules(found) == ([rule] if rule else [])
    assert all(text in each.text for each in found)


@pytest.mark.parametrize(
    ("was", "becomes", "rule"),
    [
        ("inner.bicep", "other.bicep", "module-path"),
        ("location: location }", "location: location, color: 'red' }", "module-parameter"),
        ("{ location: location }", "{ }", "module-parameter"),
        ("outputs.ids", "outputs.names", "property"),
    ],
)
def test_modules(tmp_path: Path, was: str, becomes: str, rule: str) -> None:
    """A module's path, the parameters it needs and takes, and its outputs."""
    inner = template(tmp_path, GOOD)
    known = {inner.path.resolve(): inner}
    sound = template(tmp_path, CALLER, "main.bicep")
    assert [*modules.check(sound, known), *values.check(sound, known)] == []
    assert was in CALLER
    broken = template(tmp_path, CALLER.replace(was, becomes), "main.bicep")
    assert rules([*modules.check(broken, known), *values.check(broken, known)]) == [rule]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("using 'inner.bicep'\nparam location = 'eastus'\n", []),
        ("using 'inner.bicep'\n", ["module-parameter"]),
        ("using 'inner.bicep'\nparam location = 'eastus'\nparam color = 'red'\n", ["module-parameter"]),
        ("using 'other.bicep'\n", ["module-path"]),
    ],
)
def test_parameter_files(tmp_path: Path, text: str, found: list[str]) -> None:
    """A parameter file gives what its template needs and nothing that it does not take."""
    inner = template(tmp_path, GOOD)
    file = template(tmp_path, text, "dev.bicepparam")
    assert file.broken == []
    known = {inner.path.resolve(): inner}
    wrong = modules.check_parameters(file, known)
    if (target := modules.used(file, known)) is not None:
        wrong += values.check_parameters(file, target, known)
    assert rules(wrong) == found


def test_resource_types_and_versions(tmp_path: Path) -> None:
    """A type or version that the data lacks is reported with the way to get it."""
    wrong_type = values.check(template(tmp_path, GOOD.replace("storageAccounts@", "storageAcounts@")), {})
    wrong_version = values.check(template(tmp_path, GOOD.replace("@2025-06-01", "@2023-01-01")), {})
    assert rules([*wrong_type, *wrong_version]) == ["resource-type", "api-version"]
    assert all("scripts.generate.azure_types" in each.text for each in [*wrong_type, *wrong_version])


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (["LUCIUS_TABLE_ENDPOINT"], []),
        ([], ["app-setting"]),
        (["LUCIUS_TABLE_ENDPOINT", "LUCIUS_TABEL_ENDPOINT"], ["app-setting"]),
        (["LUCIUS_TABLE_ENDPOINT", "FUNCTIONS_WORKER_RUNTIME"], ["app-setting"]),
        (["LUCIUS_TABLE_ENDPOINT", "AzureFunctionsJobHost__functionTimeout"], []),
        (["LUCIUS_TABLE_ENDPOINT", "AzureFunctionsJobHost__functionTimeuot"], ["app-setting"]),
        (["LUCIUS_TABLE_ENDPOINT", "AzureFunctionsJobHost__extensions__durableTask__hubName"], ["app-setting"]),
        (["LUCIUS_TABLE_ENDPOINT", "AzureFunctionsJobHost__extensions__DurableTask__defaultVersion"], ["app-setting"]),
    ],
)
def test_app_settings(tmp_path: Path, settings: list[str], found: list[str]) -> None:
    """Needed ones are set, unread ones are not; those for host.json name its keys, and none that the file must say."""
    lines = "\n".join(f"  {name}: 'x'" for name in settings)
    app = template(tmp_path, f"var settings = {{\n{lines}\n}}\noutput all object = settings\n")
    known = frozenset({"LUCIUS_TABLE_ENDPOINT"})
    assert rules(app_settings.check([app], known=known, needed=known)) == found


def test_every_setting_of_the_app_is_known_or_a_laptops(tmp_path: Path) -> None:
    """A setting that settings.py reads may be set by the template, unless it is a key or for tests."""
    known = every.known_settings()
    assert "LUCIUS_MAX_ATTEMPTS" in known
    assert "LUCIUS_TABLE_CONNECTION" not in known


def test_topics(tmp_path: Path) -> None:
    """Sixteen lanes each way, made by loops over topology.json."""
    shutil.copytree(ROOT / "infra" / "bicep", tmp_path / "infra" / "bicep")
    bus = tmp_path / "infra" / "bicep" / "modules" / "service-bus.bicep"

    def found() -> list[str]:
        return rules(topics.check(tmp_path, [parse(bus)]))

    assert found() == []
    good = bus.read_text()
    bus.write_text(good.replace("topology.json", "topology.yaml"))
    assert "topics" in found()
    bus.write_text(good + "\nresource one 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' = {\n  name: 'x'\n}\n")
    assert "topics" in found()
    bus.write_text(good)
    topology = tmp_path / "infra" / "bicep" / "topology.json"
    topology.write_text(json.dumps(json.loads(topology.read_text()) | {"lanes": 15}))
    assert found() == ["topics"]


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("name: '$Default'", "name: 'steps'"),
        ("filterType: 'CorrelationFilter'", "filterType: 'SqlFilter'"),
        ("step_type: topology", "stepType: topology"),
    ],
)
def test_rules_of_services(tmp_path: Path, was: str, becomes: str) -> None:
    """A rule beside `$Default`, or on another property, gives every service every directive, or none."""
    shutil.copytree(ROOT / "infra" / "bicep", tmp_path / "infra" / "bicep")
    bus = tmp_path / "infra" / "bicep" / "modules" / "service-bus.bicep"
    assert was in bus.read_text()
    bus.write_text(bus.read_text().replace(was, becomes))
    assert rules(topics.check(tmp_path, [parse(bus)])) == ["topics"]


def test_seeds(tmp_path: Path) -> None:
    """What is not seeded, is there no more, or has another text; a template that does not write it."""
    shutil.copytree(ROOT / "infra" / "bicep", tmp_path / "infra" / "bicep")
    shutil.copytree(ROOT / "protocols", tmp_path / "protocols")
    assert seeds.check(tmp_path) == []
    shutil.copy(tmp_path / "protocols" / "ocr.json", tmp_path / "protocols" / "receipts.json")
    (tmp_path / "protocols" / "sis.json").unlink()
    (tmp_path / "protocols" / "steps" / "ocr.schema.json").write_text("{}")
    keys = tmp_path / "infra" / "bicep" / "modules" / "app-configuration-keys.bicep"
    keys.write_text(keys.read_text().replace("loadJsonContent('../protocols.json')", "[]"))
    found = [each.text.split()[0] for each in seeds.check(tmp_path)]
    assert found == [
        "lucius:protocols:receipts",
        "lucius:protocols:sis",
        "lucius:schemas:steps/ocr.schema.json",
        "does",
    ]


def test_host_json(tmp_path: Path) -> None:
    """A key that no document knows, and what is not JSON."""
    file = tmp_path / "host.json"
    content = json.loads((ROOT / "host.json").read_text())
    content["extensions"]["serviceBus"]["maxConcurentCalls"] = 4
    file.write_text(json.dumps(content))
    assert [each.text for each in host_json.check(file)] == [
        "extensions.serviceBus.maxConcurentCalls is not a documented key"
    ]
    file.write_text("{")
    assert rules(host_json.check(file)) == ["host-json"]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("tests", "emulator would be deployed"),
        ("shared", "shared would not be deployed"),
        ("*.pyc", "only whole names"),
        ("!tests", "only whole names"),
    ],
)
def test_funcignore(tmp_path: Path, lines: str, text: str) -> None:
    """Emulators and tests stay out, the app stays in, by lines that every tool reads alike."""
    for name in (*package_files.APP, *package_files.NOT_APP):
        if "." in name:
            (tmp_path / name).touch()
        else:
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").touch()
    (tmp_path / ".funcignore").write_text("\n".join(package_files.NOT_APP) + "\n")
    assert package_files.check(tmp_path) == []
    kept = [name for name in package_files.NOT_APP if name != "emulator"]
    (tmp_path / ".funcignore").write_text("\n".join([*kept, lines]) + "\n")
    assert any(text in each.text for each in package_files.check(tmp_path))
    (tmp_path / ".funcignore").unlink()
    assert rules(package_files.check(tmp_path)) == ["funcignore"]


def test_each_rule_of_the_linter_is_decided() -> None:
    """`bicepconfig.json` has every rule; what is off by default, or off here, has its reason."""
    rules = json.loads((ROOT / "infra" / "checks" / "linter_rules.json").read_text(encoding="utf-8"))["rules"]
    configured = json.loads((ROOT / "infra" / "bicep" / "bicepconfig.json").read_text(encoding="utf-8"))
    levels = {name: each["level"] for name, each in configured["analyzers"]["core"]["rules"].items()}
    assert levels == {name: each["level"] for name, each in rules.items()}
    assert set(levels.values()) <= {"error", "warning", "off"}
    assert [name for name, each in rules.items() if "off" in each.values() and not each.get("reason")] == []
