"""The rights of a caller (R24): scopes, the caller's own tenant, and roles over all tenants.

The module is pure. `shared.adapters.callers` makes a `Caller` from a token. `triggers.http.routes` checks the scope
before the handler of each route that requires a scope.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shared.access.tenants import APP_CLAIMS, TenantRules, is_text, tenant_of, words_of
from shared.core.jobs.routing import normalise
from shared.refusals import ScopeMissing, TenantForbidden, TenantMissing, TokenInvalid

_MAX_SUBJECT = 256


class Scope(StrEnum):
    """A right of a token. No scope implies another."""

    READ = "orch:read"
    #: allows to submit, control, redrive and replay jobs, to run bulk operations, and to close incidents
    OPERATE = "orch:operate"
    #: allows to hold and throttle quotas and, with the right to change every tenant's jobs, to change quotas and admit
    #: waiting jobs
    QUOTA = "orch:quota"
    #: allows to read signed heads, anchors and keys
    AUDIT = "orch:audit"
    #: allows webhooks, rejected messages and admin routes
    ADMIN = "orch:admin"


#: scopes that only an administrator of the directory can grant, as a role; a client can request the others for its user
_BY_ROLE_ONLY = frozenset({Scope.ADMIN})
#: suffixes of the role over all tenants; the role without a suffix is an older name for both
_ALL_READ, _ALL_OPERATE = ":read", ":operate"


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The sender of a request, with a tenant, scopes and rights over all tenants."""

    #: actor of a job's events: kind and id, and the role if it can change every tenant's jobs
    actor: str
    scopes: frozenset[Scope]
    #: normalised tenant of the caller; None if it has none
    tenant: str | None
    #: `True` if it can see every tenant's jobs
    sees_all: bool = False
    #: `True` if it can submit for every tenant, and change their jobs
    moves_all: bool = False
    #: source of its jobs, instead of the one in the request; None means the request's
    source: str | None = None
    #: end of its token, in seconds since 1970; None means no end
    expires: float | None = field(default=None, compare=False)

    def require(self, scope: Scope) -> None:
        """Raises ScopeMissing unless the caller has the scope."""
        if scope not in self.scopes:
            raise ScopeMissing(scope)

    def may_see(self, tenant_id: str | None) -> bool:
        """Returns True if this caller can see that tenant's jobs. Tenants are compared normalised. None means jobs
        without a tenant.
        """
        return self.sees_all or self._owns(tenant_id)

    def may_move(self, tenant_id: str | None) -> bool:
        """Returns True if the caller can submit for that tenant and change that tenant's jobs. Tenants are compared
        normalised.
        """
        return self.moves_all or self._owns(tenant_id)

    def tenant_for(self, named: str | None, *, moving: bool = False) -> str | None:
        """Returns the tenant `named`, or without a name the caller's own tenant. Returns None, which means all tenants,
        if the request has no name and the caller's right covers all tenants. `moving` is True if the request changes
        jobs.

        Raises TenantForbidden if the caller has no right to that tenant's jobs: to change the jobs if `moving` is True,
        else to read the jobs.
        """
        if not named and (self.moves_all if moving else self.sees_all):
            return None
        tenant = named or self.tenant
        if tenant is None or not (self.may_move(tenant) if moving else self.may_see(tenant)):
            raise TenantForbidden
        return tenant

    def _owns(self, tenant_id: str | None) -> bool:
        return tenant_id is not None and self.tenant == normalise(tenant_id)


#: caller with LUCIUS_AUTH_MODE=none, and on routes for every tenant that need no scope
ANYONE = Caller(actor="caller", scopes=frozenset(Scope), tenant=None, sees_all=True, moves_all=True)
#: caller on other routes that need no scope: no tenant has this name, so it can see no job
NOBODY = Caller(actor="nobody", scopes=frozenset(), tenant="")


def caller_from_claims(
    claims: Mapping[str, Any], *, tenants: TenantRules, all_tenants_role: str, source_claim: str | None = None
) -> Caller:
    """Returns the caller of a token whose signature and times are valid.

    Scopes are in `scp` or `scope` (RFC 9068 2.2.3), as text separated by spaces, or in the list `roles`. `orch:admin`
    and the roles over all tenants are accepted in `roles` only. A role over all tenants is `all_tenants_role`, or that
    name with `:read` or `:operate`.

    If the token does not name exactly one tenant, a caller with a role over all tenants has no tenant. Raises
    TenantMissing if such a token has no role over all tenants. Raises TokenInvalid if the value of `source_claim` is
    blank, is not plain text, or has more than 256 characters.
    """
    roles = words_of(claims.get("roles"))
    requested = (words_of(claims.get("scp")) | words_of(claims.get("scope"))) - _BY_ROLE_ONLY
    held = {suffix for suffix in (_ALL_READ, _ALL_OPERATE) if roles & {all_tenants_role, all_tenants_role + suffix}}
    try:
        tenant = tenant_of(claims, tenants)
    except TenantMissing:
        if not held:
            raise
        tenant = None
    actor = _actor(claims)
    if _ALL_OPERATE in held:
        actor += f" ({all_tenants_role if all_tenants_role in roles else all_tenants_role + _ALL_OPERATE})"
    return Caller(
        actor=actor,
        scopes=frozenset(scope for scope in Scope if scope in requested | roles),
        tenant=tenant,
        sees_all=_ALL_READ in held,
        moves_all=_ALL_OPERATE in held,
        source=_source(claims, source_claim),
        expires=_expires(claims),
    )


def _expires(claims: Mapping[str, Any]) -> float | None:
    expires = claims.get("exp")
    return float(expires) if isinstance(expires, int | float) else None


def _source(claims: Mapping[str, Any], claim: str | None) -> str | None:
    """Returns the value of the claim that names a job's source, or None if the token lacks the claim. Raises
    TokenInvalid if the value is blank, or is not plain text of at most `_MAX_SUBJECT` characters.
    """
    if claim is None or (claimed := claims.get(claim)) is None:
        return None
    # as strict as the field of the job request
    if not isinstance(claimed, str) or not claimed.strip() or len(claimed) > _MAX_SUBJECT:
        raise TokenInvalid(f"claim {claim} of the token must be non-blank text of at most {_MAX_SUBJECT} characters")
    if not all(map(is_text, claimed)):
        raise TokenInvalid(f"claim {claim} of the token must not have control or invisible characters")
    return claimed


def _actor(claims: Mapping[str, Any]) -> str:
    """Returns `user:ID`, `app:ID`, or `caller:ID` if the token has no kind. The function reads no claim for a person's
    name.

    ID is the directory's object id (`oid`), which an administrator can look up. Entra's `sub` differs between
    applications. Without `oid`, ID is `sub`. The kind distinguishes an actor from `system` and `service:...`.
    """
    subject = str(claims["sub"])
    object_id = claims.get("oid")
    known = isinstance(object_id, str) and object_id != ""
    match claims.get("idtyp"):
        case "app" | "user" as kind:
            pass
        case _ if known:
            # in an application's own token these two are the same, in a user's never
            kind = "app" if object_id == subject else "user"
        case _:
            kind = "app" if subject in [claims.get(each) for each in APP_CLAIMS] else "caller"
    id_ = str(object_id) if known else subject
    # a parenthesis could imitate a role
    return f"{kind}:" + "".join(char if is_text(char) and char != "(" else "?" for char in id_[:_MAX_SUBJECT])
