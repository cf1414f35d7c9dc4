"""Roles: the ids that Azure gives them, and who has which where."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from infra.checks import roles
from infra.checks.finding import Finding
from infra.checks.template import parse, text
from tests.jobs import ROOT

BICEP = ROOT / "infra" / "bicep"
SENDER, RECEIVER = "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39", "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0"


def found(folder: Path) -> list[Finding]:
    return roles.check({path.resolve(): parse(path) for path in folder.rglob("*.bicep")})


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BICEP, tmp_path / "bicep"))


@pytest.mark.parametrize(("guid", "found"), [(SENDER, 0), (RECEIVER, 1), (SENDER.replace("6", "7"), 1)])
def test_roles_are_named_for_what_they_are(tmp_path: Path, guid: str, found: int) -> None:
    """A role's GUID under another role's name, and a GUID that is no role."""
    file = tmp_path / "roles.bicep"
    file.write_text(f"var roles = {{\n  serviceBusDataSender: '{guid}'\n}}\noutput roles object = roles\n")
    assert len(roles.check_ids(parse(file))) == found


@pytest.mark.parametrize(
    ("file", "was", "becomes", "sentence"),
    [
        # of a platform service: another role, another place, another holder, none
        (
            "platform-service-roles",
            "roleDefinitions', serviceBusDataSender)",
            "roleDefinitions', serviceBusDataReceiver)",
            "Sender",
        ),
        (
            "platform-service-roles",
            "scope: outputContainers[index]",
            "scope: documentsAccount",
            "at platform-service-roles documentsAccount",
        ),
        ("platform-service", "principalId: holder\n", "principalId: deployer().objectId\n", "deployer().objectId as"),
        (
            "platform-service-roles",
            "resource readerRoles 'Microsoft.Authorization/roleAssignments@",
            "resource readerRoles 'Microsoft.Authorization/locks@",
            "Reader at platform-service-roles inputContainers: is not given",
        ),
        # of the app, of whoever deploys, of the smoke test
        (
            "storage",
            "      }\n      {\n        principalId: appPrincipalId\n        role: storageBlobDataContributor\n",
            "",
            "app as Storage Blob Data Contributor at storage ledgerStorage: is not given",
        ),
        (
            "storage",
            "container: smokeContainer\n          principalId",
            "container: workspaceContainer\n          principalId",
            "tester as",
        ),
        (
            "../main",
            "role: appConfigurationDataReader",
            "role: appConfigurationDataOwner",
            "app as App Configuration Data Owner",
        ),
        (
            "../main",
            "roleAssignments: targetBasedScaling",
            "roleAssignments: !targetBasedScaling",
            "app as Azure Service Bus Data Owner",
        ),
        (
            "../main",
            "appPrincipalId: identity.outputs.principalId",
            "appPrincipalId: operator.principalId",
            "operator as Storage Blob Data Owner",
        ),
        ("../main", "= if (operatorRunsServices) {", "= {", "tester as platform-service"),
        # of a module that gives what it is asked to
        (
            "key-vault",
            "scope: vault\n    properties: {\n      principalId",
            "scope: resourceGroup()\n    properties: {\n      principalId",
            "at key-vault resourceGroup()",
        ),
        (
            "service-bus",
            "roleDefinitions', assignment.role)",
            "roleDefinitions', 'Owner')",
            "as Owner at service-bus namespace",
        ),
    ],
)
def test_every_right_is_in_the_table(copy: Path, file: str, was: str, becomes: str, sentence: str) -> None:
    """One that is added, taken away, exchanged, or given to somebody else or elsewhere."""
    path = copy / "modules" / f"{file}.bicep"
    assert was in path.read_text()
    path.write_text(path.read_text().replace(was, becomes))
    assert any(sentence in each.text for each in found(copy)), found(copy)


def test_nobody_owns_the_bus_unasked() -> None:
    """Neither the template nor a parameter file gives the app Azure Service Bus Data Owner silently."""
    default = parse(BICEP / "main.bicep").of_kind("parameter")["targetBasedScaling"].value
    assert default is not None
    chosen = [parse(path).of_kind("variable").get("targetBasedScaling") for path in BICEP.glob("*.bicepparam")]
    given = [each.value for each in chosen if each is not None]
    assert {text(each) for each in [default, *given] if each is not None} == {"false"}
