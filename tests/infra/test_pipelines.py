"""The pipelines: their rights, dependencies and refusals, run from the text of the workflows."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.checks import compiler
from scripts import github_environments, kept_package
from tests.infra.walk import COMMIT, Walk
from tests.infra.workflows import FOLDER, command, load, signs_in, waits_for
from tests.jobs import ROOT

VALUES = {
    "vars.AZURE_SUBSCRIPTION_ID": "sub-1",
    "vars.AZURE_LOCATION": "westeurope",
    "vars.LUCIUS_AUTH_AUDIENCE": "audience",
    "vars.LUCIUS_SMOKE_PRINCIPAL_ID": "principal-of-smoke",
    "matrix.environment": "dev",
    "needs.template.outputs.group": "rg-lucius-dev",
    "needs.template.outputs.app": "func-lucius",
}
_TAGS = {"application": "lucius", "environment": "dev"}
#: with the keys of callbacks alone
VAULT = {"id": "/vaults/kv-1", "name": "kv-1", "tags": _TAGS, "secrets": {"lucius-callback-keys": "k1:key"}}
#: with the keys of webhooks alone
HOOK_VAULT = {"id": "/vaults/kv-2", "name": "kv-2", "tags": _TAGS, "secrets": {"lucius-webhook-keys": "k1:key"}}


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    """Signed in by azure/login: `sub-1` is az's default."""
    with Walk.begun(tmp_path) as walk:
        walk.environment["AZURE_ENV_NAME"] = "dev"
        yield walk


def run(walk: Walk, workflow: str, job: str, step: str, **values: str) -> Any:
    text, environment = command(load(workflow)["jobs"][job], step, {**VALUES, **values})
    return walk.run(text, **environment)


def deploy(walk: Walk, **values: str) -> Any:
    return run(walk, "deploy", "template", "Deployment stack", **values)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_are_pinned_and_may_little(path: Path) -> None:
    """Actions by commit, no credential, read-only by default; a token for Azure only in jobs that sign in."""
    text, workflow = path.read_text(), yaml.safe_load(path.read_text())
    uses = re.findall(r"uses: (?!\./)(\S+)(.*)", text)
    assert [use for use, _ in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", use)] == []
    assert all(re.search(r"# v\d+\.\d+\.\d+$", comment) for _, comment in uses)
    # keys are in the vault, and no identity signs in with a secret
    assert re.findall(r"secrets\.\w+", text) == []
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job.get("permissions", {}).get("id-token") == ("write" if signs_in(job) else None)
        # external values reach a shell through the environment only
        assert not [step for step in job.get("steps", []) if "${{" in step.get("run", "")]


def test_nothing_is_deployed_that_is_not_tested() -> None:
    """A job that signs in waits for tests, and for checks of templates and environments; it stops where one fails."""
    workflow = load("deploy")
    for name, job in workflow["jobs"].items():
        if name not in ("environments", "test", "validate"):
            assert waits_for(workflow, name) >= {"environments", "test", "validate"}, name
            # jobs that are left out for a kept package may not leave out these
            assert job["if"] == "${{ !cancelled() && !failure() }}"
    called = {name: workflow["jobs"][name]["uses"] for name in ("test", "validate")}
    assert called == {name: f"./.github/workflows/{name}.yml" for name in called}
    assert all("workflow_call" in load(name)["on"] for name in called)
    assert [name for name, job in workflow["jobs"].items() if signs_in(job)] == ["template", "code", "smoke"]


def test_the_smoke_test_signs_in_as_somebody_else() -> None:
    """GitHub names the environment in the token, so the packages of its job get none that may deploy."""
    jobs = load("deploy")["jobs"]
    deploys = {jobs[name]["environment"] for name in ("template", "code")}
    assert deploys == {"${{ inputs.environment || 'dev' }}"}
    assert jobs["smoke"]["environment"] == "${{ inputs.environment || 'dev' }}-smoke"
    (login,) = [step["with"] for step in jobs["smoke"]["steps"] if "azure/login@" in step.get("uses", "")]
    assert "subscription-id" not in login


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yml")), ids=lambda path: path.stem)
def test_nothing_unknown_is_installed_next_to_a_token(path: Path) -> None:
    """A malicious package could request the token of its job from GitHub: there, only packages with a hash are
    installed.
    """
    for job in filter(signs_in, load(path.stem)["jobs"].values()):
        for line in "\n".join(step.get("run", "") for step in job["steps"]).splitlines():
            assert not re.search(r"\b(make|npm|npx|uv|apt-get|curl) ", line), line
            assert "pip install" not in line or "pip install --require-hashes -r" in line
    # Microsoft's own compiler has no hash to give; it is the one that judges the templates
    versions = re.findall(r"az bicep install(?: --version (v[\d.]+))?", path.read_text())
    assert set(versions) <= {f"v{compiler.VERSION}"}


def test_a_package_is_kept_of_each_commit_and_deployed_again() -> None:
    """A rollback uses the tested package, and neither tests, builds nor deploys a template."""
    jobs = load("deploy")["jobs"]
    (kept,) = [step["with"] for step in jobs["package"]["steps"] if "upload-artifact@" in step.get("uses", "")]
    (taken,) = [step["with"] for step in jobs["code"]["steps"] if "download-artifact@" in step.get("uses", "")]
    assert (
        kept["name"] == taken["name"] == "package-${{ inputs.environment || 'dev' }}-${{ inputs.commit || github.sha }}"
    )
    assert kept["retention-days"] == 90
    left_out = {"${{ !inputs.commit }}"}
    assert {jobs[name]["if"] for name in ("test", "validate")} == left_out
    steps = [step for job in ("package", "template") for step in jobs[job]["steps"]]
    for script in ("scripts/package.py", "infra/pipelines/deploy_stack.sh"):
        assert {step["if"] for step in steps if script in step.get("run", "")} == left_out


@pytest.mark.parametrize("name", ["deploy", "what-if"])
def test_workflows_name_files_that_exist(name: str) -> None:
    text = (FOLDER / f"{name}.yml").read_text()
    named = set(re.findall(r"(?:infra|scripts)/[\w./-]+\.(?:sh|py)", text))
    assert named
    assert [path for path in named if not (ROOT / path).is_file()] == []
    environments = load("deploy")["on"]["workflow_dispatch"]["inputs"]["environment"]["options"]
    assert [each for each in environments if not (ROOT / "infra" / "bicep" / f"{each}.bicepparam").is_file()] == []


@pytest.mark.parametrize(
    ("workflow", "job", "step"),
    [("deploy", "template", "Deployment stack"), ("what-if", "what-if", "Preview")],
)
def test_what_parameter_files_read_is_given(workflow: str, job: str, step: str) -> None:
    """Each name of the environment, and no empty text where a parameter file has a default that is not empty."""
    _, given = command(load(workflow)["jobs"][job], step, VALUES)
    for name in ("dev", "prod"):
        text = (ROOT / "infra" / "bicep" / f"{name}.bicepparam").read_text()
        read = dict(re.findall(r"readEnvironmentVariable\('(\w+)', '(.*?)'\)", text))
        # the deployer is the operator; deploy_stack.sh reads the content of the vault
        own = {"AZURE_ENV_NAME", "AZURE_PRINCIPAL_ID", "LUCIUS_KEYS"}
        assert read.keys() - own <= given.keys()
        assert [each for each in read.keys() - own if read[each] and not given[each]] == []


def test_a_stack_is_deployed_and_put_out(walk: Walk) -> None:
    """With the providers that it needs, and never with the right to delete."""
    done = deploy(walk)
    assert (done.code, done.error) == (0, "")
    assert "create\t/storage" in done.output
    assert [line for line in done.asked if "provider register" in line]
    assert "--action-on-unmanage detachAll" in next(
        line for line in done.asked if line.startswith("az stack sub create")
    )
    put_out = walk.checkout / "put-out"
    text, _ = command(load("deploy")["jobs"]["template"], "Outputs of the stack", VALUES)
    assert walk.run(text, GITHUB_OUTPUT=str(put_out)).code == 0
    assert "LUCIUS_FUNCTION_APP=func-lucius\n" in put_out.read_text()
    walk.know(stack=None)
    assert walk.run(text, GITHUB_OUTPUT=str(put_out)).code == 1


@pytest.mark.parametrize(
    ("known", "values", "text"),
    [
        ({"left_out": ["/topic-1", "/topic-2"]}, {}, "2 resources would be deleted"),
        ({"denied": ["changes"]}, {}, "so deletions cannot be checked"),
        ({"vaults": [VAULT]}, {}, "kv-1 has keys of callbacks, but LUCIUS_CALLBACKS is not true"),
        ({"vaults": [HOOK_VAULT]}, {}, "kv-2 has keys of webhooks, but LUCIUS_WEBHOOKS is not true"),
        ({}, {"vars.LUCIUS_PLATFORM_SERVICES": "orc"}, "topology.json does not have"),
        ({"az": "2.76.0"}, {}, "az 2.76.0 is older than 2.89.0"),
        ({"denied": ["deploy"]}, {}, "AuthorizationFailed"),
        ({}, {"vars.AZURE_LOCATION": "uksouth"}, "does not offer Flex Consumption"),
        ({}, {"vars.LUCIUS_SMOKE_PRINCIPAL_ID": ""}, "LUCIUS_SMOKE_PRINCIPAL_ID is not set"),
    ],
)
def test_a_stack_is_refused_before_it_changes_anything(
    walk: Walk, known: dict[str, Any], values: dict[str, str], text: str
) -> None:
    """A deletion, the loss of the vault, an old az, a missing right, a wrong region: one line, nothing deployed."""
    walk.know(**known)
    done = deploy(walk, **values)
    assert text in done.refusal
    assert walk.state()["stack"] is None
    for each in known.get("left_out", []):
        assert f"delete\t{each}\n" in done.output


def test_a_deletion_that_is_meant_is_shown_and_made(walk: Walk) -> None:
    walk.know(left_out=["/topic-1"])
    done = deploy(walk, **{"inputs.delete": "true"})
    assert done.code == 0
    assert "delete\t/topic-1\n" in done.output
    assert walk.state()["stack"]["deleted"] == ["/topic-1"]


def test_the_keys_of_callbacks_keep_their_vault(walk: Walk) -> None:
    """Enabled again, the deployment continues; ended on purpose, too."""
    walk.know(vaults=[VAULT])
    assert deploy(walk, **{"vars.LUCIUS_CALLBACKS": "true"}).code == 0
    assert walk.state()["deployed"]["keys"] == ["callback"]
    assert walk.run("az keyvault secret delete --vault-name kv-1 --name lucius-callback-keys").code == 0
    assert deploy(walk).code == 0


def test_a_first_deployment_makes_places_and_a_second_fills_them(walk: Walk) -> None:
    """Registry and vault are there after the first; then the image is built and the key made, and it deploys again."""
    (walk.bin / "python3").unlink()
    done = deploy(walk, **{"vars.LUCIUS_CALLBACKS": "true"})
    assert done.code == 0, done.error
    assert len([line for line in done.asked if line.startswith("az stack sub create")]) == 2
    assert walk.state()["deployed"]["container_apps"] == ["ocr", "embedding", "sis", "packs"]
    assert walk.state()["deployed"]["keys"] == ["callback"]
    # a second one assigns no role, for any number of roles
    walk.know(role_assignments=3990)
    again = deploy(walk, **{"vars.LUCIUS_CALLBACKS": "true"})
    assert again.code == 0, again.error
    assert len([line for line in again.asked if line.startswith("az stack sub create")]) == 1


def test_what_if_runs_with_the_identity_of_the_guide(walk: Walk) -> None:
    """It can read and run what-if, not write."""
    walk.know(denied=["deploy"])
    summary = walk.checkout / "summary"
    text, environment = command(load("what-if")["jobs"]["what-if"], "Preview", VALUES)
    done = walk.run(text, **environment, GITHUB_STEP_SUMMARY=str(summary))
    assert (done.code, done.error) == (0, "")
    assert "Resource changes" in summary.read_text()


def test_a_kept_package_is_deployed(walk: Walk) -> None:
    """As it is, to the app of the stack that is there."""
    (walk.checkout / "released-package.zip").write_text("the package")
    assert run(walk, "deploy", "code", "Deploy the package").code == 0
    assert walk.state()["code"] == "the package"


def kept(run: int, **changes: Any) -> dict[str, Any]:
    of_main = {"id": run, "head_branch": "main", "head_sha": COMMIT, "repository_id": 1, "head_repository_id": 1}
    return {"name": f"package-dev-{COMMIT}", "expired": False, "workflow_run": {**of_main, **changes}}


def test_only_packages_of_main_are_taken() -> None:
    """Not one that a fork's or a branch's run keeps under that name, not one that has expired."""
    others = [
        kept(1, head_repository_id=2),
        kept(2, head_branch="try"),
        kept(3, head_sha="f" * 40),
        {**kept(4), "expired": True},
    ]
    assert kept_package.find({"artifacts": [*others, kept(5)]}, COMMIT) == 5
    assert kept_package.find({"artifacts": others}, COMMIT) is None


def test_the_kept_package_is_fetched(walk: Walk) -> None:
    """Or one line states the fault."""
    (walk.bin / "gh").write_text(
        """#!/bin/sh
case $1 in
  api) cat "$HOME/listing" 2>/dev/null ;;
  run) echo "$@" >"$HOME/downloaded" ;;
esac
"""
    )
    (walk.bin / "gh").chmod(0o755)
    listing = walk.folder / "listing"
    listing.write_text(json.dumps({"artifacts": [kept(7)]}))
    fetch = f"{sys.executable} scripts/kept_package.py"
    assert walk.run(f"{fetch} dev {COMMIT} .", GITHUB_REPOSITORY="owner/repo").code == 0
    expected = f"run download 7 --repo owner/repo --name package-dev-{COMMIT} --dir .\n"
    assert (walk.folder / "downloaded").read_text() == expected
    listing.write_text(json.dumps({"artifacts": []}))
    assert "package not found" in walk.run(f"{fetch} dev {COMMIT} .", GITHUB_REPOSITORY="owner/repo").refusal
    assert "all 40 hexadecimal digits" in walk.run(f"{fetch} dev 0123456 .", GITHUB_REPOSITORY="owner/repo").refusal
    listing.unlink()
    assert "gh cannot fetch" in walk.run(f"{fetch} dev {COMMIT} .", GITHUB_REPOSITORY="owner/repo").refusal
    assert "GITHUB_REPOSITORY is not set" in walk.run(f"{fetch} dev {COMMIT} .").refusal


ONLY_MAIN = {"deployment_branch_policy": {"protected_branches": False, "custom_branch_policies": True}}
MAIN = {"branch_policies": [{"id": 1, "name": "main", "type": "branch"}]}
REVIEWED = {**ONLY_MAIN, "protection_rules": [{"type": "branch_policy"}, {"type": "required_reviewers"}]}


@pytest.mark.parametrize(
    ("name", "environment", "policies", "sentence"),
    [
        ("dev", ONLY_MAIN, MAIN, None),
        ("prod", REVIEWED, MAIN, None),
        ("dev", {"deployment_branch_policy": None}, {}, "every branch"),
        (
            "dev",
            {"deployment_branch_policy": {"protected_branches": True, "custom_branch_policies": False}},
            {},
            "every protected branch",
        ),
        ("dev", ONLY_MAIN, {"branch_policies": []}, "allows no branch"),
        ("dev", ONLY_MAIN, {"branch_policies": [{"name": "ma*", "type": "branch"}]}, "allows branch ma*"),
        ("dev", ONLY_MAIN, {"branch_policies": [{"name": "main", "type": "tag"}]}, "allows tag main"),
        ("prod", ONLY_MAIN, MAIN, "no review is required"),
    ],
)
def test_only_main_may_deploy(
    name: str, environment: dict[str, Any], policies: dict[str, Any], sentence: str | None
) -> None:
    """GitHub allows every branch in an environment by default; prod also requires a reviewer."""
    found = github_environments.wrong(name, environment, policies)
    assert (found is None) if sentence is None else (found is not None and sentence in found)


def test_the_pipeline_stops_where_another_branch_may_deploy(walk: Walk) -> None:
    """Both environments of a deployment are read; one that allows too much, or is missing, is one line."""
    (walk.bin / "python3").unlink()
    (walk.bin / "python3").symlink_to(sys.executable)
    dev = {**ONLY_MAIN, "policies": MAIN["branch_policies"]}
    text, environment = command(load("deploy")["jobs"]["environments"], "Only main can deploy", VALUES)
    walk.know(environments={"dev": dev, "dev-smoke": dev})
    assert walk.run(text, **environment, GITHUB_REPOSITORY="owner/repo").code == 0
    assert "export GITHUB_REPOSITORY=" in walk.run(text, **environment).refusal
    for smoke, sentence in (({"deployment_branch_policy": None}, "every branch"), (None, "(HTTP 404)")):
        walk.know(environments={"dev": dev, **({"dev-smoke": smoke} if smoke else {})})
        refusal = walk.run(text, **environment, GITHUB_REPOSITORY="owner/repo").refusal
        assert "dev-smoke: " in refusal
        assert sentence in refusal
