"""`SweepMarks` over Azure Tables: one row of the index table for each share of the tenants."""

from __future__ import annotations

import json
from collections import Counter

from azure.data.tables import UpdateMode

from shared.adapters.tables.decoding import first_decoded
from shared.adapters.tables.keys import GUARD_PARTITION, SWEEP_ROW, share_row
from shared.adapters.tables.table import Entity, Tables
from shared.ports.sweeps import SweepMark, WorkCounts


class TablesSweepMark:
    """See `shared.ports.sweeps.SweepMarks`."""

    def __init__(self, account: Tables, table: str) -> None:
        self._account = account
        self._table = table

    async def write(self, share: int, mark: SweepMark) -> None:
        counts = mark.counts
        row = {
            "PartitionKey": GUARD_PARTITION,
            "RowKey": share_row(SWEEP_ROW, share),
            "share": share,
            "ended_at": mark.ended_at,
            "looked_at": mark.looked_at,
            "actions": mark.actions,
            "more": mark.more,
            "active": json.dumps(counts.active),
            "modes": json.dumps(counts.modes),
            "queued_since": counts.queued_since,
            "waiting_since": counts.waiting_since,
            "unacked": counts.unacked,
            "unacked_since": counts.unacked_since,
        }
        table = await self._account.table(self._table)
        # replaced as a whole: the counts of a later release belong to its own pass
        await table.upsert_entity(
            {name: value for name, value in row.items() if value is not None}, mode=UpdateMode.REPLACE
        )

    async def read(self, shares: int) -> dict[int, SweepMark]:
        table = await self._account.table(self._table)
        query = "PartitionKey eq @guards and RowKey ge @first and RowKey lt @end"
        parameters = {"guards": GUARD_PARTITION, "first": SWEEP_ROW, "end": f"{SWEEP_ROW};"}
        found = dict(await first_decoded(table, query, parameters, None, _mark))
        # of a time with more sweepers others may lie there
        return {share: mark for share, mark in found.items() if share < shares}


def _mark(entity: Entity) -> tuple[int, SweepMark]:
    queued_since, unacked_since = entity.get("queued_since"), entity.get("unacked_since")
    return int(entity["share"]), SweepMark(
        ended_at=entity["ended_at"],
        looked_at=int(entity["looked_at"]),
        actions=int(entity["actions"]),
        more=bool(entity["more"]),
        counts=WorkCounts(
            active=Counter(json.loads(entity["active"])),
            modes=Counter(json.loads(entity["modes"])),
            queued_since=queued_since,
            waiting_since=entity.get("waiting_since"),
            unacked=int(entity["unacked"]),
            unacked_since=unacked_since,
        ),
    )
