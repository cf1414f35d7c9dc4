"""The files around the templates pass every check, and each rule notices when it is broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from infra.checks import app_settings, every, package_files, seeds
from infra.checks.finding import Finding
from infra.checks.snapshots import Resource, Snapshot
from infra.package import host_json
from tests.infra.deployed import deployed
from tests.jobs import ROOT

CONFIG = "Microsoft.Web/sites/config"


def rules(found: list[Finding]) -> list[str]:
    return [each.rule for each in found]


def test_the_repository_passes() -> None:
    """Nothing is found in the files around the templates."""
    assert [str(each) for each in every.check_files(ROOT)] == []


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ([], 0),
        (["LUCIUS_TABEL_ENDPOINT"], 1),
        (["FUNCTIONS_WORKER_RUNTIME"], 1),
        (["AzureFunctionsJobHost__functionTimeout"], 0),
        (["AzureFunctionsJobHost__functionTimeuot"], 1),
        (["AzureFunctionsJobHost__extensions__durableTask__hubName"], 1),
        (["AzureFunctionsJobHost__extensions__DurableTask__defaultVersion"], 1),
    ],
)
def test_app_settings(settings: list[str], found: int) -> None:
    """Required ones are set, unread ones are not; those for host.json name its keys."""
    (config,) = deployed("dev", CONFIG)
    app = Resource(CONFIG, "app/appsettings", {"properties": config["properties"] | dict.fromkeys(settings, "x")})
    plan = Resource("Microsoft.Web/serverfarms", "plan", {"sku": {"name": "FC1"}})
    assert len(app_settings.check(Snapshot(Path("dev.bicepparam"), (app, plan)))) == found


def test_a_setting_that_is_missing_is_found() -> None:
    """With an App Configuration store the app needs its address, without one it does not."""
    (config,) = deployed("dev", CONFIG)
    given = {name: value for name, value in config["properties"].items() if name != "LUCIUS_APPCONFIG_ENDPOINT"}
    app = Resource(CONFIG, "app/appsettings", {"properties": given})
    store = Resource("Microsoft.AppConfiguration/configurationStores", "store", {})
    assert app_settings.check(Snapshot(Path("dev.bicepparam"), (app,))) == []
    [found] = app_settings.check(Snapshot(Path("dev.bicepparam"), (app, store)))
    assert "LUCIUS_APPCONFIG_ENDPOINT must be set" in found.text


def test_every_setting_of_the_app_is_known_or_a_laptops() -> None:
    """A setting that settings.py reads may be set by the template, unless it is a key or for tests."""
    known = app_settings.known()
    assert "LUCIUS_MAX_ATTEMPTS" in known
    assert "LUCIUS_TABLE_CONNECTION" not in known


def test_seeds(tmp_path: Path) -> None:
    """A file without a seed, a seed without a file, or another text is a finding.

    A key has the version if the file has another name.
    """
    shutil.copytree(ROOT / "infra" / "bicep", tmp_path / "infra" / "bicep")
    shutil.copytree(ROOT / "protocols", tmp_path / "protocols")
    assert seeds.check(tmp_path) == []
    shutil.copy(tmp_path / "protocols" / "ocr.json", tmp_path / "protocols" / "ocr-1.json")
    (tmp_path / "protocols" / "sis.json").unlink()
    (tmp_path / "protocols" / "steps" / "ocr.schema.json").write_text("{}")
    found = [each.text.split()[0] for each in seeds.check(tmp_path)]
    assert found == [
        "lucius:protocols:ocr:1",
        "lucius:protocols:sis",
        "lucius:schemas:steps/ocr.schema.json",
    ]


def test_host_json(tmp_path: Path) -> None:
    """An undocumented key, and text that is not JSON."""
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
        ("tests", "emulator is not excluded; add its name"),
        ("shared", "shared is excluded; remove its name"),
        ("*.pyc", "must be a whole name"),
        ("!tests", "must be a whole name"),
    ],
)
def test_funcignore(tmp_path: Path, lines: str, text: str) -> None:
    """Emulators and tests stay out, the app stays in, by lines that every tool parses in the same way."""
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
    """`bicepconfig.json` has every rule; a rule that is off by default, or off here, has its reason."""
    rules = json.loads((ROOT / "infra" / "checks" / "linter_rules.json").read_text(encoding="utf-8"))["rules"]
    configured = json.loads((ROOT / "infra" / "bicep" / "bicepconfig.json").read_text(encoding="utf-8"))
    levels = {name: each["level"] for name, each in configured["analyzers"]["core"]["rules"].items()}
    assert levels == {name: each["level"] for name, each in rules.items()}
    assert set(levels.values()) <= {"error", "warning", "off"}
    assert [name for name, each in rules.items() if "off" in each.values() and not each.get("reason")] == []
