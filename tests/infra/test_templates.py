"""The templates as Microsoft's compiler evaluates them: no findings, and each rule notices its fault."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.topology import config
from infra.checks import committed, every, private_links, refusals, roles, snapshots
from infra.checks.__main__ import check
from infra.checks.compiler import SUBSCRIPTION, VERSION, Compiler, find
from infra.checks.finding import CheckFailed
from infra.checks.snapshots import Resource, Snapshot
from shared import setting_values
from tests.infra.company import GROUPS, NETWORK, WORKSPACE, ZONES
from tests.jobs import ROOT

SITE, CONFIG = "Microsoft.Web/sites", "Microsoft.Web/sites/config"
PRIVATE_ZONES = "Microsoft.Network/privateDnsZones"
ROLE = "Microsoft.Authorization/roleAssignments"
#: the right to the vault itself, not to its key
SECRETS_USER = roles.BUILT_IN["Key Vault Secrets User"]
#: answers `bicep/version`, and ends at the next request
_STUB = """#!{python} -S
import json, sys
sys.stdin.buffer.readline(), sys.stdin.buffer.readline()
answer = json.dumps({{"jsonrpc": "2.0", "id": 1, "result": {{"version": "{version}"}}}})
sys.stdout.write(f"Content-Length: {{len(answer)}}\\r\\n\\r\\n{{answer}}")
"""


def changed(snapshot: Snapshot, kind: str, change: Callable[[dict[str, Any]], None], among: str = "") -> Snapshot:
    """Returns the snapshot with a changed first resource of the type, of those whose content has the text `among`."""
    resources = list(snapshot.resources)
    [index, *_] = [n for n, each in enumerate(resources) if each.type == kind and among in json.dumps(each.content)]
    content = json.loads(json.dumps(resources[index].content))
    change(content)
    resources[index] = Resource(kind, content["name"], content)
    return replace(snapshot, resources=tuple(resources))


@pytest.mark.needs("bicep")
def test_the_repository_passes(compiler: Compiler, evaluated: dict[str, Snapshot]) -> None:
    """Neither the compiler nor a rule finds anything, and the committed snapshots match the deployments.

    Over 5 s: the compiler reads every template and evaluates the three parameter files.
    """
    assert [str(each) for each in every.compiled(compiler, ROOT)] == []
    assert {str(each) for one in evaluated.values() for each in every.check_snapshot(ROOT, one)} == set()
    assert committed.check(ROOT, list(evaluated.values())) == []


def test_the_snapshots_can_be_reviewed() -> None:
    """No more than 240 kB, a JSON document each."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / committed.FOLDER).iterdir()]
    assert sum(map(len, texts)) < 240_000
    assert all(json.loads(text) for text in texts)


@pytest.mark.needs("bicep")
def test_a_changed_template_shows_in_its_snapshot(evaluated: dict[str, Snapshot], tmp_path: Path) -> None:
    """One that is out of date, missing, or of no parameter file; `--write` cures each."""
    (tmp_path / "infra" / "bicep").mkdir(parents=True)
    dev = evaluated["dev"]
    committed.write(tmp_path, [dev])
    assert committed.check(tmp_path, [dev]) == []
    other = changed(dev, SITE, lambda content: content["properties"].update(httpsOnly=False))
    assert [each.path.name for each in committed.check(tmp_path, [other])] == ["dev.json"]
    assert {each.path.name for each in committed.check(tmp_path, [evaluated["prod"]])} == {"dev.json", "prod.json"}
    committed.write(tmp_path, [evaluated["prod"]])
    assert committed.check(tmp_path, [evaluated["prod"]]) == []


@pytest.mark.needs("bicep")
@pytest.mark.parametrize(
    ("site", "sku", "found"),
    [
        ({}, "FC1", []),
        ({"ftpsState": None}, "FC1", ["siteConfig.ftpsState: Flex Consumption refuses this property; remove it"]),
        ({"ftpsState": "Disabled"}, "EP1", []),
    ],
)
def test_what_flex_refuses_is_left_out(
    evaluated: dict[str, Snapshot], site: dict[str, Any], sku: str, found: list[str]
) -> None:
    """Also null, which counts as sent; Elastic Premium accepts it."""
    dev = changed(evaluated["dev"], SITE, lambda content: content["properties"]["siteConfig"].update(site))
    dev = changed(dev, "Microsoft.Web/serverfarms", lambda content: content["sku"].update(name=sku))
    assert [each.text.partition(": ")[2] for each in refusals.check(dev)] == found


@pytest.mark.needs("bicep")
@pytest.mark.parametrize(
    ("among", "member", "value", "text"),
    [
        (
            SECRETS_USER,
            "roleDefinitionId",
            roles.BUILT_IN["Storage Blob Data Owner"],
            "app as Storage Blob Data Owner at kv",
        ),
        (SECRETS_USER, "roleDefinitionId", "8e3af657-a8ff-443c-a75c-2fe8c4bcb635", "is not in"),
        (SECRETS_USER, "principalId", "smoke", "smoke as Key Vault Secrets User at kv: infra/checks"),
        (
            "p3/subscriptions/ocr",
            "principalId",
            "operator",
            "ocr as Azure Service Bus Data Receiver at sbns/global-bus-p*/ocr: is given 15",
        ),
    ],
)
def test_every_right_is_in_the_table(
    evaluated: dict[str, Snapshot], among: str, member: str, value: str, text: str
) -> None:
    """Another role, another principal, and one lane of sixteen that is left out."""
    prod = changed(evaluated["prod"], ROLE, lambda content: content["properties"].update({member: value}), among)
    assert any(text in each.text for each in roles.check(ROOT, prod)), roles.check(ROOT, prod)


@pytest.mark.needs("bicep")
def test_a_role_at_the_resource_group_is_found(evaluated: dict[str, Snapshot]) -> None:
    """It would include later resources too."""

    def widen(content: dict[str, Any]) -> None:
        content["id"] = re.sub(r"/providers/Microsoft.KeyVault/vaults/[\w-]+", "", content["id"])

    prod = changed(evaluated["prod"], ROLE, widen, SECRETS_USER)
    assert any("app as Key Vault Secrets User at resource group" in each.text for each in roles.check(ROOT, prod))


@pytest.mark.needs("bicep")
def test_the_delegation_follows_the_plan(evaluated: dict[str, Snapshot]) -> None:
    """Elastic Premium's subnet belongs to Microsoft.Web."""
    prod = changed(evaluated["prod"], "Microsoft.Web/serverfarms", lambda content: content["sku"].update(name="EP1"))
    assert ["Microsoft.Web/serverFarms" in each.text for each in private_links.check(prod)] == [True]


@pytest.mark.needs("bicep")
def test_one_more_step_type_passes(compiler: Compiler, tmp_path: Path) -> None:
    """A service in topology.json is all that the templates need (CONTRIBUTING.md, Add a step type)."""
    shutil.copytree(ROOT / "infra", tmp_path / "infra")
    shutil.copytree(ROOT / "protocols", tmp_path / "protocols")
    file = tmp_path / "infra" / "bicep" / "topology.json"
    topology = json.loads(file.read_text())
    topology["services"].append({"name": "translation", "stepType": "TRANSLATION"})
    file.write_text(json.dumps(topology))
    (tmp_path / "infra" / "bus" / "Config.json").write_text(json.dumps(config(topology)))
    dev = snapshots.take(compiler, tmp_path / "infra" / "bicep" / "dev.bicepparam")
    assert any(each.name.endswith("/global-bus-p0/translation") for each in dev.resources)
    assert every.check_snapshot(tmp_path, dev) == []


@pytest.mark.needs("bicep")
def test_a_companys_own_resources_take_the_place_of_ours(compiler: Compiler, tmp_path: Path) -> None:
    """Of network, zones, workspace, registry and resource group none is created; every rule holds as before."""
    registry = f"{GROUPS}/rg-images/providers/Microsoft.ContainerRegistry/registries/crlucius0123456789abc"
    own = {
        "APP_SUBNET_ID": f"{NETWORK}/subnets/snet-lucius-app",
        "ENDPOINT_SUBNET_ID": f"{NETWORK}/subnets/snet-lucius-endpoints",
        "CONTAINER_SUBNET_ID": f"{NETWORK}/subnets/snet-lucius-containers",
        "PRIVATE_DNS_ZONES": ZONES,
        "WORKSPACE_ID": WORKSPACE,
        "REGISTRY_ID": registry,
        "RESOURCE_GROUP": "rg-lucius-company",
    }
    own = {name: value.replace("/sub-1/", f"/{SUBSCRIPTION}/") for name, value in own.items()}
    bicep = ROOT / "infra" / "bicep"
    text = (bicep / "prod.bicepparam").read_text()
    for name, value in own.items():
        text = text.replace(f"readEnvironmentVariable('LUCIUS_{name}', '')", f"'{value}'")
    file = tmp_path / "prod.bicepparam"
    file.write_text(text.replace("'main.bicep'", f"'{Path(os.path.relpath(bicep, tmp_path)).as_posix()}/main.bicep'"))
    company = snapshots.take(compiler, file)
    assert every.check_snapshot(ROOT, company) == []
    made = {each.type for each in company.resources}
    ours = {"Microsoft.ContainerRegistry/registries", "Microsoft.OperationalInsights/workspaces"}
    ours |= {"Microsoft.Insights/privateLinkScopes", "Microsoft.Resources/resourceGroups"}
    assert not [each for each in made if each in ours or each.startswith(("Microsoft.Network/virtual", PRIVATE_ZONES))]
    subnets = {each.get("properties.subnet.id") for each in company.of("Microsoft.Network/privateEndpoints")}
    assert subnets == {own["ENDPOINT_SUBNET_ID"]}
    (app,) = company.of(SITE)
    (environment,) = company.of("Microsoft.App/managedEnvironments")
    assert app.get("properties.virtualNetworkSubnetId") == own["APP_SUBNET_ID"]
    assert environment.get("properties.vnetConfiguration.infrastructureSubnetId") == own["CONTAINER_SUBNET_ID"]
    (component,) = company.of("Microsoft.Insights/components")
    assert component.get("properties.WorkspaceResourceId") == own["WORKSPACE_ID"]
    # a service that the topology lacks
    file.write_text(file.read_text().replace("'LUCIUS_PLATFORM_SERVICES', 'all'", "'NOT_SET', 'ocr,orc'"))
    with pytest.raises(CheckFailed, match="platformServices names orc, not found in topology"):
        snapshots.take(compiler, file)
    file.write_text(file.read_text().replace("'NOT_SET', 'ocr,orc'", "'NOT_SET', 'ocr'"))
    # a policy writes the records
    file.write_text(file.read_text().replace(f"'{own['PRIVATE_DNS_ZONES']}'", "'none'"))
    assert not snapshots.take(compiler, file).of("Microsoft.Network/privateEndpoints/privateDnsZoneGroups")


@pytest.mark.needs("bicep")
def test_reply_topics_forward_before_the_app_changes_and_stop_after_it(compiler: Compiler) -> None:
    """The other order would leave replies in topics that nothing reads while timeouts run (decision 69)."""
    modules = compiler.template(ROOT / "infra" / "bicep" / "main.bicep")["resources"]
    assert "forwardedReplies" in modules["compute"]["dependsOn"]
    assert "compute" in modules["laneReplies"]["dependsOn"]
    conditions = {name: modules[name]["condition"] for name in ("forwardedReplies", "laneReplies")}
    assert conditions == {
        "forwardedReplies": "[equals(parameters('replies'), 'Shared')]",
        "laneReplies": "[equals(parameters('replies'), 'Lanes')]",
    }


@pytest.mark.needs("bicep")
def test_lanes_have_the_same_subscriptions_and_do_not_forward(compiler: Compiler, tmp_path: Path) -> None:
    """No rule finds anything in a deployment with `Lanes`, which no parameter file uses."""
    shutil.copytree(ROOT / "infra", tmp_path / "infra")
    file = tmp_path / "infra" / "bicep" / "minimal.bicepparam"
    file.write_text(f"{file.read_text()}\nparam replies = 'Lanes'\n")
    lanes = snapshots.take(compiler, file)
    assert [str(each) for each in every.check_snapshot(tmp_path, lanes)] == []
    subscriptions = lanes.of("Microsoft.ServiceBus/namespaces/topics/subscriptions")
    assert {each.get("properties.forwardTo") for each in subscriptions} == {None}


@pytest.mark.needs("bicep")
def test_parameters_with_which_the_app_would_not_start_stop_the_deployment(compiler: Compiler, tmp_path: Path) -> None:
    """A wrong share of traces, and heads without events. The template takes no share that the app refuses."""
    shutil.copytree(ROOT / "infra", tmp_path / "infra")
    bicep = tmp_path / "infra" / "bicep"
    shares = ["0", "1", "0.1", "0.125", "0.0", "1.0"]
    others = ["0.", "1.", "1.1", "1.01", "10", "2", "-0.1", ".5", "0,1", "00.1", "0.1x", "0.1.2", "10%", "ten"]
    for text in shares:
        assert 0 <= setting_values.share(text) <= 1
    (bicep / "shares.bicep").write_text(
        "targetScope = 'subscription'\nimport { isShare } from 'modules/app-settings.bicep'\nparam texts string[]\n"
        "resource group 'Microsoft.Resources/resourceGroups@2025-04-01' = {\n  name: 'shares'\n  location: 'global'\n"
        "  tags: toObject(texts, text => text, text => string(isShare(text)))\n}\n"
    )
    file = bicep / "shares.bicepparam"
    file.write_text(f"using 'shares.bicep'\nparam texts = {(shares + others)!r}\n")
    (group,) = snapshots.take(compiler, file).resources
    assert [text for text, is_share in group.get("tags").items() if is_share == "True"] == shares
    minimal = bicep / "minimal.bicepparam"
    known = minimal.read_text()
    minimal.write_text(f"{known}\nparam traceRatio = '1.1'\n")
    with pytest.raises(CheckFailed, match=r"traceRatio is 1\.1, not a number from 0 to 1"):
        snapshots.take(compiler, minimal)
    # with both, the app would not start
    signing = re.sub(r"^param signHeads = .*$", "param signHeads = true", known, flags=re.MULTILINE)
    minimal.write_text(f"{signing}\nparam tuning = {{ LUCIUS_EVENTS: 'off' }}\n")
    with pytest.raises(CheckFailed, match="signHeads requires events"):
        snapshots.take(compiler, minimal)


def test_settings_are_read_of_the_expression() -> None:
    """Those of a condition too, which only a deployment can decide; commas and brackets in texts part nothing."""
    text = "[union(createObject('A', 'x, y', 'B', f(1, 2)), if(empty(z), createObject(), createObject('C', '(')))]"
    assert snapshots.settings(text) == {"A": "'x, y'", "B": "f(1, 2)", "C": "'('"}
    assert snapshots.settings({"A": "x"}) == {"A": "x"}


def stub(folder: Path, version: str) -> Path:
    """Returns a program that reports this version of the compiler."""
    program = folder / "bicep"
    program.write_text(_STUB.format(python=sys.executable, version=version))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_the_compiler_is_that_of_bicep_or_path(tmp_path: Path) -> None:
    """`$BICEP` first; None where neither leads to a program."""
    ours = stub(tmp_path, VERSION)
    assert find({"BICEP": str(ours), "PATH": ""}) == str(ours)
    assert find({"PATH": str(tmp_path)}) == str(ours)
    assert find({"BICEP": str(tmp_path / "none"), "PATH": str(tmp_path)}) is None
    assert find({"PATH": "/nowhere"}) is None


@pytest.mark.parametrize(
    ("version", "line"), [("0.46.1", f"version 0.46.1, not {VERSION}"), (None, "is not a program")]
)
def test_the_command_ends_with_one_line(tmp_path: Path, version: str | None, line: str) -> None:
    """Another version, and an invalid BICEP: one line with the remedy, exit code 1."""
    program = stub(tmp_path, version) if version else tmp_path / "none"
    done = subprocess.run(
        [sys.executable, "-m", "infra.checks"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "BICEP": str(program)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert line in done.stderr
    assert "az bicep install" in done.stderr


def test_a_compiler_that_ends_is_one_line(tmp_path: Path) -> None:
    with (
        Compiler(str(stub(tmp_path, VERSION))) as compiler,
        pytest.raises(CheckFailed, match="no valid response to compile"),
    ):
        compiler.check(ROOT / "infra" / "bicep" / "main.bicep")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """A file has its path."""
    (tmp_path / "infra" / "bicep").mkdir(parents=True)
    (tmp_path / committed.FOLDER).touch()
    with pytest.raises(CheckFailed, match="snapshots: cannot be written"):
        committed.write(tmp_path, [])


@pytest.mark.needs("bicep")
def test_a_broken_template_has_no_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: Compiler) -> None:
    """The compiler's diagnostics are reported alone, with file, line and code, and nothing is written."""
    shutil.copytree(ROOT / "infra" / "bicep", tmp_path / "infra" / "bicep")
    broken = tmp_path / "infra" / "bicep" / "modules" / "budget.bicep"
    broken.write_text(broken.read_text().replace("amount: amount", "amount amount"))
    monkeypatch.setattr("infra.checks.__main__.every.check_files", lambda root: [])
    monkeypatch.setattr("infra.checks.__main__.every.templates", lambda root: [broken])
    monkeypatch.setattr("infra.checks.__main__.Compiler", lambda: _Shared(compiler))
    before = (tmp_path / committed.FOLDER / "dev.json").stat().st_mtime_ns
    found = check(tmp_path, write=True)
    assert "BCP018" in {each.rule for each in found}
    assert {(each.path, each.line > 0) for each in found} == {(broken, True)}
    assert (tmp_path / committed.FOLDER / "dev.json").stat().st_mtime_ns == before


class _Shared:
    """The process of the session in a `with` statement that does not end it."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler

    def __enter__(self) -> Compiler:
        return self._compiler

    def __exit__(self, *error: object) -> None:
        pass
