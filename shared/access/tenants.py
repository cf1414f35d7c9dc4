"""The tenant of a token (R24): from roles and the deployment's mapping of claims, else from the claim that names a
tenant.

The module is pure. `shared.access.caller` uses this module for each token, and `shared.setting_values` for each mapped
tenant.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.contracts.envelope import RESERVED_TENANTS
from shared.core.jobs.routing import normalise
from shared.refusals import TenantMissing

_MAX_TENANT = 128
#: Unicode categories that a tenant's name cannot have: control, invisible, surrogate, private, unassigned, line and
#: paragraph separators
_NO_TEXT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})

#: clients of Microsoft that every user of any directory can use, so that their ids identify no caller
_PUBLIC_CLIENTS: Mapping[str, str] = {
    "04b07795-8ddb-461a-bbee-02f9e1bf7b46": "the Azure CLI",
    "1950a258-227b-4e31-a9cf-717495945fc2": "Azure PowerShell",
    "14d82eec-204b-4c2f-b7e8-296a70dab67e": "Microsoft Graph PowerShell",
    "04f0c124-f2bc-4f59-8241-bf6df9866bbd": "Visual Studio",
    "872cd9fa-d31f-45e0-9eab-6e460a02d1f1": "Visual Studio",
    "aebc6443-996d-45c2-90f0-388ff96faa56": "Visual Studio Code",
}
#: claims with the calling application: in Entra's tokens of version 2 and 1, and of RFC 9068
APP_CLAIMS = ("azp", "appid", "client_id")
#: claims with the authentication of such an application; 0: none, for a program on a user's machine
_PROOF_CLAIMS = ("azpacr", "appidacr")
#: prefix of a role that names a tenant
_TENANT_ROLE = "tenant:"
_OTHER_WAYS = "use a role tenant:NAME, LUCIUS_AUTH_TENANTS, or a client with a secret of its own"


@dataclass(frozen=True, kw_only=True)
class TenantRules:
    """The rules by which the tokens of a deployment name tenants."""

    #: claim with the tenant, if nothing else names one
    claim: str
    #: normalised tenants by claim and value
    mapped: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def tenant_of(claims: Mapping[str, Any], rules: TenantRules) -> str:
    """Returns the normalised tenant of a token whose signature is valid.

    Roles `tenant:NAME` and mapped values come first and must agree. Without such roles and values, the rules' claim
    applies. Raises TenantMissing if the token names no tenant, several tenants or an invalid name, or omits groups that
    can name a tenant. Also raises TenantMissing if the claim has the id of a public client.
    """
    if "groups" in rules.mapped and _leaves_groups_out(claims):
        # an omitted group might name another tenant
        raise TenantMissing(
            "the issuer omitted the caller's groups, which exceed the issuer's limit; let the issuer send only "
            "groups that are assigned to this API"
        )
    roles = (role for role in words_of(claims.get("roles")) if role.startswith(_TENANT_ROLE))
    named = {_check_plain(role.removeprefix(_TENANT_ROLE), "roles") for role in roles}
    for claim, tenants in rules.mapped.items():
        named |= {tenants[value] for value in values_of(claims.get(claim)) if value in tenants}
    if len(named) > 1:
        raise TenantMissing(
            "the token's roles and LUCIUS_AUTH_TENANTS name more than one tenant; grant exactly one tenant"
        )
    if named:
        return named.pop()
    _check_is_not_everybodys(claims, rules.claim)
    return _check_plain(claims.get(rules.claim), rules.claim)


def plain_tenant(claimed: object) -> str | None:
    """Returns the normalised name, or None if the name is invalid.

    Only text that equals its own compatibility form (NFKC) is accepted, so that no two spellings name one tenant.
    """
    plain = isinstance(claimed, str) and all(map(is_text, claimed)) and unicodedata.is_normalized("NFKC", claimed)
    tenant = normalise(str(claimed)) if plain else ""
    return tenant if 0 < len(tenant) <= _MAX_TENANT and tenant not in RESERVED_TENANTS else None


def values_of(claimed: object) -> list[str]:
    """Returns a claim's text as one value, or the texts of its list."""
    return [each for each in (claimed if isinstance(claimed, list) else [claimed]) if isinstance(each, str)]


def words_of(claimed: object) -> frozenset[str]:
    """Returns the parts of a claim's text between spaces (RFC 6749 3.3), or the texts of its list."""
    return frozenset(claimed.split(" ")) if isinstance(claimed, str) else frozenset(values_of(claimed))


def public_client(id_: str) -> str | None:
    """Returns the name of the public client with that id, which every user can use. Returns None if no public client
    has the id.
    """
    return _PUBLIC_CLIENTS.get(id_.strip().lower())


def is_text(char: str) -> bool:
    """Returns True if a character is plain text. Control, invisible, private and unassigned characters are not, and
    neither are separators of lines and paragraphs.
    """
    return unicodedata.category(char) not in _NO_TEXT


def _check_plain(claimed: object, claim: str) -> str:
    if (tenant := plain_tenant(claimed)) is None:
        reserved = " ".join(RESERVED_TENANTS)
        raise TenantMissing(
            f"claim {claim} must name a tenant in 1 to {_MAX_TENANT} visible characters (NFKC), not one of {reserved}"
        )
    return tenant


def _leaves_groups_out(claims: Mapping[str, Any]) -> bool:
    """Returns True if the token omits groups. Entra's overage has a URL of the groups, which the app does not read."""
    elsewhere = claims.get("_claim_names")
    return bool(claims.get("hasgroups")) or (isinstance(elsewhere, Mapping) and "groups" in elsewhere)


def _check_is_not_everybodys(claims: Mapping[str, Any], claim: str) -> None:
    """Raises TenantMissing for a public client, whose id is the same for all its callers."""
    if known := next((name for id_ in values_of(claims.get(claim)) if (name := public_client(id_))), None):
        raise TenantMissing(f"claim {claim} is the id of {known}, a public client; {_OTHER_WAYS}")
    if claim in APP_CLAIMS and any(str(claims.get(proof)) == "0" for proof in _PROOF_CLAIMS):
        raise TenantMissing(f"claim {claim} is the id of a public client; {_OTHER_WAYS}")
