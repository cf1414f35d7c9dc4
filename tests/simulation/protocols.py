"""The shipped three-step protocol, and kin of it with a parallel group, with caps, and with heartbeats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.core.registry import Protocol, Registry
from tests import jobs

SEQUENCE = "OCR_EMBEDDING_SIS"
GROUP = "GROUP"
CAPPED = "CAPPED"
ONE_STEP = "OCR"

#: each as often as it occurs here
REQUEST_TYPES = (SEQUENCE, GROUP, CAPPED)


def registry() -> Registry:
    shipped = jobs.registry().find(SEQUENCE)
    assert shipped is not None
    side_by_side = {"parallel": (("embedding", "sis"),)}
    first, *others = shipped.definition.steps
    beating = first.model_copy(update={"heartbeat_cadence_s": 200.0, "total_timeout_s": 2400.0, "attempt_max_s": 900.0})
    capped = {"total_timeout_s": 3600.0, "steps": (beating, *others)}
    one_step = jobs.registry().find(ONE_STEP)
    assert one_step is not None
    return Registry([shipped, one_step, _kin(shipped, GROUP, side_by_side), _kin(shipped, CAPPED, capped)])


def _kin(protocol: Protocol, request_type: str, update: dict[str, Any]) -> Protocol:
    named = {"protocol_id": request_type.lower(), "request_type": request_type}
    return replace(protocol, definition=protocol.definition.model_copy(update={**named, **update}))
