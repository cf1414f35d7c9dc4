"""Who may do what (R24): a caller's scopes, and the one tenant whose jobs exist for it.

Pure: `shared.adapters.callers` makes a `Caller` of a token, `triggers.http.routes` asks it before every handler.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.core.routing import normalise
from shared.errors import ScopeMissing, TenantForbidden, TenantMissing

_MAX_TENANT = 128
_MAX_SUBJECT = 256
#: of Unicode: control, invisible, surrogate, private, unassigned; line and paragraph separators
_NO_TEXT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class Scope(StrEnum):
    """What a token may allow; none implies another."""

    READ = "orch:read"
    #: submit, control, redrive
    OPERATE = "orch:operate"
    #: limits
    QUOTA = "orch:quota"
    #: admin routes and rejected messages
    ADMIN = "orch:admin"


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who sent a request."""

    #: who moves a job, as its events say
    actor: str
    scopes: frozenset[Scope]
    #: normalised; None: every tenant's jobs
    tenant: str | None

    def require(self, scope: Scope) -> None:
        """Raises ScopeMissing."""
        if scope not in self.scopes:
            raise ScopeMissing(scope)

    def may_see(self, tenant_id: str) -> bool:
        """Whether that tenant's jobs exist for this caller; tenants are compared normalised."""
        return self.tenant is None or self.tenant == normalise(tenant_id)

    def tenant_for(self, named: str | None) -> str | None:
        """Whose jobs are meant where the request names `named`; None: every tenant's. Raises TenantForbidden."""
        if not named:
            return self.tenant
        if not self.may_see(named):
            raise TenantForbidden
        return named


#: with LUCIUS_AUTH_MODE=none, and on routes of every tenant that need no scope
ANYONE = Caller(actor="caller", scopes=frozenset(Scope), tenant=None)
#: on other routes that need no scope: no tenant has this name, so no job exists for it
NOBODY = Caller(actor="nobody", scopes=frozenset(), tenant="")


def caller_from_claims(claims: Mapping[str, Any], *, tenant_claim: str, all_tenants_role: str) -> Caller:
    """The caller of a token whose signature and times are right.

    Scopes stand in `scp`, `scope` (RFC 9068 2.2.3; both text, spaces between) or `roles` (a list); the role that sees
    every tenant in `roles` alone, since a user can ask for a scope but must be given a role. Raises TenantMissing.
    """
    roles = _words(claims.get("roles"))
    claimed_scopes = _words(claims.get("scp")) | _words(claims.get("scope")) | roles
    everywhere = all_tenants_role in roles
    subject = "".join(char if _is_text(char) else "?" for char in str(claims["sub"])[:_MAX_SUBJECT])
    return Caller(
        actor=f"{subject} ({all_tenants_role})" if everywhere else subject,
        scopes=frozenset(scope for scope in Scope if scope in claimed_scopes),
        tenant=None if everywhere else _tenant(claims.get(tenant_claim), tenant_claim),
    )


def _tenant(claimed: Any, name: str) -> str:
    """Normalised. Only text that is its own compatibility form, so that no two spellings are one tenant."""
    plain = isinstance(claimed, str) and all(map(_is_text, claimed)) and unicodedata.is_normalized("NFKC", claimed)
    tenant = normalise(claimed) if plain else ""
    if not 0 < len(tenant) <= _MAX_TENANT or tenant in (".", ".."):
        raise TenantMissing(name)
    return tenant


def _words(claimed: Any) -> frozenset[str]:
    if isinstance(claimed, str):
        return frozenset(claimed.split(" "))
    return frozenset(each for each in claimed if isinstance(each, str)) if isinstance(claimed, list) else frozenset()


def _is_text(char: str) -> bool:
    return unicodedata.category(char) not in _NO_TEXT
