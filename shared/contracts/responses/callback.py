"""What a service hears of its callback."""

from __future__ import annotations

from typing import Literal

from shared.contracts.responses.common import Instant, Response
from shared.contracts.responses.job import JobStatusName


class CallbackOutcome(Response):
    """What came of a reply by HTTP, and whether its job goes on."""

    outcome: Literal["APPLIED", "IGNORED"]
    why: str | None
    """IGNORED: for example STALE_ATTEMPT, LATE, DUPLICATE, JOB_TERMINAL."""
    job_status: JobStatusName
    token: str | None = None
    """A fresh one, as long as the attempt goes on; for the next callback."""
    token_expires_at: Instant | None = None
