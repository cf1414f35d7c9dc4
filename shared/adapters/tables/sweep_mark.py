"""The marks of sweeps, one row for each share of the tenants, and the last replies of platform services."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any

from shared.adapters.tables.columns import UNDECODABLE, join_json, select_known, split_json
from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.keys import GUARD_PARTITION, SERVICES_PARTITION, SWEEP_ROW, share_row
from shared.adapters.tables.sweep_position import backlogs_json, backlogs_of, decode_sweep_time, encode_sweep_time
from shared.adapters.tables.table import Entity, Tables, put_row, row_at, upsert_row
from shared.adapters.tables.table_rows import TableRows, all_of, from_key
from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import Gate, GateKind
from shared.core.gates.tight_quotas import TightQuota
from shared.core.records.canonical import encode_key
from shared.ports.sweeps import Heard, SweepMark, WorkCounts

#: stands for "not silent", since a merge cannot remove a column
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
#: maximum tenants of a mark with suspended webhooks, and with undelivered events, since an entity has at most 1 MiB
_MAX_TENANTS = 1_000
#: fields of a mark that are not stored unchanged
_MARK_JSON = ("counts", "quotas", "suspended_hooks", "undelivered")
#: columns of a mark's counts that are JSON
_JSON = ("active", "modes", "backlogs", "processing", "versions")


class TablesAnswers:
    """Implementation of `shared.ports.sweeps.Answers` over Azure Tables."""

    def __init__(self, account: Tables, gates_table: str) -> None:
        self._gates = TableRows(account, gates_table)

    async def note(self, service: str, at: datetime) -> None:
        await self._merge(service, answered_at=at)

    async def mark(self, service: str, silent_since: datetime | None) -> None:
        await self._merge(service, silent_since=silent_since or _NEVER)

    async def read(self) -> dict[str, Heard]:
        return dict(await self._gates.read_decoded(all_of(SERVICES_PARTITION), None, _heard_of))

    async def _merge(self, service: str, **columns: Any) -> None:
        row = {**row_at(SERVICES_PARTITION, f"SERVICE:{encode_key(service)}"), "service": service}
        await self._gates.write(upsert_row({**row, **columns}))


def _heard_of(row: Entity) -> tuple[str, Heard]:
    since = row.get("silent_since")
    return row["service"], Heard(row.get("answered_at"), None if since == _NEVER else since)


class TablesSweepMark:
    """Implementation of `shared.ports.sweeps.SweepMarks` over Azure Tables."""

    def __init__(self, account: Tables, table: str) -> None:
        self._rows = TableRows(account, table)

    async def write(self, share: int, mark: SweepMark) -> None:
        row = {
            **row_at(GUARD_PARTITION, share_row(SWEEP_ROW, share)),
            "share": share,
            **{name: value for name, value in vars(mark).items() if name not in _MARK_JSON},
            **{name: value for name, value in vars(mark.counts).items() if name not in _JSON},
            "active": json.dumps(mark.counts.active),
            "modes": json.dumps(mark.counts.modes),
            **split_json("backlogs", backlogs_json(mark.counts)),
            **split_json("processing", mark.counts.processing),
            **split_json("versions", mark.counts.versions),
            **split_json("quotas", [_quota_json(each) for each in mark.quotas]),
            **split_json("suspended_hooks", dict(mark.suspended_hooks.most_common(_MAX_TENANTS))),
            **split_json("undelivered", {tenant: at.isoformat() for tenant, at in _oldest(mark.undelivered)}),
        }
        # replaced completely, since counts of a later release belong to its own sweep
        await self._rows.write(put_row({name: value for name, value in row.items() if value is not None}))

    async def read(self, shares: int) -> dict[int, SweepMark]:
        query = from_key(GUARD_PARTITION, SWEEP_ROW, f"{SWEEP_ROW};")
        found = dict(await self._rows.read_decoded(query, None, _mark))
        # rows of other shares may be left from a time with more sweepers
        return {share: mark for share, mark in found.items() if share < shares}


def _mark(entity: Entity) -> tuple[int, SweepMark]:
    counters = {name: Counter(json.loads(entity[name])) for name in ("active", "modes")}
    backlogs = backlogs_of(join_json("backlogs", entity)) if "backlogs" in entity else {}
    for name in ("processing", "versions"):
        counters[name] = Counter(join_json(name, entity)) if name in entity else Counter()
    counts = row_as(WorkCounts, entity, unacked=entity["unacked"], backlogs=backlogs, **counters)
    hooks = Counter(join_json("suspended_hooks", entity))
    others = {"quotas": _quotas_of(entity), "undelivered": _decode_undelivered(entity)}
    read = {"counts": counts, "suspended_hooks": hooks, **others}
    return int(entity["share"]), row_as(SweepMark, entity, **read)


def _oldest(undelivered: Mapping[str, datetime]) -> list[tuple[str, datetime]]:
    return sorted(undelivered.items(), key=itemgetter(1))[:_MAX_TENANTS]


def _decode_undelivered(entity: Entity) -> Mapping[str, datetime]:
    try:
        return {tenant: datetime.fromisoformat(at) for tenant, at in join_json("undelivered", entity).items()}
    except UNDECODABLE:
        # an earlier release has none: the rest of the mark counts
        return {}


def _quotas_of(entity: Entity) -> Sequence[TightQuota]:
    try:
        return [_quota_of(each) for each in join_json("quotas", entity)]
    except UNDECODABLE:
        # an earlier release has none, and a later one may have other kinds: the rest of the mark counts
        return ()


def _quota_json(quota: TightQuota) -> dict[str, Any]:
    gate = quota.gate
    return {
        **vars(quota),
        "gate": [gate.kind.value, gate.tenant, gate.name],
        "oldest_at": encode_sweep_time(quota.oldest_at),
    }


def _quota_of(found: dict[str, Any]) -> TightQuota:
    kind, tenant, name = found["gate"]
    breaker = BreakerState(found["breaker"]) if found["breaker"] is not None else None
    known = select_known(TightQuota, found)
    gate = Gate(GateKind(kind), tenant, name)
    return TightQuota(**{**known, "gate": gate, "breaker": breaker, "oldest_at": decode_sweep_time(found["oldest_at"])})
