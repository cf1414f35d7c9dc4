"""Which tenants one request reaches: what it may see, and what it may move (R24)."""

from __future__ import annotations

from shared.access.caller import Caller
from shared.refusals import TenantForbidden


class Reach:
    """The tenants that one request reaches."""

    def __init__(self, caller: Caller, moving: bool) -> None:
        self._caller = caller
        self._moving = moving

    def sees(self, tenant: str | None) -> bool:
        """None: a row that names no tenant."""
        return self._caller.may_see(tenant) or (self._moving and self._caller.may_move(tenant))

    def takes(self, tenant: str | None) -> bool:
        """Whether its job may be read. Raises TenantForbidden where it may only be seen, and the request moves."""
        if self._moving and self._caller.may_see(tenant):
            self.check_move(tenant)
        return self.sees(tenant)

    def check_move(self, tenant: str | None) -> None:
        """Raises TenantForbidden, and PermissionError for what the request cannot have seen."""
        if not self._caller.may_move(tenant):
            check_seen(self._caller.may_see(tenant))
            raise TenantForbidden("the token may see this tenant's jobs, and not change them")

    def only(self, tenant: str | None) -> str | None:
        """The tenant that a list is narrowed to; None: none."""
        if self.sees(None):
            return tenant
        own = self._caller.tenant
        check_seen(own is not None and tenant in (None, own))
        return own


def check_seen(allowed: bool) -> None:
    if not allowed:
        # a bug: no request gets this far with a job that it has not read
        raise PermissionError("a job of another tenant")


def sweeper_only() -> PermissionError:
    return PermissionError("only a sweep of every tenant does this")
