"""Emulates az. It runs in the test itself, since one command line calls it a dozen times."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import jmespath

from tests.infra.stand_in import deployments, directory
from tests.infra.stand_in.options import Refused, parse, refuse
from tests.infra.stand_in.state import changing

State = dict[str, Any]
#: https://learn.microsoft.com/azure/role-based-access-control/conditions-format
_HALF = re.compile(
    r"\(\(!\(ActionMatches\{'Microsoft\.Authorization/roleAssignments/(?P<action>\w+)'\}\)\) OR \(@(?P<source>\w+)"
    r"\[Microsoft\.Authorization/roleAssignments:RoleDefinitionId\] ForAnyOfAnyValues:GuidEquals "
    r"\{(?P<ids>[0-9a-f, -]+)\}\)\)"
)
Options = dict[str, str]


def _account(state: State, options: Options) -> Any:
    subscription = options.get("subscription") or state["default"]
    if subscription not in state["subscriptions"]:
        refuse("Please run 'az login' to setup account.")
    return {"id": subscription, "tenantId": state["subscriptions"][subscription]}


def _subscription(state: State, options: Options) -> None:
    """Checks that a command in a subscription names it, or that it is az's default."""
    if _account(state, options)["id"] != state["azd"].get("AZURE_SUBSCRIPTION_ID", state["default"]):
        refuse("(ResourceGroupNotFound) this is another subscription")


def _register(state: State, options: Options) -> None:
    _subscription(state, options)
    state["providers"].append(options["namespace"])


def _show_provider(state: State, options: Options) -> Any:
    _subscription(state, options)
    return {"resourceTypes": [{"resourceType": "schedulers", "locations": state["schedulers"]}]}


def _locations(state: State, options: Options) -> Any:
    _subscription(state, options)
    return [{"name": name} for name in state["flex_zones" if options.get("zone-redundant") == "true" else "flex"]]


def _changes(state: State, options: Options) -> Any:
    kept = [{"id": "/storage", "changeType": "noChange"}, {"id": "/site", "changeType": "modify"}]
    if not state["stack"]:
        kept = [{"id": "/storage", "changeType": "create"}]
    deleted = "delete" if options["action-on-unmanage"] != "detachAll" else "detach"
    gone = [{"id": each, "changeType": deleted} for each in state["left_out"]]
    return {"properties": {"changes": {"resourceChanges": kept + gone} if "changes" not in state["denied"] else None}}


def _stack(state: State, options: Options, folder: Path, environ: Mapping[str, str]) -> Any:
    outputs = deployments.deploy(state, folder / options["parameters"], environ)
    deleted = state["left_out"] if options["action-on-unmanage"] != "detachAll" else []
    state["stack"] = {
        "outputs": {name: {"type": "String", "value": value} for name, value in outputs.items()},
        "deleted": deleted,
    }
    return state["stack"]


def _what_if(state: State, options: Options) -> Any:
    if "deploy" in state["denied"] and options.get("validation-level") != "ProviderNoRbac":
        refuse("(AuthorizationFailed) The client does not have authorization to perform action 'sites/write'")
    return "Resource changes: 1 to modify."


def _assign(state: State, options: Options) -> None:
    """Assigns a role; keeps the ids that a condition on role assignments names."""
    # az searches Graph for an assignee; Resource Manager searches for an object unless the type is given
    if options.get("assignee") in state["principals"]:
        refuse(f"Cannot find user or service principal in graph database for '{options['assignee']}'.")
    if "assignee-object-id" in options and options.get("assignee-principal-type") != "ServicePrincipal":
        refuse("(PrincipalNotFound) Principal does not exist in the directory.")
    condition = options.get("condition")
    if condition is None:
        return
    if options.get("condition-version") != "2.0":
        refuse("(InvalidConditionVersion) The condition version is not valid.")
    halves = [_HALF.fullmatch(half) for half in condition.split(" AND ")]
    kinds = [half and (half["action"], half["source"]) for half in halves]
    if kinds != [("write", "Request"), ("delete", "Resource")]:
        refuse("(InvalidCondition) The condition is not valid.")
    written, deleted = (half["ids"] for half in halves if half)
    state["assignable"] = written.split(", ") if written == deleted else []


def _delete_app(state: State, options: Options) -> None:
    state["apps"].remove(directory.app(state, options["id"]))


def _create_principal(state: State, options: Options) -> Any:
    directory.app(state, options["id"])
    state["principals"].append(options["id"])
    return directory.principal(state, options["id"])


def _define_role(state: State, options: Options) -> None:
    name = json.loads(options["role-definition"])["Name"]
    if name in state["own_roles"]:
        refuse("(RoleDefinitionWithSameNameExists) A custom role with the same name already exists in this directory.")
    state["own_roles"].append(name)


def _delete_vault(state: State, options: Options) -> None:
    state["vaults"] = []


def _vault(state: State, options: Options) -> dict[str, Any]:
    """The secrets of a vault, by name, as its data plane or Resource Manager reaches it."""
    named = options.get("vault-name") or re.findall(r"/vaults/([\w-]+)/secrets", options["url"])[0]
    found = next((each for each in state["vaults"] if each["name"] == named), None)
    if found is None:
        refuse(f"(ResourceNotFound) {named} was not found")
    assert found is not None
    secrets: dict[str, Any] = found["secrets"]
    return secrets


def _rest(state: State, options: Options) -> Any:
    """Graph, the refresh of an app's references, and the secrets of a vault by Resource Manager, which never shows a
    value.
    """
    if options["url"].partition("?")[0].endswith("/config/configreferences/appsettings/refresh"):
        return None
    if "/vaults/" not in options["url"]:
        return directory.rest(state, options)
    secrets, name = _vault(state, options), options["url"].partition("?")[0].rpartition("/")[2]
    if options["method"] == "PUT":
        # `@` and a file: never on the command line
        body = json.loads(Path(options["body"].removeprefix("@")).read_text())
        secrets[name] = body["properties"]["value"]
    return {"value": [{"name": each} for each in secrets]}


def _set_secret(state: State, options: Options) -> None:
    _vault(state, options)[options["name"]] = Path(options["file"]).read_text()


def _show_secret(state: State, options: Options) -> Any:
    return {"value": _vault(state, options)[options["name"]]}


def _delete_secret(state: State, options: Options) -> None:
    del _vault(state, options)[options["name"]]


def _build_image(state: State, options: Options) -> None:
    if options["registry"] not in state["registries"] or "build" in state["denied"]:
        refuse(f"The resource with name '{options['registry']}' could not be found, or does not build.")
    state["images"].append(options["image"])


def _show_image(state: State, options: Options) -> Any:
    return options["image"] in state["images"] or refuse("(MANIFEST_UNKNOWN) manifest tagged by it is not found.")


def _show_resource(state: State, options: Options) -> Any:
    return state["resources"].get(options["ids"]) or refuse(f"(ResourceNotFound) {options['ids']} was not found.")


def _code(state: State, options: Options, folder: Path) -> None:
    state["code"] = (folder / options["src"]).read_text()


_ANSWERS: dict[str, Callable[[State, Options], Any]] = {
    "account show": _account,
    "acr build": _build_image,
    "acr list": lambda state, options: [{"name": name} for name in state["registries"]],
    "acr repository show": _show_image,
    "ad app create": lambda state, options: directory.register(state, options["display-name"], []),
    "ad app delete": _delete_app,
    "ad app list": directory.listed,
    "ad app show": lambda state, options: directory.app(state, options["id"]),
    "ad signed-in-user show": lambda state, options: {"id": "me"},
    "ad sp create": _create_principal,
    "ad sp show": lambda state, options: directory.principal(state, options["id"]),
    "appconfig list-deleted": lambda state, options: state["deleted_stores"],
    "deployment sub what-if": _what_if,
    "functionapp list-flexconsumption-locations": _locations,
    "group exists": lambda state, options: options["name"] in state["groups"],
    "keyvault delete": _delete_vault,
    "keyvault secret delete": _delete_secret,
    "keyvault secret list": lambda state, options: [{"name": name} for name in _vault(state, options)],
    "keyvault secret set": _set_secret,
    "keyvault secret show": _show_secret,
    "keyvault list-deleted": lambda state, options: state["deleted_vaults"],
    "provider list": lambda state, options: (
        [{"namespace": name, "registrationState": "Registered"} for name in state["providers"]]
        + [{"namespace": "Microsoft.Web", "registrationState": "NotRegistered"}]
    ),
    "provider register": _register,
    "provider show": _show_provider,
    "resource list": lambda state, options: state["vaults"],
    "resource show": _show_resource,
    "rest": _rest,
    "role assignment create": _assign,
    "role assignment list": lambda state, options: [{"scope": "/subscriptions/x"}] * state["role_assignments"],
    "role definition create": _define_role,
    "stack sub show": lambda state, options: state["stack"] or refuse("(DeploymentStackNotFound)"),
    "stack-whatif sub create": _changes,
    "version": lambda state, options: {"azure-cli": state["az"]},
}


def _printed(answer: Any, options: Options) -> str:
    """Formats output as az: JSON, or each item as a line and each of its values as a column."""
    if "query" in options:
        answer = jmespath.search(options["query"], answer)
    if answer is None or options.get("output") == "none":
        return ""
    if options.get("output") != "tsv":
        return f"{answer if isinstance(answer, str) else json.dumps(answer, indent=2)}\n"
    text = StringIO()
    for item in answer if isinstance(answer, list) else [answer]:
        print(*(item if isinstance(item, list) else [item]), sep="\t", file=text)
    return text.getvalue()


def answer(arguments: list[str], file: Path, folder: Path, environ: Mapping[str, str]) -> tuple[int, str, str]:
    """Returns exit code, output and error of az with these arguments in that folder."""
    try:
        with changing(file) as state:
            state["asked"].append(" ".join(["az", *arguments]))
            command, options = parse(arguments)
            if command == "stack sub create":
                result = _stack(state, options, folder, environ)
            elif command == "functionapp deployment source config-zip":
                result = _code(state, options, folder)
            else:
                result = _ANSWERS.get(command, lambda state, options: None)(state, options)
        return 0, _printed(result, options), ""
    except Refused as error:
        return 1, "", f"ERROR: {error}\n"
