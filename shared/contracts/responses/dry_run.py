"""What a request would become."""

from __future__ import annotations

from typing import Any, Literal

from shared.contracts.responses.common import Response


class DryRoute(Response):
    """Where its directives would go."""

    lane: int
    topic: str
    routing_key_used: str
    resolved_mode: Literal["DEFAULT", "BURST"]
    decision_source: str


class DryIdempotency(Response):
    """Whether the request is a job already."""

    claim: str
    verdict: Literal["NEW", "DUPLICATE", "CONFLICT"]
    jobId: str | None = None
    """The job that it is, or that has its key."""


class DryQuota(Response):
    """Whether a limit would refuse the job now."""

    verdict: Literal["ADMITTED", "REFUSED"]
    """A duplicate is always admitted."""
    limit: str | None
    """The limit that would refuse it."""
    tenant_limit: int | None
    """How many active jobs the tenant may have; null: as many as it wants."""
    tenant_active: int | None
    """How many it has, where there is a limit."""


class DryRun(Response):
    """All that a POST would decide; nothing was written."""

    dryRun: Literal[True]
    tenant: str
    """As it is compared: trimmed and lower-cased."""
    protocol_id: str
    protocol_version: int
    route: DryRoute
    idempotency: DryIdempotency
    quota: DryQuota
    directives: list[dict[str, Any]]
    """The directive of each step, without what only an attempt has."""
