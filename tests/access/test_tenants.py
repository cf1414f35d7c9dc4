"""The tenant that the claims of a token name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shared.access.tenants import TenantRules, plain_tenant, tenant_of
from shared.contracts.envelope import Envelope
from shared.ports.rejected import tenant_named_in
from shared.refusals import TenantMissing
from shared.setting_values import tenants
from tests.jobs import START

CLI = "04b07795-8ddb-461a-bbee-02f9e1bf7b46"
RULES = TenantRules(
    claim="azp",
    mapped={
        "azp": {"front-end": "contoso", "daemon": "fabrikam"},
        "groups": {"g-contoso": "contoso", "g-fabrikam": "fabrikam"},
        "tid": {"t-1": "contoso"},
    },
)


def named(**claims: Any) -> str:
    return tenant_of(claims, RULES)


def refused(rules: TenantRules = RULES, **claims: Any) -> str:
    with pytest.raises(TenantMissing) as missing:
        tenant_of(claims, rules)
    return str(missing.value)


@pytest.mark.parametrize(
    ("claims", "tenant"),
    [
        ({"azp": "daemon"}, "fabrikam"),
        ({"azp": CLI, "groups": ["g-other", "g-contoso"]}, "contoso"),
        ({"azp": CLI, "groups": "g-contoso"}, "contoso"),
        ({"azp": "other", "tid": "t-1"}, "contoso"),
        ({"azp": CLI, "roles": ["orch:read", "tenant: Fabrikam "]}, "fabrikam"),
        ({"azp": CLI, "roles": "orch:read tenant:fabrikam"}, "fabrikam"),
        # equal values of several claims do not contradict each other
        ({"azp": "front-end", "groups": ["g-contoso"], "tid": "t-1", "roles": ["tenant:contoso"]}, "contoso"),
        # an unmapped client with its own proof is its own tenant
        ({"azp": "Other", "azpacr": "2"}, "other"),
        ({"azp": "other", "azpacr": 1, "groups": ["g-other"]}, "other"),
    ],
)
def test_a_mapping_comes_before_the_claim(claims: dict[str, Any], tenant: str) -> None:
    """By application, group, role or any other claim; else by the claim that names a tenant."""
    assert named(**claims) == tenant


@pytest.mark.parametrize(
    "claims",
    [
        {"azp": "front-end", "groups": ["g-fabrikam"]},
        {"azp": CLI, "groups": ["g-contoso", "g-fabrikam"]},
        {"azp": CLI, "roles": ["tenant:contoso", "tenant:fabrikam"]},
        {"azp": "daemon", "roles": ["tenant:contoso"]},
    ],
)
def test_two_tenants_are_none(claims: dict[str, Any]) -> None:
    """LUCIUS does not guess the tenant, and reveals neither."""
    why = refused(**claims)
    assert "more than one" in why
    assert "contoso" not in why


@pytest.mark.parametrize("claim", ["azp", "appid", "client_id", "tenant_id"])
@pytest.mark.parametrize("id_", [CLI, CLI.upper(), "1950a258-227b-4e31-a9cf-717495945fc2"])
def test_a_client_of_everybodys_is_no_tenant(claim: str, id_: str) -> None:
    """All callers that sign in with it would see each other's jobs; the detail names the client and the remedy."""
    why = refused(TenantRules(claim=claim), **{claim: id_})
    assert "public client" in why
    assert "Azure" in why
    assert "tenant:NAME" in why


@pytest.mark.parametrize(("claim", "proof"), [("azp", "azpacr"), ("appid", "appidacr")])
def test_a_client_without_a_proof_of_its_own_is_no_tenant(claim: str, proof: str) -> None:
    """Every user of its program gets such a token; a mapping can allow it nevertheless."""
    for none in ("0", 0):
        assert "public client" in refused(TenantRules(claim=claim), **{claim: "desktop", proof: none})
    mapped = TenantRules(claim=claim, mapped={claim: {"desktop": "contoso"}})
    assert tenant_of({claim: "desktop", proof: "0"}, mapped) == "contoso"
    # another claim has no effect
    assert tenant_of({"tenant_id": "contoso", proof: "0"}, TenantRules(claim="tenant_id")) == "contoso"


@pytest.mark.parametrize(
    "overage", [{"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {}}}, {"hasgroups": True}]
)
def test_groups_that_are_left_out_are_not_guessed(overage: dict[str, Any]) -> None:
    """Also where something else names a tenant: a group might name another. Without mapped groups they are moot."""
    assert "groups" in refused(azp="front-end", **overage)
    assert tenant_of({"azp": "daemon", **overage}, TenantRules(claim="azp")) == "daemon"


@pytest.mark.parametrize("groups", [None, [], [7, None], {"g-contoso": 1}, ["G-CONTOSO"], ["g-contoso "], True])
def test_what_only_looks_like_a_group_is_none(groups: object) -> None:
    """Matched whole and exactly."""
    assert "public client" in refused(azp=CLI, groups=groups)


@pytest.mark.parametrize("role", ["tenant:", "tenant:..", "tenant:a\u200b", "tenant:" + "a" * 129])
def test_a_role_that_names_no_plain_tenant_is_refused(role: str) -> None:
    """The next claim does not replace it."""
    assert "roles" in refused(azp="daemon", roles=[role])


def test_a_tenant_cannot_be_requested() -> None:
    """A client can request a scope; only an administrator assigns a role."""
    assert "public client" in refused(azp=CLI, scp="tenant:contoso", scope="tenant:contoso")


@pytest.mark.parametrize("name", ["=platform", " =PlatForm ", "*", " * ", ".", " .. "])
def test_no_tenant_has_a_reserved_name(name: str) -> None:
    """By a token, in a request, in the settings, by the message of a service; with blanks and in capitals too."""
    request = {
        **{"schema_version": "1.0", "request_type": "OCR", "requested_at": START.isoformat(), "payload": {}},
        **{"input_ref": {"uri": "https://a.example/x"}, "output_ref": {"uri": "https://a.example/y"}},
    }
    assert plain_tenant(name) is None
    with pytest.raises(TenantMissing):
        tenant_of({"tenant_id": name}, TenantRules(claim="tenant_id"))
    with pytest.raises(TenantMissing):
        tenant_of({"roles": [f"tenant:{name}"]}, TenantRules(claim="tenant_id"))
    with pytest.raises(ValueError, match="must not be"):
        Envelope.model_validate({**request, "tenant_id": name})
    schema = Draft202012Validator(Envelope.model_json_schema()["properties"]["tenant_id"])
    assert not schema.is_valid(name)
    with pytest.raises(ValueError, match="maps values of claims"):
        tenants(json.dumps({"azp": {"app": name}}))
    assert tenant_named_in(json.dumps({"tenant_id": name})) is None
    longer = f"{name.strip()}s"
    assert plain_tenant(longer) == tenant_named_in(json.dumps({"tenant_id": longer})) == longer.lower()
    assert schema.is_valid(longer)
