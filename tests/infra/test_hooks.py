"""The hooks of azd stop with one line before they create anything; keys and images are created once."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.infra.company import NETWORK, WORKSPACE, ZONES, company
from tests.infra.hook_walks import preprovision, walk
from tests.infra.walk import Walk
from tests.jobs import ROOT

__all__ = ["walk"]  # a fixture

SCRIPTS = sorted((ROOT / "infra").rglob("*.sh"))
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


@pytest.mark.parametrize(
    ("known", "environment", "text"),
    [
        ({"az": "2.88.1"}, {}, "az 2.88.1 is older than 2.89.0; run az upgrade"),
        ({"az": "2.9.1"}, {}, "is older"),
        ({"az": "10.0.0"}, {}, ""),
        ({"default": "none"}, {}, "az is not signed in; run az login"),
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
        ({}, {"LUCIUS_REGISTRY_ID": "/subscriptions/sub-1/registries/cr"}, "/registries/cr not found"),
        ({}, {"LUCIUS_ALERT_ACTION_GROUPS": "/a,/b"}, "LUCIUS_ALERT_ACTION_GROUPS: /a not found"),
        ({}, {"LUCIUS_RESOURCE_GROUP": "rg"}, "az group create --name rg --location westeurope"),
        ({}, {"LUCIUS_APP_SUBNET_ID": "x"}, "infra/bicep/dev.bicepparam has no network"),
        ({"vaults": [{"name": "kv-2", "tags": None}]}, {}, ""),
        (
            {"deleted_stores": [DELETED]},
            {},
            "the deleted App Configuration store old-1 still reserves its name; run az appconfig purge",
        ),
        ({"deleted_stores": [DELETED | {"location": "uksouth"}, {"name": "x", "tags": None}]}, {}, ""),
        ({"deleted_vaults": [{"name": "kv-3", "properties": DELETED}]}, KEYS, "key vault kv-3 still reserves its name"),
        ({"deleted_vaults": [{"name": "kv-3", "properties": DELETED}]}, {}, ""),
        (
            {"deleted_vaults": [{"name": "kv-3", "properties": DELETED}]},
            {"LUCIUS_SIGN_HEADS": "true"},
            "key vault kv-3 still reserves its name",
        ),
    ],
)
def test_preprovision_refuses_before_anything_is_made(
    walk: Walk, known: dict[str, Any], environment: dict[str, str], text: str
) -> None:
    """In one line that has the remedy; valid values pass, and az's default subscription stays."""
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
        ({}, {"LUCIUS_APP_SUBNET_ID": f"{NETWORK}/subnets/snet_app"}, "accepts no subnet with _ in its name"),
        ({"network": "uksouth"}, {}, "the network is in uksouth, and the app would be in westeurope"),
        ({"workspace": "uksouth"}, {}, "the workspace is in uksouth, and its alerts would be in westeurope"),
        ({}, {"LUCIUS_ENDPOINT_SUBNET_ID": ""}, "LUCIUS_ENDPOINT_SUBNET_ID is not set"),
        ({}, {"LUCIUS_CONTAINER_SUBNET_ID": ""}, "LUCIUS_CONTAINER_SUBNET_ID is not set"),
        ({}, {"LUCIUS_CONTAINER_SUBNET_ID": "", "LUCIUS_PLATFORM_SERVICES": "none"}, ""),
        ({}, {"LUCIUS_CONTAINER_SUBNET_ID": OWN["LUCIUS_APP_SUBNET_ID"]}, "a subnet of their own, a /27 or larger"),
        ({}, {"LUCIUS_APP_SUBNET_ID": f"{NETWORK}/subnets/none"}, "az resource show --ids ID must show it"),
        ({}, {"LUCIUS_PRIVATE_DNS_ZONES": "none"}, ""),
        ({}, {"LUCIUS_PRIVATE_DNS_ZONES": "rg-dns"}, "neither none nor the id of a resource group"),
        ({}, {"LUCIUS_PRIVATE_DNS_ZONES": f"{ZONES}-2"}, "LUCIUS_PRIVATE_DNS_ZONES: /subscriptions/"),
        ({}, {"LUCIUS_WORKSPACE_ID": ""}, "privatelink.monitor.azure.com not found, or you cannot read it"),
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
    """No command line has a value, nor has azd's environment; the new key is the first, until it is the only one."""
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
    refresh, restart = done.asked[-2:]
    assert refresh.startswith("az rest --method POST")
    assert (
        "/resourceGroups/rg/providers/Microsoft.Web/sites/func/config/configreferences/appsettings/refresh" in refresh
    )
    assert restart == "az functionapp restart --resource-group rg --name func --output none"
    now = walk.state()["vaults"][0]["secrets"]["lucius-webhook-keys"].split(",")
    assert (len(now), now[1]) == (2, first)
    assert walk.run(f"{rotate} finish", LUCIUS_KEY_VAULT="kv-1").code == 0
    assert walk.state()["vaults"][0]["secrets"]["lucius-webhook-keys"] == now[0]
    values = [each.partition(":")[2] for each in (first, now[0])]
    assert not [line for line in walk.state()["asked"] if any(value in line for value in values)]
    none = walk.run("sh infra/hooks/rotate_keys.sh callback finish", LUCIUS_KEY_VAULT="kv-1")
    assert "has no keys of callbacks" in none.refusal
    assert walk.run("sh infra/hooks/rotate_keys.sh audit", LUCIUS_KEY_VAULT="kv-1").code == 2
    assert "this environment has no key vault; run azd env set LUCIUS_CALLBACKS true" in walk.run(rotate).refusal


def test_images_are_built_once(walk: Walk) -> None:
    """By the registry, if it lacks them; a registry that does not build them is one line, and the tag stays unset."""
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
    """Each shipped one: its backend, and zones, in a region that has neither."""
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
