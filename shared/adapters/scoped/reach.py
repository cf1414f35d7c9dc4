"""The tenants that a request can read and change (R24)."""

from __future__ import annotations

from functools import cached_property

from shared.access.caller import Caller
from shared.core.records.canonical import encode_key
from shared.refusals import TenantForbidden


class Reach:
    """The tenants that one request can read and change."""

    def __init__(self, caller: Caller, moving: bool) -> None:
        self._caller = caller
        self._moving = moving

    def sees(self, tenant: str | None) -> bool:
        """Returns True if the request can read that tenant's rows. `tenant` None means rows without a tenant."""
        return self._caller.may_see(tenant) or (self._moving and self._caller.may_move(tenant))

    def takes(self, tenant: str | None) -> bool:
        """Returns True if the tenant's job can be read. Raises TenantForbidden if the request changes jobs and the
        caller can only read this job.
        """
        if self._moving and self._caller.may_see(tenant):
            self.check_move(tenant)
        return self.sees(tenant)

    def check_see(self, tenant: str | None) -> None:
        """Raises PermissionError for a tenant that the request cannot read."""
        check_seen(self.sees(tenant))

    def check_move(self, tenant: str | None) -> None:
        """Raises TenantForbidden for a tenant that the request can only read, and PermissionError for a tenant that the
        request cannot read.
        """
        _check_move(may_move=self._caller.may_move(tenant), may_see=self._caller.may_see(tenant))

    def check_see_partition(self, partition: str) -> None:
        """Raises PermissionError for a partition that the request cannot read. Keys are compared exactly. Another case
        or a longer name is another tenant.
        """
        caller = self._caller
        check_seen(caller.sees_all or (self._moving and caller.moves_all) or partition == self._own_partition)

    def check_move_partition(self, partition: str) -> None:
        """Raises TenantForbidden for a partition that the request can only read, and PermissionError for a partition
        that the request cannot read.
        """
        caller, is_own = self._caller, partition == self._own_partition
        _check_move(may_move=caller.moves_all or is_own, may_see=caller.sees_all or is_own)

    def only(self, tenant: str | None) -> str | None:
        """Returns the tenant to which a list is restricted, or None for an unrestricted list. Raises PermissionError
        for a tenant that the request cannot read.
        """
        if self.sees(None):
            return tenant
        own = self._caller.tenant
        check_seen(own is not None and tenant in (None, own))
        return own

    @cached_property
    def _own_partition(self) -> str | None:
        """Returns the partition key of the caller's own tenant, or None if the caller has no tenant."""
        return encode_key(self._caller.tenant) if self._caller.tenant else None


def check_seen(allowed: bool) -> None:
    if not allowed:
        # a bug: a request must not use rows that its caller cannot see
        raise PermissionError("the row belongs to another tenant")


def _check_move(*, may_move: bool, may_see: bool) -> None:
    if not may_move:
        check_seen(may_see)
        raise TenantForbidden("the token grants only reading of this tenant's jobs; use a token of this tenant")
