"""Hooks, pipelines, the package and the smoke test: what surrounds the templates."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared.build import COMMIT_FILE
from shared.telemetry.metric_table import METRICS
from tests.jobs import ROOT

HOOKS = ROOT / "infra" / "hooks"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

#: stands in for az: it records its calls, and answers as a tenant with two regions would
AZ = """#!/bin/sh
printf '%s\\n' "az $*" >> "$ASKED"
case "$*" in
  *list-flexconsumption-locations*) printf 'westeurope\\nnortheurope\\n' ;;
  *"provider show"*) printf 'West Europe\\n' ;;
  *"rest --method PATCH"*)
    for last; do :; done
    printf '%s' "$last" | tr -d '\\n' >> "$ASKED.bodies"
    echo >> "$ASKED.bodies" ;;
  *"ad app create"*) echo 11111111-2222-3333-4444-555555555555 ;;
  *"--query id"*) echo object-id ;;
  *appRoles*) echo role-id ;;
  *"length(@)"*) echo "${HELD:-0}" ;;
esac
"""


@pytest.fixture
def hook(tmp_path: Path) -> Any:
    """Runs a hook with stand-ins for az and azd: its exit code, its output, and its calls of both."""
    for name, text in (("az", AZ), ("azd", '#!/bin/sh\nprintf \'%s\\n\' "azd $*" >> "$ASKED"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    asked = tmp_path / "asked"

    def run(name: str, *arguments: str, **settings: str) -> tuple[int, str, list[str]]:
        asked.write_text("")
        done = subprocess.run(
            ["sh", str(HOOKS / name), *arguments],
            env={
                "PATH": f"{tmp_path}:/usr/bin:/bin",
                "ASKED": str(asked),
                "AZURE_SUBSCRIPTION_ID": "sub",
                "AZURE_ENV_NAME": "dev",
                **settings,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr, asked.read_text().splitlines()

    return run


def test_preprovision_registers_an_app_and_gives_azd_its_audience(hook: Any, tmp_path: Path) -> None:
    """With no audience, a registration with LUCIUS's scopes as app roles is made, and azd gets its client id."""
    code, output, asked = hook("preprovision.sh", AZURE_LOCATION="westeurope")
    assert (code, output) == (0, "")
    assert "azd env set LUCIUS_AUTH_AUDIENCE 11111111-2222-3333-4444-555555555555" in asked
    first, second = map(json.loads, (tmp_path / "asked.bodies").read_text().splitlines())
    roles = {role["value"]: role["id"] for role in first["appRoles"]}
    assert set(roles) == {"orch:read", "orch:operate", "orch:quota", "orch:admin", "orch:all-tenants"}
    assert len({re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", each) for each in roles.values()}) == 5
    assert first["api"]["requestedAccessTokenVersion"] == 2
    (client,) = second["api"]["preAuthorizedApplications"]
    assert client["delegatedPermissionIds"] == [first["api"]["oauth2PermissionScopes"][0]["id"]]


def test_preprovision_takes_the_audience_that_is_given(hook: Any) -> None:
    """An existing app registration is kept."""
    code, _, asked = hook("preprovision.sh", AZURE_LOCATION="westeurope", LUCIUS_AUTH_AUDIENCE="mine")
    assert code == 0
    assert not [line for line in asked if " ad " in line or line.startswith("azd")]


@pytest.mark.parametrize(
    ("region", "backend", "code", "text"),
    [
        ("uksouth", "", 1, "uksouth does not offer Flex Consumption"),
        ("northeurope", "", 1, "azd env set LUCIUS_DURABLE_BACKEND AzureStorage"),
        ("northeurope", "AzureStorage", 0, ""),
    ],
)
def test_preprovision_refuses_a_region_that_lacks_something(
    hook: Any, region: str, backend: str, code: int, text: str
) -> None:
    """Before anything is made, in one line that names the alternative."""
    actual, output, _ = hook(
        "preprovision.sh", AZURE_LOCATION=region, LUCIUS_DURABLE_BACKEND=backend, LUCIUS_AUTH_AUDIENCE="mine"
    )
    assert actual == code
    assert text in output
    assert output.count("\n") == (1 if text else 0)


def test_postdown_deletes_only_the_registration_that_preprovision_made(hook: Any) -> None:
    """One that existed before stays."""
    assert hook("postdown.sh", LUCIUS_AUTH_AUDIENCE="given")[2] == []
    asked = hook("postdown.sh", LUCIUS_AUTH_REGISTERED="made")[2]
    assert asked[0] == "az ad app delete --id made"


def test_roles_are_granted_once(hook: Any) -> None:
    """Each role is asked for, and granted where it is not held yet."""
    granted = [line for line in hook("grant_role.sh", "api", "who", "orch:read", "orch:operate")[2] if "POST" in line]
    again = [line for line in hook("grant_role.sh", "api", "who", "orch:read", HELD="1")[2] if "POST" in line]
    assert (len(granted), len(again)) == (2, 0)
    assert hook("grant_role.sh", "api")[:2] == (2, "usage: grant_role.sh AUDIENCE PRINCIPAL_OBJECT_ID ROLE...\n")


def test_azd_runs_hooks_and_parameters_that_exist() -> None:
    """azure.yaml names files of this repository."""
    azd = yaml.safe_load((ROOT / "azure.yaml").read_text())
    infra = azd["infra"]
    assert (ROOT / infra["path"] / f"{infra['module']}.bicepparam").is_file()
    named = [word for each in azd["hooks"].values() for word in each["run"].split() if word.endswith(".sh")]
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_pinned_and_may_little(path: Path) -> None:
    """Actions by commit, no credential, reading only by default; a token for Azure only where somebody signs in."""
    text, workflow = path.read_text(), yaml.safe_load(path.read_text())
    uses = re.findall(r"uses: (\S+)(.*)", text)
    assert [use for use, _ in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use)] == []
    assert all(re.search(r"# v\d+\.\d+\.\d+$", comment) for _, comment in uses)
    # LUCIUS's own one, where callbacks are on; nobody signs in with a secret
    assert set(re.findall(r"secrets\.\w+", text)) <= {"secrets.LUCIUS_CALLBACK_KEYS"}
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        signs_in = any(step.get("uses", "").startswith("azure/login@") for step in job["steps"])
        assert job.get("permissions", {}).get("id-token") == ("write" if signs_in else None)
        # what comes from outside reaches a shell through the environment only
        assert not [step for step in job["steps"] if "${{" in step.get("run", "")]


def test_the_zip_holds_the_app_and_its_commit(tmp_path: Path) -> None:
    """scripts/package.py packs what `.funcignore` leaves."""
    target = tmp_path / "app.zip"
    subprocess.run([sys.executable, "scripts/package.py", str(target)], cwd=ROOT, check=True, capture_output=True)
    names = set(zipfile.ZipFile(target).namelist())
    assert COMMIT_FILE in names
    assert {"function_app.py", "host.json", "requirements.txt", "infra/bicep/topology.json"} <= names
    assert not [name for name in names if name.startswith(("tests/", "emulator/", "infra/hooks/"))]


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


def test_the_guide_names_scripts_and_parameters_that_exist() -> None:
    """docs/deploy.md: every script and every parameter of its table is there."""
    guide = (ROOT / "docs" / "deploy.md").read_text()
    scripts = set(re.findall(r"(?:infra/hooks|scripts)/\w+\.(?:sh|py)", guide))
    assert [script for script in scripts if not (ROOT / script).is_file()] == []
    table = guide.split("| parameter | default | what |")[1].split("\n\n")[0]
    first_cells = [row.split("|")[1] for row in table.splitlines() if "|" in row]
    documented = {name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)}
    parameters = set(re.findall(r"^param (\w+)", (ROOT / "infra" / "bicep" / "main.bicep").read_text(), re.MULTILINE))
    assert documented == parameters


@pytest.mark.parametrize(
    "path", sorted((ROOT / "infra" / "bicep" / "queries").glob("*.kql")), ids=lambda path: path.stem
)
def test_queries_ask_for_metrics_that_are_emitted(path: Path) -> None:
    """A saved query or an alert names metrics of the table, with attributes that they have, and a template loads it."""
    text, known = path.read_text(), {metric.name: set(metric.attributes) for metric in METRICS}
    named = set(re.findall(r"'(\w+_(?:total|seconds|depth|active|backlog))'", text))
    assert named <= known.keys()
    if named:
        attributes = set(re.findall(r"Properties\['([\w.]+)'\]", text))
        assert attributes <= set().union(*(known[name] for name in named))
    templates = "".join(each.read_text() for each in (ROOT / "infra" / "bicep" / "modules").glob("*.bicep"))
    assert f"queries/{path.name}'" in templates
