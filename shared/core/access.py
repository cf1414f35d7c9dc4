"""Who may do what (FEATURES A10): a caller's scopes, and the one tenant whose jobs exist for it.

Pure: `shared.adapters.jwt_callers` makes a `Caller` of a token, `triggers.routes` asks it before every handler.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from shared.core.routing import normalise
from shared.errors import Refusal


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
    """Whom a request comes from."""

    #: who moves a job, as its events say
    actor: str
    scopes: frozenset[Scope]
    #: normalised; None: every tenant's jobs
    tenant: str | None

    def require(self, scope: Scope) -> None:
        """Raises Refusal (403) naming the scope, as RFC 6750 3.1 has it."""
        if scope not in self.scopes:
            raise Refusal(
                403,
                "SCOPE_MISSING",
                f"this needs the scope {scope}",
                headers={"WWW-Authenticate": f'Bearer realm="lucius", error="insufficient_scope", scope="{scope}"'},
            )

    def sees(self, tenant_id: str) -> bool:
        """Whether that tenant's jobs exist for this caller; tenants are compared normalised."""
        return self.tenant is None or self.tenant == normalise(tenant_id)

    def tenant_of(self, named: str | None) -> str | None:
        """Whose jobs are meant where the request names `named`; None: every tenant's. Raises Refusal (403)."""
        if not named:
            return self.tenant
        if not self.sees(named):
            raise Refusal(403, "TENANT_FORBIDDEN", "the token is for another tenant than the request names")
        return named


#: with LUCIUS_AUTH_MODE=none
ANYONE = Caller(actor="caller", scopes=frozenset(Scope), tenant=None)
