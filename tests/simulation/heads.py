"""Heads and anchors of a simulated world, and their invariants (R91).

Whenever heads count as complete until some time, each row that was committed before it has its head. At rest the heads
of each day are the last rows of that day, and each day that is over has one anchor, chained to the one before.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from shared.adapters.kept_blobs import KeptInMemory
from shared.adapters.tables.heads import TablesHeads
from shared.core.audit.heads import DayHead, json_lines, last_of_days
from shared.core.audit.statements import payload_of, sha256
from shared.core.jobs.history import EventType
from shared.core.jobs.job import Event
from shared.core.jobs.states import JobStatus
from shared.core.records.chained_log import Entry
from shared.errors import LedgerUnavailable
from shared.operations.audit.complete_heads import check_heads
from shared.operations.audit.write_anchors import anchor_name, part_name, write_anchors
from shared.operations.process.context import Context
from shared.operations.process.parts import Audit
from shared.ports.heads import Completed
from shared.ports.signing import PublicKey
from tests.memory_stores import MemoryFeed
from tests.row_views import at_once
from tests.simulation.host import HostDown

if TYPE_CHECKING:
    from tests.simulation.world import World

FIRST, LAST = date(2000, 1, 1), date(2100, 1, 1)


class _CheckedHeads(TablesHeads):
    """Compares each claim of completeness with the commits."""

    def __init__(self, heads: Heads, feed: MemoryFeed) -> None:
        super().__init__(feed._rows.account, "feed")
        self._checked = heads

    async def write_completed(self, tenant: str, completed: Completed) -> Completed:
        before = await self.read_completed(tenant)
        written = await super().write_completed(tenant, completed)
        if completed.until is not None and completed.until != before.until:
            self._checked.check_claim(tenant, completed.until)
        return written


class _Signer:
    """See `shared.ports.signing.Signer`. Signs by a digest: no world has to verify it."""

    async def public_key(self) -> PublicKey:
        return PublicKey(key_id="0" * 64, pem="")

    async def sign(self, key: PublicKey, message: bytes) -> bytes:
        return hashlib.sha256(message).digest()


class Heads:
    """The heads of the world's feeds, its signer and its anchors."""

    def __init__(self, world: World, feed: MemoryFeed) -> None:
        self._world = world
        self.store = _CheckedHeads(self, feed)
        self.kept = KeptInMemory()
        self.claims = 0
        #: rows by feed and name
        self._rows: defaultdict[tuple[str, str], dict[int, Event | Entry]] = defaultdict(dict)

    def part(self) -> Audit:
        """As a process begins."""
        port = self._world._port
        return Audit(
            heads=port(self.store, LedgerUnavailable), signer=_Signer(), kept=port(self.kept, LedgerUnavailable)
        )

    def note(self, tenant: str, name: str, row: Event | Entry) -> None:
        """A row that is committed. A job that was withdrawn before it began is in no feed, and has no head."""
        if row.type != EventType.JOB_WITHDRAWN:
            self._rows[tenant, name][row.seq] = row

    async def prune(self, context: Context) -> None:
        """Prunes as requests and triggers/prune_timer.py do; any part of it dies with its process."""
        host = self._world.host
        with suppress(HostDown, LedgerUnavailable):
            for tenant in await host.serve(context.require_events().feed.tenants()):
                await host.serve(check_heads(context, tenant, lambda: False))
        with suppress(HostDown, LedgerUnavailable):
            await host.serve(write_anchors(context))

    def recorded(self, tenant: str) -> dict[tuple[str, date], DayHead]:
        found = at_once(self.store.list_days(tenant, FIRST, LAST, limit=100_000))
        return {(head.name, head.day): head for _, head in found}

    def check_claim(self, tenant: str, until: datetime) -> None:
        """Heads count as complete until then."""
        self.claims += 1
        recorded = self.recorded(tenant)
        for (of, name), rows in self._rows.items():
            due = [row for row in rows.values() if row.at < until and not _is_late(row)]
            for head in last_of_days(name, due) if of == tenant else ():
                found = recorded.get((name, head.day))
                if found is None or found.seq < head.seq:
                    self._world.add_violation(
                        f"the heads of {tenant} are complete until {until}, but {head} is recorded as {found}"
                    )

    def unfinished(self) -> Iterator[str]:
        """Yields the rows without a head."""
        for (tenant, name), rows in self._rows.items():
            recorded = self.recorded(tenant)
            for head in last_of_days(name, [row for row in rows.values() if not _is_late(row)]):
                found = recorded.get((name, head.day))
                if found is None or found.seq < head.seq or found.hash != rows[found.seq].hash:
                    yield f"{head} of {tenant} is recorded as {found}"

    def check(self) -> None:
        """At rest."""
        for wrong in self.unfinished():
            self._world.add_violation(wrong)
        self._world.report.events["claims of complete heads"] += self.claims
        days = sorted(date.fromisoformat(name[5:15]) for name in self.kept.files if name.startswith("days/"))
        previous = ""
        for number, day in enumerate(days):
            if day != days[0] + timedelta(days=number):
                self._world.add_violation(f"the days with anchors have a gap: {days}")
            payload = payload_of(json.loads(self.kept.files[anchor_name(day)]))
            anchor, parts = json.loads(payload)["predicate"], list[str]()
            for tenant in {tenant for tenant, _ in self._rows}:
                if (part := self.kept.files.get(part_name(tenant, day))) is not None:
                    parts.append(sha256(part))
                    heads = sorted(
                        (each for each in self.recorded(tenant).values() if each.day == day), key=lambda each: each.name
                    )
                    if part.partition(b"\n")[2] != json_lines(each.line for each in heads):
                        self._world.add_violation(f"the part of {tenant} on {day} has other heads")
            if (anchor["previous"], anchor["parts"]) != (previous, sorted(parts)):
                self._world.add_violation(f"the anchor of {day} is {anchor}, after {previous}, with {sorted(parts)}")
            previous = sha256(payload)
            self._world.report.events["anchors"] += 1


def _is_late(row: Event | Entry) -> bool:
    """Returns whether it is a reply that an ended job ignored: if its hint is lost, its head is written when the job is
    cleared.
    """
    return isinstance(row, Event) and row.type == EventType.REPLY_IGNORED and JobStatus(row.job_to).terminal
