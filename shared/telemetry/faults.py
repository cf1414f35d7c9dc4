"""What did not go through: a dependency that does not answer, a limit that was reached."""

from __future__ import annotations

from shared.errors import (
    BusUnavailable,
    ConfigurationUnavailable,
    KeysUnavailable,
    LedgerUnavailable,
    LuciusError,
    OrchestrationUnavailable,
    PublishUnavailable,
)
from shared.telemetry.lines import warn
from shared.telemetry.meters import increment

_DEPENDENCIES: tuple[tuple[type[LuciusError], str], ...] = (
    (LedgerUnavailable, "ledger"),
    (PublishUnavailable, "bus"),
    (BusUnavailable, "bus"),
    (OrchestrationUnavailable, "orchestration"),
    (ConfigurationUnavailable, "configuration"),
    (KeysUnavailable, "issuer"),
)


def record_fault(error: Exception) -> None:
    """A call that a dependency did not answer; anything else is not counted."""
    for kind, dependency in _DEPENDENCIES:
        if isinstance(error, kind):
            increment("dependency_faults_total", dependency=dependency)
            return


def record_limit(tenant: str, limit: str) -> None:
    """A request was refused with 429."""
    increment("quota_exceeded_total", tenant=tenant, limit=limit)
    warn("LIMIT_REACHED", tenant_id=tenant, limit=limit)
