"""Microsoft Entra, as far as the hooks use it: app registrations, service principals, assigned roles."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.infra.stand_in.options import refuse

_GRAPH = "https://graph.microsoft.com/v1.0/"
#: Graph refuses these in a role that is written
_READ_ONLY = {"origin"}


def missing(identifier: str) -> None:
    refuse(f"Resource '{identifier}' does not exist or one of its queried reference-property objects are not present.")


def app(state: dict[str, Any], client_id: str) -> dict[str, Any]:
    """Returns a registration; a new one is not found for the first `lag` requests."""
    if "read apps" in state["denied"]:
        refuse("Insufficient privileges to complete the operation.")
    found = next((each for each in state["apps"] if each["appId"] == client_id), None)
    if found is None:
        missing(client_id)
    assert found is not None
    if found.get("unknown", 0) > 0:
        found["unknown"] -= 1
        missing(client_id)
    return found


def register(state: dict[str, Any], name: str, tags: list[str]) -> dict[str, Any]:
    if "register apps" in state["denied"]:
        refuse('Forbidden({"error":{"code":"Authorization_RequestDenied","message":"Insufficient privileges"}})')
    made = {
        "appId": f"{len(state['apps']) + 1:08d}-2222-3333-4444-555555555555",
        "displayName": name,
        "tags": tags,
        "identifierUris": [],
        "appRoles": [],
        "api": {"requestedAccessTokenVersion": None, "oauth2PermissionScopes": [], "preAuthorizedApplications": []},
        "unknown": state["lag"],
    }
    state["apps"].append(made)
    return made


def listed(state: dict[str, Any], options: dict[str, str]) -> Any:
    sought = re.fullmatch(r"tags/any\(t:t eq '(.*)'\)", options.get("filter", ""))
    if not sought:
        refuse("Invalid filter clause")
    assert sought
    return [each for each in state["apps"] if sought[1] in each["tags"] and not each["unknown"]]


def rest(state: dict[str, Any], options: dict[str, str]) -> Any:
    """`az rest` on applications and on roles that are granted."""
    method, url = options["method"], options["url"].removeprefix(_GRAPH)
    body = json.loads(options["body"]) if options.get("body") else {}
    if (method, url) == ("POST", "applications"):
        return register(state, body["displayName"], body["tags"])
    named = re.fullmatch(r"applications\(appId='(.*)'\)", url)
    if named:
        found = app(state, named[1])
        return found if method == "GET" else _patch(found, body)
    granted = re.fullmatch(r"servicePrincipals/(.*)/appRoleAssignedTo", url)
    if granted and method == "GET":
        return {"value": state["grants"]}
    if granted and method == "POST":
        if state["new_principals"].get(body["principalId"], 0) > 0:
            state["new_principals"][body["principalId"]] -= 1
            missing(body["principalId"])
        state["grants"].append(body)
        return body
    return refuse(f"Not Found({method} {url})")


def principal(state: dict[str, Any], identifier: str) -> Any:
    if identifier not in state["principals"]:
        missing(identifier)
    roles = next((each["appRoles"] for each in state["apps"] if each["appId"] == identifier), [])
    return {"id": f"principal-of-{identifier}", "appId": identifier, "appRoles": roles}


def _patch(found: dict[str, Any], body: dict[str, Any]) -> None:
    api = body.get("api", {})
    for kind, now, then in (
        ("role", found["appRoles"], body.get("appRoles")),
        ("scope", found["api"]["oauth2PermissionScopes"], api.get("oauth2PermissionScopes")),
    ):
        kept = {each["id"]: each for each in then if not _READ_ONLY & each.keys()} if then is not None else None
        if kept is not None and len(kept) != len(then):
            refuse(f"Bad Request: a {kind} has a read-only property, or its id twice")
        if kept is not None and any(
            _writable(kept.get(each["id"], {})) != _writable(each) for each in now if each["isEnabled"]
        ):
            refuse("Bad Request: permission (scope or role) cannot be deleted or updated unless disabled first")
    for scope in api.get("oauth2PermissionScopes", []):
        scope.setdefault("userConsentDisplayName", None)
        scope.setdefault("userConsentDescription", None)
    scopes = {each["id"] for each in found["api"]["oauth2PermissionScopes"]}
    for client in api.get("preAuthorizedApplications", []):
        if not scopes >= set(client["delegatedPermissionIds"]):
            refuse("Bad Request: has a Permission Id that cannot be found in the AppPermissions sets.")
    found["api"].update(api)
    found.update({name: value for name, value in body.items() if name != "api"})


def _writable(each: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in each.items() if name not in _READ_ONLY and value is not None}
