"""The row with the position of a sweeper's last sweep, and the counts of its survey so far."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from shared.adapters.tables.keys import GUARD_PARTITION, POSITION_ROW, share_row
from shared.adapters.tables.table import row_at
from shared.ports.sweeps import Backlog, Survey, SweepPosition, TenantCounts, WorkCounts

_SINCE = ("queued_since", "waiting_since", "unacked_since")


def position_entity(share: int, position: SweepPosition) -> dict[str, Any]:
    """Returns the row with a share's position."""
    tenant, job_id = position.survey.after or ("", "")
    return {
        **row_at(GUARD_PARTITION, share_row(POSITION_ROW, share)),
        "look": position.look or "",
        "clear": position.clear or "",
        "admit": position.admit or "",
        "tenant": tenant,
        "job_id": job_id,
        "hourly_at": encode_sweep_time(position.hourly_at),
        "survey": json.dumps(_survey_json(position.survey)),
    }


def position_of(entity: Any) -> SweepPosition:
    """Returns the position in a row. Raises UNDECODABLE if the row has no valid position."""
    survey = json.loads(entity["survey"])
    after = (entity["tenant"], entity["job_id"]) if entity["tenant"] else None
    return SweepPosition(
        look=entity["look"] or None,
        clear=entity["clear"] or None,
        admit=entity["admit"] or None,
        survey=_survey_of(survey, after),
        hourly_at=decode_sweep_time(entity["hourly_at"]),
    )


def _survey_json(survey: Survey) -> dict[str, Any]:
    counts, tenant = survey.counts, survey.of_tenant
    return {
        "is_whole": survey.is_whole,
        "whole_at": encode_sweep_time(survey.whole_at),
        **{name: value for name, value in vars(counts).items() if name not in _SINCE},
        "backlogs": backlogs_json(counts),
        **{name: encode_sweep_time(getattr(counts, name)) for name in _SINCE},
        "of_tenant": vars(tenant),
    }


def _survey_of(found: dict[str, Any], after: tuple[str, str] | None) -> Survey:
    tenant = found["of_tenant"]
    return Survey(
        after=after,
        is_whole=bool(found["is_whole"]),
        whole_at=decode_sweep_time(found["whole_at"]),
        counts=WorkCounts(
            active=Counter(found["active"]),
            modes=Counter(found["modes"]),
            unacked=int(found["unacked"]),
            # a survey that an earlier release started has none
            backlogs=backlogs_of(found.get("backlogs", ())),
            processing=Counter(found.get("processing", {})),
            versions=Counter(found.get("versions", {})),
            **{name: decode_sweep_time(found[name]) for name in _SINCE},
        ),
        of_tenant=TenantCounts(
            queued=Counter(tenant["queued"]),
            **{name: int(tenant[name]) for name in ("rows", "inside", "staged", "waiting")},
        ),
    )


def backlogs_json(counts: WorkCounts) -> list[Any]:
    """Returns the backlogs of the counts as JSON."""
    return [[*key, each.count, encode_sweep_time(each.since)] for key, each in counts.backlogs.items()]


def backlogs_of(found: Iterable[Any]) -> dict[tuple[str, int], Backlog]:
    """Returns the backlogs that `backlogs_json` wrote."""
    return {(service, lane): Backlog(count, decode_sweep_time(since)) for service, lane, count, since in found}


def encode_sweep_time(at: datetime | None) -> str:
    return at.isoformat() if at is not None else ""


def decode_sweep_time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
