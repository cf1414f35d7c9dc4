"""A host.json for each durable backend, in the package, where alone the scale controller reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infra.checks.finding import CheckFailed
from infra.package import durable_backend, host_json
from shared.core.jobs import durable_names
from tests.jobs import ROOT
from triggers.registered import ROUTES

PARAMETERS = ROOT / "infra" / "bicep"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """host.json of both backends, in a folder of their own."""
    for name in durable_backend.HOST_JSON.values():
        shutil.copy2(ROOT / name, tmp_path)
    return tmp_path


def change(path: Path, key: str, value: Any) -> None:
    """Sets a dotted key; None removes it."""
    content = json.loads(path.read_text())
    *before, last = key.split(".")
    inside = content
    for name in before:
        inside = inside[name]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("file", "key", "value", "text"),
    [
        ("host.json", "extensions.durableTask.storageProvider", None, "storageProvider.type must be azureManaged"),
        ("host.json", "extensions.durableTask.storageProvider.type", "azuremanaged", "type must be azureManaged"),
        ("host.json", "extensions.durableTask.hubName", "lucius", "hubName must be %TASKHUB_NAME%"),
        ("host.json", "extensions.serviceBus.maxConcurrentCalls", "four", "maxConcurrentCalls is 'four'"),
        ("host.json", "extensions.serviceBus.maxConcurrentCalls", 8, "must be equal except storageProvider"),
        ("host.json", "extensionBundle.version", "[3.*, 4.0.0)", "extensionBundle.version is '[3.*, 4.0.0)'"),
        ("host.json", "logging.logLevel.default", "Info", "logging.logLevel.default is 'Info'"),
        ("host.json", "functionTimeout", "10 minutes", "functionTimeout is '10 minutes'"),
        ("host.AzureStorage.json", "extensions.durableTask.storageProvider.partitionCount", 17, "partitionCount is 17"),
        (
            "host.AzureStorage.json",
            "extensions.durableTask.storageProvider.maxQueuePollingInterval",
            None,
            "maxQueuePollingInterval must be 1 to 2 s",
        ),
        (
            "host.AzureStorage.json",
            "extensions.durableTask.storageProvider.controlQueueVisibilityTimeout",
            None,
            "controlQueueVisibilityTimeout must be 60 s",
        ),
        (
            "host.AzureStorage.json",
            "extensions.durableTask.storageProvider.workItemQueueVisibilityTimeout",
            "00:00:30",
            "workItemQueueVisibilityTimeout must be 60 s",
        ),
    ],
)
def test_a_wrong_host_json_is_found(copy: Path, file: str, key: str, value: Any, text: str) -> None:
    """Each of these was silent: the app starts, or not, and no job moves."""
    assert host_json.check_backends(copy) == []
    change(copy / file, key, value)
    found = [each.text for each in host_json.check_backends(copy)]
    assert any(text in each for each in found), found


@pytest.mark.parametrize(
    ("category", "least"),
    [("Azure.Core", "Error"), ("DurableTask.AzureStorage", "Error"), ("DurableTask.Core", "Warning")],
)
@pytest.mark.parametrize("level", [None, "Information", "Warning"])
def test_a_category_that_floods_the_log_is_found(copy: Path, category: str, least: str, level: str | None) -> None:
    """Missing, or shown from too low a level on, in both files.

    DurableTask.AzureStorage warns of each event for an instance that has just ended (DiscardingWorkItem in
    LogEvents.cs), Azure.Core of each purge while there was no large message (ErrorResponse in AzureCoreEventSource.cs).
    """
    for name in ("host.json", "host.AzureStorage.json"):
        content = json.loads((copy / name).read_text())
        content["logging"]["logLevel"].pop(category)
        content["logging"]["logLevel"] |= {} if level is None else {category: level}
        (copy / name).write_text(json.dumps(content))
    expected = (
        f"logging.logLevel.{category} must be {least} or higher, because the records of lower levels fill the log"
    )
    assert (expected in [each.text for each in host_json.check_backends(copy)]) is (level != least)


def test_records_of_executions_flood_the_log(copy: Path) -> None:
    """A category is missing, or another one is added that would replace `logLevel`, in each of both files."""
    for change_to in ({"Function.job": None}, {"Function.job*.User": "Warning"}, {"default": "Information"}):
        for name in ("host.json", "host.AzureStorage.json"):
            content = json.loads((ROOT / name).read_text())
            levels = content["logging"]["OpenTelemetry"]["logLevel"] | change_to
            content["logging"]["OpenTelemetry"]["logLevel"] = {key: level for key, level in levels.items() if level}
            (copy / name).write_text(json.dumps(content))
        found = [each.text for each in host_json.check_backends(copy)]
        assert [each for each in found if "records of executions fill the log" in each], change_to


def selected(rules: Sequence[tuple[str, str]], category: str) -> str:
    """The level of the rule that .NET selects among those of one provider (LoggerRuleSelector.cs)."""
    longest, level = "", ""
    for rule, its_level in rules:
        prefix, _, suffix = rule.lower().partition("*")
        matches = category.lower().startswith(prefix) and category.lower().endswith(suffix)
        if matches and len(rule) >= len(longest):
            longest, level = rule, its_level
    return level


@pytest.mark.parametrize("file", ["host.json", "host.AzureStorage.json"])
def test_the_host_exports_the_apps_records_and_not_each_execution(file: str) -> None:
    """Under the rules of the host, wherever .NET puts them: a failed execution is an error, and is exported."""
    levels = json.loads((ROOT / file).read_text())["logging"]["OpenTelemetry"]["logLevel"]
    hosts = [("Function.*", "Trace"), ("Azure.*", "None"), ("Host.Results", "None"), ("Host.Aggregator", "None")]
    executed = {"orchestrate", "replies", "reply_p0", "reply_p15", "admission", "tell", "deliver"}
    executed |= {durable_names.JOB, durable_names.STEP, durable_names.DISPATCH, durable_names.SETTLE}
    functions = executed | {route.function for route in ROUTES} | {"sweep", "sweep_1", "prune", "options"}
    for rules in ([*levels.items(), *hosts], [*hosts, *levels.items()]):
        for name in functions:
            assert selected(rules, f"Function.{name}.User") in ("Trace", "Information"), name
        assert {name for name in executed if selected(rules, f"Function.{name}") != "Warning"} == set()
        assert selected(rules, "Host.General") == ""


def test_a_backend_without_its_file_is_found(copy: Path) -> None:
    """A parameter's value that no package could be made for."""
    (copy / "host.AzureStorage.json").unlink()
    assert ["is missing" in each.text for each in host_json.check_backends(copy)] == [True]


@pytest.mark.parametrize(
    ("parameters", "setting", "kind"),
    [
        ("dev", "", "azureManaged"),
        ("minimal", "", "AzureStorage"),
        ("dev", "AzureStorage", "AzureStorage"),
        ("minimal", "DurableTaskScheduler", "azureManaged"),
    ],
)
def test_the_package_has_the_backend_of_the_template(tmp_path: Path, parameters: str, setting: str, kind: str) -> None:
    """Of the parameter file, or of the setting that overrides it in both places."""
    target = tmp_path / "app.zip"
    file = PARAMETERS / f"{parameters}.bicepparam"
    subprocess.run(
        [sys.executable, "scripts/package.py", str(target), "--parameters", str(file)],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "LUCIUS_DURABLE_BACKEND": setting},
        check=True,
        capture_output=True,
    )
    package = zipfile.ZipFile(target)
    packaged = json.loads(package.read("host.json"))
    assert packaged["extensions"]["durableTask"]["storageProvider"]["type"] == kind
    assert [name for name in package.namelist() if name.startswith("host.")] == ["host.json"]


def test_a_package_is_made_for_a_known_backend_and_over_a_package_only(tmp_path: Path) -> None:
    """One line, exit code 1, and nothing is deleted."""
    with pytest.raises(CheckFailed, match="unknown durable backend Netherite"):
        durable_backend.chosen(PARAMETERS / "dev.bicepparam", {"LUCIUS_DURABLE_BACKEND": "Netherite"})
    (tmp_path / "letters").write_text("kept")
    done = subprocess.run(
        [sys.executable, "scripts/package.py", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert (tmp_path / "letters").read_text() == "kept"


def test_a_parameter_file_has_its_backend_where_the_packaging_looks(tmp_path: Path) -> None:
    """A literal would be the template's alone."""
    folder = tmp_path / "infra" / "bicep"
    folder.mkdir(parents=True)
    (folder / "dev.bicepparam").write_text("param durableBackend = 'AzureStorage'\n")
    assert [each.rule for each in durable_backend.check(tmp_path)] == ["durable-backend"]


def test_azd_packages_what_the_script_makes() -> None:
    """Its package is a folder that the service's own hook creates, also in `azd deploy` alone."""
    azure = (ROOT / "azure.yaml").read_text()
    assert durable_backend.parameter_file(ROOT).is_file()
    folder = azure.split("dist: ")[1].split()[0]
    assert f"run: python3 scripts/package.py {folder}\n" in azure.split("services:")[1].split("\nhooks:")[0]
