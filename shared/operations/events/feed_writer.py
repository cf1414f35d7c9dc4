"""Writes the tenant's event feed from hints: exactly once, ordered per job, without gaps (R72).

HEAD's ETag orders all writers of a tenant's feed. An unchanged ETag also proves that the process's memory of HEAD and
of the last event of each job is current. So a batch of hints usually costs one transaction. Rows are read only for a
job whose hint is incomplete, or does not follow the last row in the feed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from shared import telemetry
from shared.core.audit.heads import DayHead, last_of_days
from shared.core.events.hints import Hint, callback_names
from shared.core.events.public_events import Issuer, PublicEvent, encode_json, make_public_events, number_event
from shared.core.events.public_log_events import feed_of, gate_events, incident_events
from shared.core.incidents import find_opening_time
from shared.core.records.chained_log import Entry
from shared.core.webhooks.webhooks import Delivery
from shared.errors import Conflict, Contended, LuciusError
from shared.operations.incidents.incidents import find_incident
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import MAX_TRIES, Context
from shared.operations.process.known_feeds import KnownFeed
from shared.operations.process.parts import Events
from shared.operations.process.topic_relay import add_sent
from shared.operations.webhooks.match_hooks import Targets, callbacks_of, note_callbacks, pending_of, targets_of
from shared.operations.webhooks.send_deliveries import send_tries
from shared.ports.feed import FeedEvent, FeedWrite, Head

#: maximum rows of one transaction, including HEAD and SEEN rows (Azure allows 100), and maximum bytes of its events
MAX_ROWS, MAX_BYTES = 90, 1_000_000
#: waits before events that could not be written are tried again; then the sweeper takes over
AGAIN_AFTER = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30))
#: maximum EVENT rows of one read
_MAX_READ = 500
#: maximum age of a log entry of an incident without a job for the feed; its SEEN row is deleted a day later (R88)
FORGETTABLE_AFTER = timedelta(days=30)
#: minimum age at which a job can be archived, which deletes its SEEN row
_YOUNG = timedelta(minutes=10)
#: maximum tenants at the same time
_AT_ONCE = 8
#: conflicts after which the process of a commit leaves its hints to the queue. Each write after one of another process
#: meets the first conflict. With 3 here, half of the hints of 3 jobs a second became messages, with 6 none
_OWN_TRIES = 6
#: maximum seconds of that write, since the end of a job waits for it, and the hints of other tenants wait behind it
_OWN_WRITE_S = 2.0


@dataclass
class _Transaction:
    """The rows collected for one transaction."""

    seen: dict[str, int] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    events: list[tuple[str, PublicEvent]] = field(default_factory=list)
    #: for each event, the webhooks that get it
    targets: list[Targets] = field(default_factory=list)
    size: int = 0
    #: heads by name and day
    heads: dict[tuple[str, date], DayHead] = field(default_factory=dict)

    def takes(
        self, job_id: str, events: Sequence[PublicEvent], targets: Sequence[Targets], heads: Sequence[DayHead]
    ) -> bool:
        """Returns `True` if the events of one EVENT row fit. The feed gets all of these events together, or none. An
        empty transaction takes any row.
        """
        rows = 1 + len(self.seen | {job_id: 0}) + len(self.events) + len(events)
        rows += len(self.heads.keys() | {(head.name, head.day) for head in heads})
        rows += sum(map(len, self.targets)) + sum(map(len, targets))
        fits = rows <= MAX_ROWS and self.size + sum(len(encode_json(each)) for each in events) <= MAX_BYTES
        return fits or not self.seen

    def add(
        self,
        job_id: str,
        seq: int,
        events: Sequence[PublicEvent],
        targets: Sequence[Targets],
        heads: Sequence[DayHead],
    ) -> None:
        self.seen[job_id] = seq
        self.heads |= {(head.name, head.day): head for head in heads}
        self.events += [(job_id, each) for each in events]
        self.targets += targets
        self.size += sum(len(encode_json(each)) for each in events)


async def write_feed(context: Context, hints: Sequence[Hint]) -> None:
    """Writes the events that the hints name. For events that cannot be written now, sends the hints again later, at
    most three times. Raises no error of LUCIUS.
    """
    if (events := context.events) is not None:
        await _of_each_tenant(events, hints, lambda *hinted: _FeedWriter(context, events, *hinted).run())


async def write_own(context: Context, hints: Sequence[Hint]) -> list[Hint]:
    """Writes the events of commits of this process, in at most `_OWN_WRITE_S` (2) seconds and `_OWN_TRIES` (6) tries.
    Returns the hints whose events were not written. Raises nothing.
    """
    events, left = context.require_events(), list[Hint]()
    until = asyncio.get_running_loop().time() + _OWN_WRITE_S

    async def one(tenant: str, of_tenant: Sequence[Hint]) -> None:
        left.extend(await _FeedWriter(context, events, tenant, of_tenant).run_own(until))

    await _of_each_tenant(events, hints, one)
    return left


async def _of_each_tenant(
    events: Events, hints: Sequence[Hint], write: Callable[[str, Sequence[Hint]], Awaitable[None]]
) -> None:
    of_tenants: defaultdict[str, list[Hint]] = defaultdict(list)
    for hint in hints:
        of_tenants[hint.tenant].append(hint)
    await run_concurrently(of_tenants.items(), lambda hinted: write(*hinted), limit=_AT_ONCE)
    if events.relay is not None:
        await events.relay.pass_on(of_tenants)


class _FeedWriter:
    """The writer of the events of one tenant's hints."""

    def __init__(self, context: Context, events: Events, tenant: str, hints: Sequence[Hint]) -> None:
        self._context = context
        self._events = events
        self._feed = events.feed
        self._tenant = tenant
        self._todo: OrderedDict[str, list[Hint]] = OrderedDict()
        for hint in hints:
            self._todo.setdefault(hint.key, []).append(hint)
        self._failed: list[Hint] = []
        #: written deliveries, to send
        self._pending: list[Delivery] = []
        #: the first transaction assumes that the first hint of a new job is the first in the feed; a conflict disproves
        #: that
        self._trusts_first = True

    async def run(self) -> None:
        try:
            await self._write_all()
        except LuciusError as fault:
            telemetry.record_fault(fault, "FEED_UNWRITTEN", tenant_id=self._tenant)
            # the outcome of the write is unknown
            self._events.known_feeds.forget(self._tenant)
            self._failed += [hint for hints in self._todo.values() for hint in hints]
        await send_tries(self._context, self._pending)
        await self._hint_again()

    async def run_own(self, until: float) -> list[Hint]:
        """Writes the events of the hints. Returns the hints that were not written by `until`, a time of the event loop.
        Raises nothing.
        """
        try:
            async with asyncio.timeout_at(until):
                await self._write_all(_OWN_TRIES)
        except Exception as fault:
            # the outcome of the write is unknown
            self._events.known_feeds.forget(self._tenant)
            if not isinstance(fault, LuciusError):
                telemetry.record_fault(fault, "FEED_UNWRITTEN", tenant_id=self._tenant)
        # outside of the limit: they have one of their own, and a cancelled send closes the link
        await send_tries(self._context, self._pending)
        return self._failed + [hint for hints in self._todo.values() for hint in hints]

    async def _write_all(self, max_conflicts: int = MAX_TRIES) -> None:
        """Writes the events of all hints. Raises Contended, LedgerRefused, LedgerUnavailable."""
        # a loop of its own, since conflicts of all its transactions count together
        conflicts = 0
        while self._todo:
            known = await self._events.known_feeds.of(self._feed, self._tenant, self._events.hooks)
            try:
                async with known.turn:
                    self._pending += await self._write_some(known)
            except Conflict:
                self._events.known_feeds.forget(self._tenant)
                self._trusts_first = False
                conflicts += 1
                if conflicts == max_conflicts:
                    raise Contended("concurrent writers changed the feed at every try") from None
                await self._context.wait_after_conflict(conflicts)

    async def _write_some(self, known: KnownFeed) -> Sequence[Delivery]:
        """Writes one transaction. Returns its deliveries. Raises Conflict, LedgerRefused, LedgerUnavailable."""
        transaction, finished = _Transaction(), []
        pending: Sequence[Delivery] = ()
        for job_id in list(self._todo):
            try:
                if await self._fill(transaction, known, job_id):
                    finished.append(job_id)
            except LuciusError as fault:
                whose = {"jobId": job_id} if self._todo[job_id][0].job_id else {"subject": job_id}
                telemetry.record_fault(fault, "JOB_UNREAD", **whose, tenant_id=self._tenant)
                self._failed += self._todo.pop(job_id)
        if transaction.seen:
            relay = self._events.relay
            write = add_sent(relay, self._write_of(transaction, known.head))
            pending = write.pending
            await note_callbacks(self._context, self._tenant, known, pending)
            known.head = await self._feed.write(write)
            if relay is not None:
                relay.wrote(write)
            known.remember(transaction.seen)
            self._events.tails.grew(self._tenant, known.head.number)
        for job_id in finished:
            del self._todo[job_id]
        for _, event in transaction.events:
            # the hint of its JOB_REDRIVEN or JOB_REPLAYED row may be lost, and no process checks an ended job
            for named in ("redriveOf", "replayOf"):
                if (old := event["data"]["payload"].get(named)) is not None:
                    self._todo.setdefault(old, [Hint(tenant=self._tenant, job_id=old)])
        return pending

    async def _fill(self, transaction: _Transaction, known: KnownFeed, job_id: str) -> bool:
        """Adds the events of the job's hints to the transaction. Returns `False` if not all events fit. Raises errors
        of the ledger.
        """
        hints = sorted(self._todo[job_id], key=lambda hint: hint.first)
        seen, is_first = known.seen.get(job_id), self._is_first(hints[0])
        if seen is None and self._trusts_first and is_first:
            seen = 0
        elif seen is None:
            seen = await self._feed.read_seen(self._tenant, job_id)
            known.remember({job_id: seen})
        # if the feed has nothing of an older job, the job may be deleted with all its rows
        callbacks = callbacks_of(hints)
        rows = _following(hints, seen) if (seen or is_first) and callbacks is not None else None
        heads = _heads_of(hints) if self._context.audit is not None else ()
        is_all, before = True, seen
        if rows is None or heads is None:
            rows, callbacks, is_all, heads = await self._read(hints[0], seen)
        for seq, events in rows:
            found = targets_of(self._context, known, events, callbacks or ())
            of_row = [head for head in heads if before < head.seq <= seq]
            if not transaction.takes(job_id, events, found, of_row):
                return False
            transaction.add(job_id, seq, events, found, of_row)
            before = seq
            if not seen:
                transaction.new.add(job_id)
        return is_all

    def _is_first(self, hint: Hint) -> bool:
        """Returns `True` if the hint begins with the job's creation, at most ten minutes ago."""
        if hint.first != 1 or not hint.events:
            return False
        return self._context.clock.now() - datetime.fromisoformat(hint.events[0]["time"]) < _YOUNG

    async def _read(
        self, hint: Hint, seen: int
    ) -> tuple[list[tuple[int, Sequence[PublicEvent]]], tuple[str, ...], bool, tuple[DayHead, ...]]:
        """Returns the events after row `seen`, the callbacks to call for them, `True` if these are all events, and the
        heads of the rows. Deleted rows have no events and no heads.
        """
        if not (job_id := hint.job_id):
            entries, heads = await _entries_after(self._context, hint, seen, _MAX_READ)
            return entries, (), len(entries) < _MAX_READ, self._if_audited(heads)
        stored = await self._context.ledger.read(job_id)
        if stored is None or stored.record.job.tenant != self._tenant:
            return [], (), True, ()
        rows, job = await self._context.ledger.events(job_id, after_seq=seen, limit=_MAX_READ), stored.record.job
        found: list[tuple[int, Sequence[PublicEvent]]] = [(row.seq, make_public_events(row, job)) for row in rows]
        heads = self._if_audited(last_of_days(hint.head_name, rows))
        return found, callback_names(job.callback_urls), len(rows) < _MAX_READ, heads

    def _if_audited(self, heads: tuple[DayHead, ...]) -> tuple[DayHead, ...]:
        return heads if self._context.audit is not None else ()

    def _write_of(self, transaction: _Transaction, head: Head) -> FeedWrite:
        settings, now = self._context.settings, self._context.clock.now()
        issuer = Issuer(settings.environment, settings.public_url)
        events = [
            FeedEvent(
                number=number,
                event_id=event["id"],
                event_type=event["type"],
                job_id=event["data"].get("jobId", ""),
                at=now,
                text=encode_json(number_event(event, number, issuer)).decode(),
            )
            for number, (_, event) in enumerate(transaction.events, head.number + 1)
        ]
        new = frozenset(transaction.new & transaction.seen.keys())
        pending = pending_of(self._tenant, events, transaction.targets)
        return FeedWrite(
            tenant=self._tenant,
            head=head,
            events=events,
            seen=transaction.seen,
            new=new,
            pending=pending,
            heads=[*transaction.heads.values()],
            # a process without heads removes this value: from then on heads have a gap
            heads_since=(head.heads_since or now) if self._context.audit is not None else None,
            at=now,
        )

    async def _hint_again(self) -> None:
        by_tries: defaultdict[int, list[Hint]] = defaultdict(list)
        for hint in self._failed:
            if hint.tries < len(AGAIN_AFTER):
                by_tries[hint.tries].append(replace(hint, first=0, events=None, tries=hint.tries + 1))
        for tries, hints in by_tries.items():
            await self._events.hinting.again(hints, self._context.clock.now() + AGAIN_AFTER[tries])


def _following(hints: Sequence[Hint], seen: int) -> list[tuple[int, Sequence[PublicEvent]]] | None:
    """Returns the events of the hints after row `seen`, by row. Returns None if a row in between is missing or
    unknown.
    """
    found: list[tuple[int, Sequence[PublicEvent]]] = []
    for hint in hints:
        if hint.last is not None and hint.last <= seen:
            continue
        if hint.last is None or hint.events is None or hint.first != seen + 1:
            return None
        rows: defaultdict[int, list[PublicEvent]] = defaultdict(list)
        for event in hint.events:
            rows[event["jobseq"]].append(event)
        # the last row counts even without a public event
        found += [(seq, events) for seq, events in sorted(rows.items()) if hint.first <= seq < hint.last]
        found.append((hint.last, rows[hint.last]))
        seen = hint.last
    return found


def _heads_of(hints: Iterable[Hint]) -> tuple[DayHead, ...] | None:
    """Returns the heads of the hints, or None if a process without heads sent one of them."""
    found: list[DayHead] = []
    for hint in hints:
        if hint.heads is None:
            return None
        found += hint.heads
    return tuple(found)


async def _entries_after(
    context: Context, hint: Hint, seen: int, limit: int
) -> tuple[list[tuple[int, Sequence[PublicEvent]]], tuple[DayHead, ...]]:
    """Returns at most `limit` log entries after number `seen`, each with its public events, and the heads of the
    entries.

    Entries from before the feed existed count as entries without public events. So do the entries of an incident whose
    SEEN row may be deleted. Raises LedgerUnavailable.
    """
    rows = await list_log_rows(context, hint, seen, limit)
    if not rows:
        return [], ()
    since = (await context.require_events().feed.identity()).since
    if find_opening_time(hint.incident_id) is not None:
        since = max(since, context.clock.now() - FORGETTABLE_AFTER)
    heads = last_of_days(hint.head_name, [entry for entry, _ in rows])
    return [(entry.seq, events if entry.at >= since else ()) for entry, events in rows], heads


async def list_log_rows(
    context: Context, hint: Hint, seen: int, limit: int
) -> list[tuple[Entry, tuple[PublicEvent, ...]]]:
    """Returns the log entries after number `seen`, each with its public events.

    Raises LedgerUnavailable.
    """
    if (gate := hint.gate) is not None:
        changes = await context.admissions.log(gate.tenant, gate.id, after=seen, limit=limit)
        return [(entry, gate_events(entry, gate)) for entry in changes]
    incident, _ = await find_incident(context, hint.incident_id)
    if incident is None or feed_of(incident.tenant) != hint.tenant:
        return []
    entries = await context.incidents.log(incident, after=seen, limit=limit)
    return [(entry, incident_events(entry, incident)) for entry in entries]
