"""The hooks of azd, which touch only what they made, and stop with one line before anything is made."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.infra.company import NETWORK, WORKSPACE, ZONES, company
from tests.infra.walk import Walk
from tests.jobs import ROOT

SCRIPTS = sorted((ROOT / "infra").rglob("*.sh"))
HERE = {"AZURE_SUBSCRIPTION_ID": "sub-1", "AZURE_ENV_NAME": "dev", "AZURE_LOCATION": "westeurope"}
TAG = "lucius:sub-1:dev"
ROLES = {"orch:read", "orch:operate", "orch:quota", "orch:audit", "orch:admin"}
ROLES |= {"orch:all-tenants:read", "orch:all-tenants:operate"}


DELETED = {
    "name": "old-1",
    "location": "westeurope",
    "tags": {"application": "lucius", "environment": "dev"},
}
VAULT = {
    "id": "/subscriptions/sub-1/vaults/kv-1",
    "name": "kv-1",
    "tags": {"application": "lucius", "environment": "dev"},
    "secrets": {"lucius-callback-keys": "k1:c2VjcmV0"},
}
KEYS = {"LUCIUS_CALLBACKS": "true"}
OWN = {
    "LUCIUS_APP_SUBNET_ID": f"{NETWORK}/subnets/snet-lucius-app",
    "LUCIUS_ENDPOINT_SUBNET_ID": f"{NETWORK}/subnets/snet-lucius-endpoints",
    "LUCIUS_CONTAINER_SUBNET_ID": f"{NETWORK}/subnets/snet-lucius-containers",
    "LUCIUS_PRIVATE_DNS_ZONES": ZONES,
    "LUCIUS_WORKSPACE_ID": WORKSPACE,
}


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    """With an azd environment `dev` in the subscription `sub-1`."""
    with Walk.begun(tmp_path, azd=dict(HERE)) as walk:
        walk.environment.update(HERE)
        yield walk


def registration(**changes: Any) -> dict[str, Any]:
    """One that somebody made, and what they added to it."""
    return {
        "appId": "theirs",
        "displayName": "lucius-dev",
        "tags": [],
        "identifierUris": ["api://their-name"],
        "appRoles": [
            {
                "id": "role-1",
                "value": "their:role",
                "displayName": "Theirs",
                "description": 'Says "hello"',
                "allowedMemberTypes": ["User"],
                "isEnabled": True,
                "origin": "Application",
            }
        ],
        "api": {
            "requestedAccessTokenVersion": 2,
            "oauth2PermissionScopes": [],
            "preAuthorizedApplications": [{"appId": "their-client", "delegatedPermissionIds": []}],
        },
        "unknown": 0,
        **changes,
    }


def preprovision(walk: Walk, **environment: str) -> Any:
    return walk.run("sh infra/hooks/preprovision.sh", **environment)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_plain_sh(path: Path) -> None:
    """They can be read by sh, and have no words that only bash knows; macOS has another sed and echo."""
    subprocess.run(["sh", "-n", path], check=True)
    text = path.read_text()
    assert text.startswith("#!/bin/sh\n")
    assert (
        re.findall(r"^\s*(?:local|source|function|declare)\b|\[\[|\$'|&>|<<<|\becho -[en]\b|\bsed -i\b", text, re.M)
        == []
    )
    assert "set -eu" in text


def test_a_registration_is_made_tagged_and_marked(walk: Walk) -> None:
    """With scopes as app roles and the Azure CLI as a client; azd's environment keeps its id, and that we made it."""
    walk.know(lag=2)
    done = preprovision(walk)
    assert (done.code, done.error) == (0, "")
    (app,) = walk.state()["apps"]
    assert app["tags"] == [TAG]
    assert {role["value"] for role in app["appRoles"]} == ROLES
    ids = {role["id"] for role in app["appRoles"]}
    assert len({each for each in ids if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", each)}) == 7
    assert app["api"]["requestedAccessTokenVersion"] == 2
    (client,) = app["api"]["preAuthorizedApplications"]
    assert client["delegatedPermissionIds"] == [app["api"]["oauth2PermissionScopes"][0]["id"]]
    assert walk.state()["principals"] == [app["appId"]]
    azd = walk.state()["azd"]
    assert azd["LUCIUS_AUTH_AUDIENCE"] == azd["LUCIUS_AUTH_REGISTERED"] == app["appId"]


def test_a_registration_of_the_same_name_is_left_alone(walk: Walk) -> None:
    """Neither changed nor taken nor, later, deleted: it is not ours, whatever it is called."""
    walk.know(apps=[registration()])
    assert preprovision(walk).code == 0
    theirs, ours = walk.state()["apps"]
    assert theirs == registration()
    assert walk.state()["azd"]["LUCIUS_AUTH_AUDIENCE"] == ours["appId"]
    walk.run("sh infra/hooks/postdown.sh", **walk.state()["azd"])
    assert walk.state()["apps"] == [theirs]


def test_the_same_environment_of_another_subscription_has_its_own(walk: Walk) -> None:
    """Two people who type `azd env new dev` in one tenant do not share a registration."""
    walk.know(apps=[registration(tags=["lucius:sub-2:dev"])])
    assert preprovision(walk).code == 0
    assert len(walk.state()["apps"]) == 2


def test_a_registration_that_carries_our_tag_and_is_not_ours_stops(walk: Walk) -> None:
    """Anybody in a tenant can make one with our tag beforehand, and would own our audience."""
    walk.know(apps=[registration(tags=[TAG])])
    assert "theirs" in preprovision(walk).refusal
    assert walk.state()["apps"] == [registration(tags=[TAG])]
    assert "LUCIUS_AUTH_AUDIENCE" not in walk.state()["azd"]


def test_what_others_added_stays(walk: Walk) -> None:
    """Their roles, clients and addresses, and ids that exist; a second run changes nothing any more."""
    walk.know(apps=[registration()])
    named = "sh infra/hooks/register_app.sh sub-1 dev theirs"
    assert walk.run(named).output == "theirs\n"
    (app,) = walk.state()["apps"]
    assert app["appRoles"][0] == {name: v for name, v in registration()["appRoles"][0].items() if name != "origin"}
    assert {role["value"] for role in app["appRoles"]} == ROLES | {"their:role"}
    assert app["identifierUris"] == ["api://their-name", "api://theirs"]
    assert app["api"]["preAuthorizedApplications"][0]["appId"] == "their-client"
    assert walk.run(named).code == 0
    assert walk.state()["apps"] == [app]


def test_a_run_that_stopped_half_way_goes_on(walk: Walk) -> None:
    """The registration is marked as soon as it is made, so the next run takes it and postdown can delete it."""
    walk.know(lag=100)
    assert preprovision(walk).code == 1
    made = walk.state()["azd"]["LUCIUS_AUTH_REGISTERED"]
    walk.know(apps=[{**walk.state()["apps"][0], "unknown": 0}])
    assert preprovision(walk, **walk.state()["azd"]).code == 0
    assert [app["appId"] for app in walk.state()["apps"]] == [made]


def test_a_machine_without_sha256sum_hashes_with_shasum(walk: Walk) -> None:
    """macOS before 15; with neither, one line and no registration."""
    preprovision(walk)
    ids = [role["id"] for role in walk.state()["apps"][0]["appRoles"]]
    walk.without("sha256sum")
    walk.know(apps=[], azd=dict(HERE))
    assert preprovision(walk).code == 0
    assert [role["id"] for role in walk.state()["apps"][0]["appRoles"]] == ids
    walk.without("sha256sum", "shasum")
    walk.know(apps=[], azd=dict(HERE))
    assert "neither sha256sum nor shasum gives a hash" in preprovision(walk).refusal
    assert walk.state()["apps"] == []


@pytest.mark.parametrize(
    ("known", "environment", "text"),
    [
        ({"az": "2.88.1"}, {}, "az 2.88.1 is older than 2.89.0: az upgrade"),
        ({"az": "2.9.1"}, {}, "is older"),
        ({"az": "10.0.0"}, {}, ""),
        ({"default": "none"}, {}, "sign in: az login"),
        ({"subscriptions": {"sub-0": "t"}, "default": "sub-0"}, {}, "az does not know the subscription sub-1"),
        (
            {"subscriptions": {"sub-0": "t0", "sub-1": "t1"}, "default": "sub-0"},
            {},
            "az account set --subscription sub-1",
        ),
        ({"subscriptions": {"sub-0": "t", "sub-1": "t"}, "default": "sub-0"}, {}, ""),
        ({}, {"AZURE_LOCATION": "uksouth"}, "uksouth does not offer Flex Consumption"),
        ({}, {"AZURE_LOCATION": "northeurope"}, "LUCIUS_DURABLE_BACKEND=AzureStorage"),
        ({}, {"AZURE_LOCATION": "northeurope", "LUCIUS_DURABLE_BACKEND": "AzureStorage"}, ""),
        ({"denied": ["register apps"]}, {}, "get Application Developer"),
        ({"vaults": [VAULT]}, {}, "kv-1 has keys of callbacks, but LUCIUS_CALLBACKS is not true"),
        ({"vaults": [VAULT]}, KEYS, ""),
        ({"role_assignments": 3801}, {}, "3801 role assignments of 4000"),
        ({"role_assignments": 3801}, {"LUCIUS_API_URL": "https://deployed"}, ""),
        ({}, {"LUCIUS_PLATFORM_SERVICES": "ocr,orc"}, "names orc, which infra/bicep/topology.json does not have"),
        ({}, {"LUCIUS_PLATFORM_SERVICES": "ocr,sis"}, ""),
        ({}, {"LUCIUS_REGISTRY_ID": "/subscriptions/sub-1/registries/cr"}, "LUCIUS_REGISTRY_ID: there is no"),
        ({}, {"LUCIUS_ALERT_ACTION_GROUPS": "/a,/b"}, "LUCIUS_ALERT_ACTION_GROUPS: there is no /a"),
        ({}, {"LUCIUS_RESOURCE_GROUP": "rg"}, "az group create --name rg --location westeurope"),
        ({}, {"LUCIUS_APP_SUBNET_ID": "x"}, "infra/bicep/dev.bicepparam has no network"),
        ({"vaults": [{"name": "kv-2", "tags": None}]}, {}, ""),
        (
            {"deleted_stores": [DELETED]},
            {},
            "the deleted App Configuration store old-1 holds its name: az appconfig purge",
        ),
        ({"deleted_stores": [DELETED | {"location": "uksouth"}, {"name": "x", "tags": None}]}, {}, ""),
        ({"deleted_vaults": [{"name": "kv-3", "properties": DELETED}]}, KEYS, "key vault kv-3 holds its name"),
        ({"deleted_vaults": [{"name": "kv-3", "properties": DELETED}]}, {}, ""),
    ],
)
def test_preprovision_refuses_before_anything_is_made(
    walk: Walk, known: dict[str, Any], environment: dict[str, str], text: str
) -> None:
    """In one line that names the cure; what is fine is let through, and az's default subscription stays."""
    walk.know(**known)
    done = preprovision(walk, **environment)
    if text:
        assert text in done.refusal
        assert walk.state()["apps"] == []
    else:
        assert (done.code, done.error) == (0, "")
    assert not [line for line in done.asked if line.startswith("az account set")]


@pytest.mark.parametrize(
    ("prepared", "environment", "text"),
    [
        ({}, {}, ""),
        ({"app": None}, {}, "LUCIUS_APP_SUBNET_ID: the subnet is delegated to nothing"),
        (
            {"endpoints": "Microsoft.App/environments"},
            {},
            "LUCIUS_ENDPOINT_SUBNET_ID: the subnet is delegated to",
        ),
        (
            {"containers": "Microsoft.Web/serverFarms"},
            {},
            "LUCIUS_CONTAINER_SUBNET_ID: the subnet is delegated to",
        ),
        ({"size": 28}, {}, "10.1.0.0/28 is too small: container apps need a /27 or larger"),
        ({"size": 27}, {}, ""),
        ({}, {"LUCIUS_APP_SUBNET_ID": f"{NETWORK}/subnets/snet_app"}, "takes no subnet with _ in its name"),
        ({"network": "uksouth"}, {}, "the network is in uksouth, and the app would be in westeurope"),
        ({"workspace": "uksouth"}, {}, "the workspace is in uksouth, and its alerts would be in westeurope"),
        ({}, {"LUCIUS_ENDPOINT_SUBNET_ID": ""}, "LUCIUS_ENDPOINT_SUBNET_ID is not set"),
        ({}, {"LUCIUS_CONTAINER_SUBNET_ID": ""}, "LUCIUS_CONTAINER_SUBNET_ID is not set"),
        ({}, {"LUCIUS_CONTAINER_SUBNET_ID": "", "LUCIUS_PLATFORM_SERVICES": "none"}, ""),
        ({}, {"LUCIUS_CONTAINER_SUBNET_ID": OWN["LUCIUS_APP_SUBNET_ID"]}, "a subnet of their own, a /27 or larger"),
        ({}, {"LUCIUS_APP_SUBNET_ID": f"{NETWORK}/subnets/none"}, "az resource show --ids ID must show it"),
        ({}, {"LUCIUS_PRIVATE_DNS_ZONES": "none"}, ""),
        ({}, {"LUCIUS_PRIVATE_DNS_ZONES": "rg-dns"}, "neither none nor the id of a resource group"),
        ({}, {"LUCIUS_PRIVATE_DNS_ZONES": f"{ZONES}-2"}, "LUCIUS_PRIVATE_DNS_ZONES: there is no"),
        ({}, {"LUCIUS_WORKSPACE_ID": ""}, "privatelink.monitor.azure.com, or you may not read it"),
    ],
)
def test_what_a_company_brings_is_compared(
    walk: Walk, prepared: dict[str, Any], environment: dict[str, str], text: str
) -> None:
    """A subnet without its delegation, a network or a workspace in another region: one line that has the fix."""
    walk.know(resources=company(**prepared))
    check = "sh infra/hooks/check_own.sh sub-1 westeurope infra/bicep/prod.bicepparam"
    done = walk.run(check, **{**OWN, **environment})
    if text:
        assert text in done.refusal
    else:
        assert (done.code, done.error) == (0, "")


def test_the_apps_subnet_is_that_of_its_plan(walk: Walk) -> None:
    """Elastic Premium's subnet belongs to Microsoft.Web."""
    parameters = walk.own("infra/bicep") / "prod.bicepparam"
    parameters.write_text(f"{parameters.read_text()}\nparam hosting = 'ElasticPremium'\n")
    check = "sh infra/hooks/check_own.sh sub-1 westeurope infra/bicep/prod.bicepparam"
    walk.know(resources=company())
    assert "not to Microsoft.Web/serverFarms" in walk.run(check, **OWN).refusal
    walk.know(resources=company(app="Microsoft.Web/serverFarms"))
    assert walk.run(check, **OWN).code == 0


def test_keys_are_made_once_and_rotated(walk: Walk) -> None:
    """No command line has a value, and azd's environment none either; the new key is the first, until it is alone."""
    (walk.bin / "openssl").unlink()
    walk.know(vaults=[VAULT | {"secrets": {}}])
    make = "sh infra/hooks/check_keys.sh sub-1 dev"
    assert walk.run(make, LUCIUS_WEBHOOKS="true").output == ""
    assert walk.run(f"{make} make", LUCIUS_WEBHOOKS="true").output == "webhook\n"
    first = walk.state()["vaults"][0]["secrets"]["lucius-webhook-keys"]
    assert re.fullmatch(r"k\d{10}:[\w+/]{43}=", first)
    assert walk.run(f"{make} make", LUCIUS_WEBHOOKS="true").output == "webhook\n"
    rotate = "sh infra/hooks/rotate_keys.sh webhook"
    done = walk.run(rotate, LUCIUS_KEY_VAULT="kv-1", LUCIUS_FUNCTION_APP="func", AZURE_RESOURCE_GROUP="rg")
    assert done.output == "kv-1: lucius-webhook-keys has 2 keys\n"
    assert "az functionapp restart --resource-group rg --name func --output none" in done.asked
    now = walk.state()["vaults"][0]["secrets"]["lucius-webhook-keys"].split(",")
    assert (len(now), now[1]) == (2, first)
    assert walk.run(f"{rotate} finish", LUCIUS_KEY_VAULT="kv-1").code == 0
    assert walk.state()["vaults"][0]["secrets"]["lucius-webhook-keys"] == now[0]
    values = [each.partition(":")[2] for each in (first, now[0])]
    assert not [line for line in walk.state()["asked"] if any(value in line for value in values)]
    none = walk.run("sh infra/hooks/rotate_keys.sh callback finish", LUCIUS_KEY_VAULT="kv-1")
    assert "has no keys of callbacks" in none.refusal
    assert walk.run("sh infra/hooks/rotate_keys.sh audit", LUCIUS_KEY_VAULT="kv-1").code == 2


def test_images_are_built_once(walk: Walk) -> None:
    """By the registry, where it lacks them; a registry that does not build them is one line, and the tag stays out."""
    (walk.bin / "python3").unlink()
    build = "sh infra/hooks/build_images.sh"
    assert walk.run(build).output == ""
    assert walk.run(build, LUCIUS_REGISTRY="gone").output == ""
    walk.know(registries=["cr"], denied=["build"])
    done = walk.run(build, LUCIUS_REGISTRY="cr")
    assert (done.code, done.output) == (1, "")
    assert "LUCIUS_SERVICE_BUILD=false" in done.error
    walk.know(denied=[])
    tag = walk.run(build, LUCIUS_REGISTRY="cr").output
    images = [f"{image}:{tag.strip()}" for image in ("lucius-services", "lucius-packs")]
    assert walk.state()["images"] == images
    assert walk.run(build, LUCIUS_REGISTRY="cr").output == tag
    assert walk.state()["images"] == images
    own = {"LUCIUS_REGISTRY_ID": "/subscriptions/sub-1/x/registries/cr"}
    other = walk.run(build, LUCIUS_SERVICE_BASE="mirror/python", **own)
    assert other.output != tag
    assert any("--build-arg PYTHON=mirror/python" in line for line in other.asked)
    assert walk.run(build, LUCIUS_SERVICE_BUILD="false", LUCIUS_SERVICE_TAG="1.2").output == "1.2\n"


def test_a_machine_without_az_gets_its_address(walk: Walk) -> None:
    walk.without("az")
    assert "https://aka.ms/azcli" in preprovision(walk).refusal


def test_zones_are_asked_for_where_the_parameters_want_them(walk: Walk) -> None:
    """A region may offer Flex Consumption, but not over zones."""
    parameters = walk.own("infra/bicep") / "dev.bicepparam"
    whole = parameters.read_text()
    variable = "readEnvironmentVariable('LUCIUS_ZONE_REDUNDANT', 'true') == 'true'"
    for value in ("true", variable):
        parameters.write_text(whole.replace("param scale = {", f"param scale = {{\n  zoneRedundant: {value}"))
        assert "over zones" in preprovision(walk).refusal
    given = {"LUCIUS_AUTH_AUDIENCE": "mine"}
    assert preprovision(walk, LUCIUS_ZONE_REDUNDANT="false", **given).code == 0
    walk.know(flex_zones=["westeurope"])
    assert preprovision(walk, **given).code == 0


def test_the_hook_reads_parameter_files_as_the_template_does(walk: Walk) -> None:
    """Each shipped one: the backend that it takes, and zones, in a region that has neither."""
    walk.know(schedulers=[], flex_zones=[])
    check = "sh infra/hooks/check_region.sh sub-1 westeurope infra/bicep/{}.bicepparam"
    assert walk.run(check.format("minimal")).code == 0
    assert "Durable Task Scheduler" in walk.run(check.format("dev")).refusal
    assert "over zones" in walk.run(check.format("prod")).refusal
    assert "Scheduler" in walk.run(check.format("prod"), LUCIUS_ZONE_REDUNDANT="false").refusal


def test_only_providers_that_are_missing_are_registered(walk: Walk) -> None:
    """`--wait` takes seconds each, and Azure writes some names in lower case."""
    walk.know(providers=["microsoft.insights", "Microsoft.Web"])
    registered = [line for line in preprovision(walk).asked if "provider register" in line]
    assert len(registered) == 11
    assert not [line for line in registered if re.search("microsoft.(insights|web) ", line, re.IGNORECASE)]
    assert [line for line in preprovision(walk).asked if "provider register" in line] == []


def test_every_provider_of_the_templates_is_registered() -> None:
    """Those that the hook names, which pipelines run too."""
    kinds = "".join(path.read_text() for path in (ROOT / "infra" / "bicep").rglob("*.bicep"))
    used = set(re.findall(r"^\s*resource \w+ '(Microsoft\.\w+)/[^']*' = (?!existing)", kinds, re.MULTILINE))
    # a subscription has these from the start; subnets of Flex Consumption are delegated to Microsoft.App
    used = (used - {"Microsoft.Authorization", "Microsoft.Resources"}) | {"Microsoft.App"}
    named = set(re.findall(r"Microsoft\.\w+", (ROOT / "infra/hooks/register_providers.sh").read_text()))
    assert {each.lower() for each in used} == {each.lower() for each in named}


def test_an_audience_that_is_given_is_taken(walk: Walk) -> None:
    done = preprovision(walk, LUCIUS_AUTH_AUDIENCE="mine")
    assert done.code == 0
    assert not [line for line in done.asked if " ad " in line or " rest " in line or line.startswith("azd")]


def test_postdown_may_run_twice_and_stops_where_it_cannot_see(walk: Walk) -> None:
    """It deletes what preprovision made, is content where that is gone, and forgets it then only."""
    preprovision(walk)
    made = walk.state()["azd"]
    walk.know(denied=["read apps"])
    assert walk.run("sh infra/hooks/postdown.sh", **made).code == 1
    assert walk.state()["azd"] == made
    walk.know(denied=[])
    for _ in range(2):
        done = walk.run("sh infra/hooks/postdown.sh", **made)
        assert (done.code, done.error) == (0, "")
        assert walk.state()["apps"] == []
        assert walk.state()["azd"]["LUCIUS_AUTH_REGISTERED"] == ""
    assert walk.run("sh infra/hooks/postdown.sh", LUCIUS_AUTH_AUDIENCE="given").asked == []


def test_postdown_leaves_a_registration_without_our_tag(walk: Walk) -> None:
    """A mark of an earlier hook may name somebody else's."""
    walk.know(apps=[registration()])
    assert "theirs stays" in walk.run("sh infra/hooks/postdown.sh", LUCIUS_AUTH_REGISTERED="theirs").error
    assert walk.state()["apps"] == [registration()]


def test_the_dashboard_gets_a_redirect_address(walk: Walk) -> None:
    """Of type SPA, once, beside those that others added."""
    for held in ({}, {"spa": {"redirectUris": []}}, {"spa": {"redirectUris": ["https://theirs"]}}):
        walk.know(apps=[registration(**held)])
        for _ in range(2):
            assert walk.run("sh infra/hooks/allow_dashboard.sh theirs https://lucius.example/").code == 0
        theirs = held.get("spa", {}).get("redirectUris", [])
        expected = registration(spa={"redirectUris": [*theirs, "https://lucius.example/v1/dashboard"]})
        assert walk.state()["apps"] == [expected]
    assert walk.run("sh infra/hooks/allow_dashboard.sh theirs").code == 2


def test_roles_are_granted_once(walk: Walk) -> None:
    """Each role is asked for, and granted where it is not held yet, also to a principal that is new."""
    audience = walk.run("sh infra/hooks/register_app.sh sub-1 dev").output.strip()
    for _ in range(2):
        assert walk.run(f"sh infra/hooks/grant_role.sh {audience} who orch:read orch:operate").code == 0
    assert len(walk.state()["grants"]) == 2
    assert "no role orch:none" in walk.run(f"sh infra/hooks/grant_role.sh {audience} who orch:none").refusal
    walk.know(new_principals={"client": 3})
    assert walk.run(f"sh infra/hooks/grant_role.sh {audience} client orch:read").code == 0
    assert walk.state()["grants"][-1]["principalId"] == "client"
    done = walk.run("sh infra/hooks/grant_role.sh api")
    assert (done.code, done.error) == (2, "usage: grant_role.sh AUDIENCE PRINCIPAL_OBJECT_ID ROLE...\n")
