"""The hooks of azd that create, change and delete the app's registration in Entra: only their own."""

from __future__ import annotations

import re
from typing import Any

from tests.infra.hook_walks import HERE, preprovision, walk
from tests.infra.walk import Walk

__all__ = ["walk"]  # a fixture

TAG = "lucius:sub-1:dev"
ROLES = {"orch:read", "orch:operate", "orch:quota", "orch:audit", "orch:admin"}
ROLES |= {"orch:all-tenants:read", "orch:all-tenants:operate"}


def registration(**changes: Any) -> dict[str, Any]:
    """Returns a registration of another owner, with additions."""
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
    """Neither changed nor used nor, later, deleted: it is not LUCIUS's, with any name."""
    walk.know(apps=[registration()])
    assert preprovision(walk).code == 0
    theirs, ours = walk.state()["apps"]
    assert theirs == registration()
    assert walk.state()["azd"]["LUCIUS_AUTH_AUDIENCE"] == ours["appId"]
    walk.run("sh infra/hooks/postdown.sh", **walk.state()["azd"])
    assert walk.state()["apps"] == [theirs]


def test_the_same_environment_of_another_subscription_has_its_own(walk: Walk) -> None:
    """Two users who run `azd env new dev` in one tenant do not share a registration."""
    walk.know(apps=[registration(tags=["lucius:sub-2:dev"])])
    assert preprovision(walk).code == 0
    assert len(walk.state()["apps"]) == 2


def test_a_registration_that_carries_our_tag_and_is_not_ours_stops(walk: Walk) -> None:
    """Any user of a tenant can create one with our tag beforehand, and would own our audience."""
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
    """The registration is marked as soon as it is created, so the next run uses it and postdown can delete it."""
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
    assert "sha256sum and shasum are missing; install one" in preprovision(walk).refusal
    assert walk.state()["apps"] == []


def test_an_audience_that_is_given_is_taken(walk: Walk) -> None:
    done = preprovision(walk, LUCIUS_AUTH_AUDIENCE="mine")
    assert done.code == 0
    assert not [line for line in done.asked if " ad " in line or " rest " in line or line.startswith("azd")]


def test_postdown_may_run_twice_and_stops_where_it_cannot_see(walk: Walk) -> None:
    """It deletes preprovision's registration, ignores a deleted one, and only then forgets it."""
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
    """A mark of an earlier hook may name another user's."""
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
    """Each role is read, and granted if it is missing, also to a new principal."""
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
