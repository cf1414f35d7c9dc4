"""Errors of requests for signed heads (R91)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from shared.refusals import Refused


class AuditOff(Refused, status=404):
    """Signed heads are disabled: `LUCIUS_AUDIT_KEY` is unset. An operator must set the key, which requires
    `LUCIUS_EVENTS=feed` or `topic`.
    """

    text = (
        "signed heads are disabled in this deployment: LUCIUS_AUDIT_KEY is unset; an operator must set the key, which "
        "requires LUCIUS_EVENTS=feed or topic"
    )


class HeadsIncomplete(Refused, status=409):
    """The heads of the window are incomplete; retry after `Retry-After` seconds, or end the window earlier."""

    def __init__(self, complete_until: datetime | None, retry_after_s: float) -> None:
        known = f"complete until {_text(complete_until)}" if complete_until is not None else "not checked yet"
        super().__init__(
            f"the heads of the window are incomplete ({known}); retry after "
            f"{max(1, math.ceil(retry_after_s))} s, or end the window earlier"
        )
        self.headers = {"Retry-After": str(max(1, math.ceil(retry_after_s)))}
        self.members = {"complete_until": _text(complete_until) if complete_until is not None else None}


class HeadsMissing(Refused, status=409):
    """The window begins before the first retained head, or the tenant has no heads. `earliest` is the earliest valid
    `since`. If `earliest` is null, retry after an event of the tenant."""

    def __init__(self, earliest: datetime | None) -> None:
        super().__init__(
            f"the window begins before the first retained head; begin the window at {_text(earliest)}"
            if earliest is not None
            else "the tenant has no heads yet; retry after an event of the tenant"
        )
        self.members = {"earliest": _text(earliest) if earliest is not None else None}


class SigningUnavailable(Refused, status=503):
    """The signing key is missing or does not respond; retry after `Retry-After` seconds, or report the error to an
    operator.
    """

    text = "the signing key is missing or does not respond; retry after 60 seconds, or report the error to an operator"
    headers: Mapping[str, str] = {"Retry-After": "60"}


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
