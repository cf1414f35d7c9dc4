"""The guides of deployments, run from an empty subscription to its removal, with their commands verbatim."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.document_commands import block
from tests.infra.company import company
from tests.infra.walk import COMMIT, Walk
from tests.jobs import ROOT

#: in the order in which they are walked
PAGES = [
    ROOT / "docs" / "guides" / f"{name}.md"
    for name in (
        *("deploy", "platform-services-in-azure", "identities", "optional-features", "secrets", "pipelines"),
        "own-resources",
    )
]
GUIDE = PAGES[0]
#: commands for environments of GitHub, by the ends of their names, in the shell that created their identity
KINDS = {"deploying identity": "", "smoke identity": "-smoke", "what-if identity": "-what-if"}


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    with Walk.begun(tmp_path) as walk:
        yield walk


def commands(step: str, of: str = "dev") -> str:
    """A block of the guide; those of an environment of GitHub begin with its identity."""
    page = next(page for page in PAGES if f"<!-- tested: {step} -->" in page.read_text())
    text = block(page, step)
    if step in KINDS:
        text = block(page, "identity").replace("environment=dev", f"environment={of}{KINDS[step]}") + text
    return text.replace("OWNER/REPO", "owner/repo")


def test_every_step_of_the_guide_is_walked(walk: Walk) -> None:
    """From `azd up` to the first SUCCEEDED job, callbacks, rotation, pipelines, and back to an empty subscription."""
    # it packages and builds this repository
    (walk.bin / "python3").unlink()
    steps = [step for page in PAGES for step in re.findall(r"<!-- tested: (.*) -->", page.read_text())]
    assert steps[:3] == ["up", "roles", "smoke"]
    assert steps.index("remove") < steps.index("callbacks") < steps.index("rotation")
    # with those of its kind; a company's network is another walk
    steps = [step for step in steps if step not in ("identity", "own network")]
    audiences: dict[str, str] = {}
    # the guide removes it before it comes to pipelines
    for step in [*(each for each in steps if not each.startswith("remove")), "remove", "remove stack"]:
        known = {**walk.state()["azd"], "AZURE_SUBSCRIPTION_ID": "sub-1", "SUBMITTER": "a-client", "REVIEWER": "7"}
        known = {name: value for name, value in known.items() if not (step == "up" and name.startswith("AZURE"))}
        for name in ("dev", "prod") if step in KINDS else ("dev",):
            deletes = {"LUCIUS_DELETE": "dev"} if step == "remove" else {}
            done = walk.run(commands(step, name), AUDIENCE=audiences.get(name, ""), **known, **deletes)
            assert done.code == 0, (step, done.error)
            assert not [line for line in done.error.splitlines() if "ERROR" in line], step
        if step == "smoke":
            assert "SUCCEEDED: ocr SUCCEEDED, embedding SUCCEEDED, sis SUCCEEDED" in done.output
        if step == "rotation ends":
            keys = {name: value.split(",") for name, value in walk.state()["vaults"][0]["secrets"].items()}
            assert [(name, len(value)) for name, value in keys.items()] == [("lucius-callback-keys", 1)]
        if step == "registration":
            audiences = {"dev": known["LUCIUS_AUTH_AUDIENCE"], "prod": done.output.strip()}
    state = walk.state()
    # each smoke test can call the API of its own environment
    named = {app["displayName"]: f"principal-of-{app['appId']}" for app in state["apps"]}
    for name, audience in audiences.items():
        smoke = named[f"lucius-github-{name}-smoke"]
        assert {each["resourceId"] for each in state["grants"] if each["principalId"] == smoke} == {
            f"principal-of-{audience}"
        }
    assert state["code"] == COMMIT
    # deployers: the guide's own check has read these
    assert sorted(state["environments"]) == [
        f"{name}{kind}" for name in ("dev", "prod") for kind in ("", "-smoke", "-what-if")
    ]
    # and each has an identity
    subjects = re.findall(r'"repo:owner/repo:environment:([\w-]+)"', "\n".join(state["asked"]))
    assert sorted(subjects) == sorted(state["environments"])
    assert state["deployed"] is None
    # azd's own resources are deleted; those of the guide's manual commands stay
    pipelines = [f"lucius-github-{name}" for name in sorted(state["environments"])]
    assert sorted(app["displayName"] for app in state["apps"]) == [*pipelines, "lucius-prod"]


def test_a_companys_prepared_network_reaches_the_first_job(walk: Walk) -> None:
    """Its subnets, zones, workspace and group, all prepared; its group and all in it stay when the rest is removed."""
    (walk.bin / "python3").unlink()
    azd = walk.checkout / "azure.yaml"
    azd.unlink()
    azd.write_text((ROOT / "azure.yaml").read_text().replace("module: dev", "module: prod"))
    walk.know(resources=company(), groups=["rg-lucius-company"], flex_zones=["westeurope"])
    known = {"AZURE_SUBSCRIPTION_ID": "sub-1"}
    for step in ("azd env new prod", commands("own network"), "azd deploy", commands("roles"), commands("smoke")):
        done = walk.run(step, **known)
        known = {**walk.state()["azd"], "AZURE_SUBSCRIPTION_ID": "sub-1"}
        assert done.code == 0, (step, done.error)
    assert "SUCCEEDED" in done.output
    assert walk.state()["deployed"]["group"] == "rg-lucius-company"
    assert "is yours" in walk.run("azd down", LUCIUS_DELETE="prod", **known).error
    assert walk.state()["deployed"] is not None


def test_the_ledger_goes_when_its_environment_is_named(walk: Walk) -> None:
    """It lists deleted and remaining resources; another answer, or none, deletes nothing."""
    walk.run(block(GUIDE, "up"))
    known = walk.state()["azd"]
    for answer in ("printf 'yes\\n' | azd down", "azd down </dev/null"):
        refused = walk.run(answer, **known)
        assert refused.code != 0
        assert "the ledger in stled: every job" in refused.error
        assert "nothing was deleted" in refused.error
        assert walk.state()["deployed"] is not None
    assert walk.run("echo dev | azd down", **known).code == 0
    assert walk.state()["deployed"] is None


def test_a_second_deployment_and_a_later_month_go_through(walk: Walk) -> None:
    """Azure refuses a saved search without an etag, and another start of a budget."""
    walk.run(block(GUIDE, "up"))
    walk.run("azd env set LUCIUS_MONTHLY_BUDGET 100; azd env set LUCIUS_MONTHLY_BUDGET_START 2026-11-01")
    for month in ("2026-11", "2026-11", "2026-12"):
        walk.know(month=month)
        done = walk.run("azd provision", **walk.state()["azd"])
        assert (done.code, done.error) == (0, ""), month
        assert walk.state()["deployed"]["budget"] is not None


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "text"),
    [
        ("modules/insights.bicep", r"\n *(?:#disable-next-line BCP037\n *)?etag: '\*'", "", "(Conflict)"),
        ("modules/budget.bicep", r"startDate: \S+", "startDate: utcNow('yyyy-MM-01')", "Start date of budgets"),
    ],
)
def test_the_stand_in_refuses_as_azure_does(walk: Walk, file: str, pattern: str, replacement: str, text: str) -> None:
    """The same templates without the etag, or with a budget that begins in the month of the deployment."""
    bicep = walk.own("infra/bicep")
    (bicep / file).write_text(re.sub(pattern, replacement, (bicep / file).read_text()))
    walk.run(block(GUIDE, "up"))
    walk.run("azd env set LUCIUS_MONTHLY_BUDGET 100")
    values = walk.state()["azd"]
    walk.know(deployed={"budget": "2026-10" if "budget" in file else None})
    assert text in walk.run("azd provision", **values).error


@pytest.mark.parametrize(
    ("denied", "text"),
    [("register apps", "get Application Developer"), ("deploy", "AuthorizationFailed")],
)
def test_a_missing_permission_stops_with_one_line(walk: Walk, denied: str, text: str) -> None:
    walk.know(denied=[denied])
    done = walk.run(block(GUIDE, "up"))
    assert text in done.refusal
    assert walk.state()["deployed"] is None


def test_an_environment_is_removed_twice(walk: Walk) -> None:
    """Its removal ignores resources that are deleted already."""
    walk.run(block(GUIDE, "up"))
    for _ in range(2):
        assert walk.run(block(GUIDE, "remove"), LUCIUS_DELETE="dev", **walk.state()["azd"]).code == 0
        assert walk.state()["apps"] == []


def test_a_condition_leaves_the_roles_of_the_template(walk: Walk) -> None:
    """The guide's condition names each of them; a new role requires an update of the condition."""
    walk.run(commands("deploying identity"), AZURE_SUBSCRIPTION_ID="sub-1")
    modules = walk.own("infra/bicep") / "modules"
    text = (modules / "roles.bicep").read_text()
    named = re.findall(r"'([0-9a-f-]{36})'", text)
    assert walk.state()["assignable"] == named
    assert walk.run(block(GUIDE, "up")).code == 0
    (modules / "roles.bicep").write_text(f"{text}\nvar owner = '8e3af657-a8ff-443c-a75c-2fe8c4bcb635'\n")
    assert "AuthorizationFailed" in walk.run("azd provision", **walk.state()["azd"]).error
