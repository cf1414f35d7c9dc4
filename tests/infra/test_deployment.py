"""The package, the smoke test and the guide of a deployment."""

from __future__ import annotations

import json
import re
import runpy
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from lucius_client.cli.documents import Documents
from shared.access.references import ReferencePolicy
from shared.build import COMMIT_FILE
from shared.core.jobs.plan import Workspace
from shared.core.jobs.routing import normalise
from tests.infra.deployed import deployed
from tests.jobs import ROOT
from triggers.http.bodies import MAX_BODY_BYTES


def test_azd_runs_hooks_and_parameters_that_exist() -> None:
    """azure.yaml names files of this repository."""
    azd = yaml.safe_load((ROOT / "azure.yaml").read_text())
    infra = azd["infra"]
    assert (ROOT / infra["path"] / f"{infra['module']}.bicepparam").is_file()
    named = [word for each in azd["hooks"].values() for word in each["run"].split() if word.endswith(".sh")]
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_zip_holds_the_app_and_its_commit(tmp_path: Path) -> None:
    """scripts/package.py packs the files that `.funcignore` does not name."""
    target = tmp_path / "app.zip"
    subprocess.run([sys.executable, "scripts/package.py", str(target)], cwd=ROOT, check=True, capture_output=True)
    names = set(zipfile.ZipFile(target).namelist())
    assert COMMIT_FILE in names
    # the build in Azure installs packages with these hashes
    assert zipfile.ZipFile(target).read("requirements.txt") == (ROOT / "requirements.lock").read_bytes()
    assert {"function_app.py", "host.json", "requirements.txt", "infra/bicep/topology.json"} <= names
    assert not [name for name in names if name.startswith(("tests/", "emulator/", "infra/hooks/", "infra/pipelines/"))]


@pytest.mark.parametrize("parameters", ["dev", "prod", "minimal"])
def test_the_template_sets_the_bounds_that_it_knows(parameters: str) -> None:
    """Jobs refer to folders of their tenant, not to workspaces; the host accepts little more than the app does."""
    (config,) = deployed(parameters, "Microsoft.Web/sites/config")
    settings = {name: value.strip("'") for name, value in config["properties"].items()}
    assert MAX_BODY_BYTES < int(settings["FUNCTIONS_REQUEST_BODY_SIZE_LIMIT"]) <= 4 * MAX_BODY_BYTES
    assert {"LUCIUS_PUBLIC_URL", "LUCIUS_ALLOWED_REF_HOSTS"} <= settings.keys()
    assert settings["LUCIUS_WORKSPACE_DAYS"] == "30"
    # `{{` is a brace in a text of format()
    place = r"format\('\{0\}/\{1\}/\{\{tenant\}\}', split\(stdoc\w+\.primaryEndpoints\.blob, '/'\)\[2\], '(\w+)'\)"
    hosts = settings["LUCIUS_ALLOWED_REF_HOSTS"]
    assert re.findall(place, hosts) == ["documents", "smoke", "results", "runs"]
    assert hosts.count("format(") == 4


@pytest.mark.parametrize("tenant", ["smoke", "tenant_a", "Größe & Maß", "a/b", "=platform", "x@y.example", "two words"])
def test_callers_name_the_folder_that_stands_for_the_tenant(tenant: str) -> None:
    """The smoke test and `lucius submit` put documents where `{tenant}` of an allowed reference leads."""
    smoke = runpy.run_path(str(ROOT / "scripts" / "smoke.py"))["tenant_folder"](tenant)
    policy = ReferencePolicy(
        frozenset({"http"}),
        frozenset({"127.0.0.1:10000/devstoreaccount1/results/{tenant}"}),
        Workspace("http://127.0.0.1:10000/devstoreaccount1/workspace", normalise(tenant)),
    )
    documents = Documents("UseDevelopmentStorage=true", tenant=tenant)
    assert smoke == Workspace("", normalise(tenant)).folder
    assert documents.results_uri.endswith(f"/{quote(smoke)}")
    assert policy.violation(f"{documents.results_uri}/answers.json") is None
    assert policy.violation(f"{documents.results_uri}x/answers.json") is not None


@pytest.mark.parametrize("parameters", ["dev", "prod", "minimal"])
def test_the_hosts_own_admin_routes_are_closed(parameters: str) -> None:
    """With any size of plan the master key opens nothing from outside."""
    (app,) = deployed(parameters, "Microsoft.Web/sites")
    assert app["properties"]["functionsRuntimeAdminIsolationEnabled"] is True


@pytest.mark.parametrize("parameters", ["dev", "prod", "minimal"])
def test_nobody_owns_the_bus_unasked(parameters: str) -> None:
    """No parameter file gives the app Azure Service Bus Data Owner, and none any code: Container Apps alone counts."""
    rights = {(each["who"], each["role"]) for each in deployed(parameters, "Microsoft.Authorization/roleAssignments")}
    assert ("app", "Azure Service Bus Data Sender") in rights
    assert {who for who, role in rights if role == "Azure Service Bus Data Owner"} <= {"containers"}


def test_no_package_without_a_commit(tmp_path: Path) -> None:
    """If git is missing, the error names it, or nothing is written."""
    script = [sys.executable, "scripts/package.py", str(tmp_path / "app.zip")]
    alone = {"PATH": str(tmp_path)}
    done = subprocess.run(script, cwd=ROOT, env=alone, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert not (tmp_path / "app.zip").exists()
    subprocess.run(script, cwd=ROOT, env={**alone, "LUCIUS_BUILD_COMMIT": "elsewhere"}, check=True, capture_output=True)
    assert zipfile.ZipFile(tmp_path / "app.zip").read(COMMIT_FILE) == b"elsewhere"


def test_the_smoke_test_names_what_does_not_respond() -> None:
    """One line and exit code 3."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "scripts/smoke.py", "--api", f"http://127.0.0.1:{port}", "--timeout", "0"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert str(port) in done.stderr


def test_the_smoke_test_runs_on_the_packages_of_the_lock(capfd: pytest.CaptureFixture[str]) -> None:
    """Its job in the pipeline installs nothing of the command line; a service's text executes nothing in a terminal."""
    alone = (
        "import runpy, sys; sys.modules.update(dict.fromkeys(('lucius_client', 'rich', 'typer')));"
        "smoke = runpy.run_path('scripts/smoke.py'); smoke['write']('a\\x1b[2Jb\\tc'); smoke['main'](['--help'])"
    )
    subprocess.run([sys.executable, "-c", alone], cwd=ROOT, check=True)
    shown = capfd.readouterr().out
    assert shown.startswith("a\N{REPLACEMENT CHARACTER}[2Jb\tc\nusage: ")


@pytest.mark.parametrize("path", sorted((ROOT / "infra" / "bicep").glob("*.bicepparam")), ids=lambda path: path.stem)
def test_each_size_reads_the_variables_of_the_guide(path: Path) -> None:
    """A variable that a parameter file does not read would be ignored without a word."""
    given = dict(re.findall(r"(?m)^param (\w+) = .*?readEnvironmentVariable\('(\w+)'", path.read_text()))
    expected = {
        "authTenants": "LUCIUS_AUTH_TENANTS",
        "dashboardClientId": "LUCIUS_DASHBOARD_CLIENT_ID",
        "enableCallbacks": "LUCIUS_CALLBACKS",
        "serviceImageTag": "LUCIUS_SERVICE_TAG",
        "registryResourceId": "LUCIUS_REGISTRY_ID",
        "workspaceResourceId": "LUCIUS_WORKSPACE_ID",
        "enableWebhooks": "LUCIUS_WEBHOOKS",
        "alertEmails": "LUCIUS_ALERT_EMAILS",
        "monthlyBudget": "LUCIUS_MONTHLY_BUDGET",
        "monthlyBudgetStart": "LUCIUS_MONTHLY_BUDGET_START",
    }
    assert expected.items() <= given.items()


def test_the_guide_names_scripts_and_parameters_that_exist() -> None:
    """Every script that the guides name, and every parameter of the reference, is there."""
    guides = "".join(page.read_text() for page in (ROOT / "docs" / "guides").glob("*.md"))
    scripts = set(re.findall(r"(?:infra/hooks|scripts)/\w+\.(?:sh|py)", guides))
    assert [script for script in scripts if not (ROOT / script).is_file()] == []
    reference = (ROOT / "docs" / "reference" / "template.md").read_text()
    table = reference.split("| parameter | default | meaning |")[1].split("\n\n")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines() if "|" in row]
    documented = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    parameters = set(re.findall(r"^param (\w+)", (ROOT / "infra" / "bicep" / "main.bicep").read_text(), re.MULTILINE))
    assert documented == parameters


def test_the_guide_has_the_number_of_role_assignments() -> None:
    """And the hook requires no fewer."""
    page = (ROOT / "docs" / "guides" / "own-resources.md").read_text()
    hook = (ROOT / "infra" / "hooks" / "check_own.sh").read_text()
    counts = {}
    for name in ("dev", "prod", "minimal"):
        resources = json.loads((ROOT / "infra" / "bicep" / "snapshots" / f"{name}.json").read_text())
        counts[name] = sum(
            each.get("count", 1) for each in resources if each["type"] == "Microsoft.Authorization/roleAssignments"
        )
    words = (
        "With a key vault, an environment of `dev` has {dev} role assignments, of `prod` {prod}, "
        "and of `minimal` {minimal}."
    )
    assert words.format(**counts) in page
    assert max(counts.values()) <= 200
    assert "an environment needs 200" in hook


def test_the_host_keeps_all_traces_and_the_app_a_tenth() -> None:
    """The host drops the log records of each trace that it drops, by the setting that it shares with the app."""
    for name in ("dev", "prod", "minimal"):
        resources = json.loads((ROOT / "infra" / "bicep" / "snapshots" / f"{name}.json").read_text())
        [settings] = (each["properties"] for each in resources if each["type"] == "Microsoft.Web/sites/config")
        names = ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "LUCIUS_TRACE_RATIO")
        assert [settings[each].strip("'") for each in names] == ["microsoft.fixed_percentage", "1", "0.1"]
