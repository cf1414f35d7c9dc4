"""Refusals of the templates by Resource Manager: in the first deployment, and in a later one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.infra.stand_in.options import refuse

#: resources whose PUT is refused with 409 unless it has the present etag, or `*`
_NEED_ETAG = ("Microsoft.OperationalInsights/workspaces/savedSearches",)


def deploy(state: dict[str, Any], parameters: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The outputs of the templates beside the parameter file. Raises Refused with Azure's code."""
    bicep = parameters.parent
    if "deploy" in state["denied"]:
        refuse("(AuthorizationFailed) The client does not have authorization to perform action 'deployments/write'")
    _providers(state, bicep)
    _roles(state, bicep)
    environment = environ["AZURE_ENV_NAME"]
    earlier, start = state["deployed"], _budget_start(state, parameters, environ)
    if earlier:
        for kind in _NEED_ETAG:
            if _without_etag(bicep, kind):
                refuse(f"(Conflict) {kind}: 409, the resource exists and the request has no etag")
        if start and earlier["budget"] and start != earlier["budget"]:
            refuse("(400) Start date of budgets cannot be updated. Please delete and create a new budget.")
    if "true" in {environ.get(f"LUCIUS_{each}") for each in ("CALLBACKS", "WEBHOOKS")} and not state["vaults"]:
        vault = {"id": "/subscriptions/x/vaults/kv-lucius", "name": "kv-lucius", "secrets": {}}
        state["vaults"] = [vault | {"tags": {"application": "lucius", "environment": environment}}]
    services = _services(bicep, parameters, environ)
    if services and not environ.get("LUCIUS_REGISTRY_ID"):
        state["registries"] = sorted({*state["registries"], "crlucius"})
    state["deployed"] = {
        "budget": start,
        "container_apps": _container_apps(state, services, environ),
        # the app has settings for these
        "keys": environ.get("LUCIUS_KEYS", "").split(),
        "group": environ.get("LUCIUS_RESOURCE_GROUP") or f"rg-lucius-{environment}",
    }
    return {
        "AZURE_RESOURCE_GROUP": state["deployed"]["group"],
        "LUCIUS_FUNCTION_APP": "func-lucius",
        "LUCIUS_API_URL": "https://func-lucius.example",
        "LUCIUS_AUTH_AUDIENCE": environ["LUCIUS_AUTH_AUDIENCE"],
        "LUCIUS_SERVICEBUS_NAMESPACE": "sbns-lucius.servicebus.windows.net",
        "LUCIUS_DOCUMENTS_ENDPOINT": "https://stdoc.blob.core.windows.net/",
        "LUCIUS_APPCONFIG_NAME": "appcs-lucius",
        "LUCIUS_LEDGER_ACCOUNT": "stled",
        "LUCIUS_KEY_VAULT": "kv-lucius" if state["vaults"] else "",
        "LUCIUS_REGISTRY": "crlucius" if services else "",
    }


def _services(bicep: Path, parameters: Path, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The entries of `containers.json` that container apps would run."""
    [default] = re.findall(r"readEnvironmentVariable\('LUCIUS_PLATFORM_SERVICES', '(\w+)'\)", parameters.read_text())
    named = environ.get("LUCIUS_PLATFORM_SERVICES") or default
    containers = json.loads((bicep / "containers.json").read_text())
    return [each for each in containers if named == "all" or each["service"] in named.split(",")]


def _container_apps(state: dict[str, Any], services: list[dict[str, Any]], environ: Mapping[str, str]) -> list[str]:
    """None before there is a tag; an image that the registry lacks is refused."""
    tag = environ.get("LUCIUS_SERVICE_TAG", "")
    for image in sorted({f"{each['image']}:{tag}" for each in services if tag} - {*state["images"]}):
        refuse(f"(InvalidParameterValueInContainerTemplate) MANIFEST_UNKNOWN: {image} is not found")
    return [each["service"] for each in services if tag]


def _without_etag(bicep: Path, kind: str) -> bool:
    """Returns whether a template has a resource of that type without an etag in its properties."""
    resources = [
        body
        for path in bicep.rglob("*.bicep")
        for body in re.findall(
            rf"^resource \w+ '{kind}@[^']*' = (.*?)^[}}\]]", path.read_text(), re.DOTALL | re.MULTILINE
        )
    ]
    return any(not re.search(r"^\s*etag: '\S+'", body, re.MULTILINE) for body in resources)


def _budget_start(state: dict[str, Any], parameters: Path, environ: Mapping[str, str]) -> str | None:
    """Returns the budget start of the parameter file; it changes each month if the template computes it."""
    read = re.search(r"^param monthlyBudget = .*'LUCIUS_MONTHLY_BUDGET'", parameters.read_text(), re.MULTILINE)
    if not read or environ.get("LUCIUS_MONTHLY_BUDGET", "") in ("", "0"):
        return None
    today = any("utcNow(" in path.read_text() for path in parameters.parent.rglob("*.bicep*"))
    return state["month"] if today else "fixed"


def _roles(state: dict[str, Any], bicep: Path) -> None:
    """Refuses a role that the condition on the deployer does not name."""
    given = re.findall(r"(?m)^var \w+ = '([0-9a-f-]{36})'$", (bicep / "modules" / "roles.bicep").read_text())
    if state["assignable"] is not None and set(given) - set(state["assignable"]):
        refuse(
            "(AuthorizationFailed) does not have authorization, or an ABAC condition is not fulfilled: roleAssignments"
        )


def _providers(state: dict[str, Any], bicep: Path) -> None:
    named = {
        provider
        for path in bicep.rglob("*.bicep")
        for provider in re.findall(r"^\s*resource \w+ '(Microsoft\.\w+)/", path.read_text(), re.MULTILINE)
    }
    # a subscription has these from the start
    named -= {"Microsoft.Authorization", "Microsoft.Resources"}
    lacking = sorted(named - {name for name in named if name.lower() in {each.lower() for each in state["providers"]}})
    if lacking:
        refuse(f"(MissingSubscriptionRegistration) The subscription is not registered to use namespace '{lacking[0]}'")
