"""The app's stores for tests: the adapters of Azure Tables over tables in memory, with views of their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from shared.adapters.memory_tables import MemoryTexts
from shared.adapters.tables.active import active_of
from shared.adapters.tables.admissions import TablesAdmissions, _admission_of, _waiting_of
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.ending import decode_claim, decode_ended
from shared.adapters.tables.feed import TablesFeed, _event_of, _head_of, feed_event_entity
from shared.adapters.tables.hook_rows import delivery_of, hook_of
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.incidents import TablesIncidents, _incident_of
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.keys import (
    FEED_PARTITION,
    FEED_ROW,
    GATES_ROW,
    HEAD_ROW,
    JOB_ROW,
    feed_event_row,
    gate_log_row,
)
from shared.adapters.tables.ledger import TablesLedger
from shared.adapters.tables.listing import _decode_dead_row, _decode_list_row
from shared.adapters.tables.log_rows import entry_entity
from shared.adapters.tables.minutes import TablesMinutes
from shared.adapters.tables.places import decode_freed
from shared.adapters.tables.rejected import TablesRejected
from shared.adapters.tables.rows import job_entity, step_entity
from shared.adapters.tables.sweep_mark import TablesAnswers, TablesSweepMark
from shared.adapters.tables.table import Entity
from shared.adapters.tables.usage import TablesUsage
from shared.core.gates.admission import QueuedJob
from shared.core.gates.ends import Freed
from shared.core.gates.log import LogEntry
from shared.core.incidents import Incident
from shared.core.jobs.job import Record
from shared.core.records.canonical import encode_key
from shared.core.webhooks.webhooks import Delivery, Hook, HookEntry
from shared.ports.admissions import StoredAdmission
from shared.ports.dead_letters import DeadRow
from shared.ports.feed import FeedEvent, Head
from shared.ports.index import ActiveRow, Claim, EndedRow, ListRow
from shared.ports.ledger import Stored
from shared.ports.rejected import RejectedMessage, day_partition, row_key
from tests.fake_tables import FakeAccount
from tests.jobs import START
from tests.row_views import View, at_once, rows_of


async def no_sleep(_seconds: float) -> None:
    """Does not wait."""


class MemoryAnswers(TablesAnswers):
    """See `shared.ports.sweeps.Answers`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "gates")


class MemorySweepMark(TablesSweepMark):
    """See `shared.ports.sweeps.SweepMarks`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "index")


class MemoryMinutes(TablesMinutes):
    """See `shared.ports.minutes.Minutes`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "index")


class MemoryUsage(TablesUsage):
    """See `shared.ports.usage.Usage`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "index", sleep=no_sleep)


class MemoryAllocations(TablesAllocations):
    """See `shared.ports.allocations.Allocations`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "gates")


class MemoryBulks(TablesBulks):
    """See `shared.ports.bulks.Bulks`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "index", "gates")


class MemoryFeed(TablesFeed):
    """See `shared.ports.feed.Feed`; its webhooks are in the same table."""

    def __init__(self, since: datetime | None = None) -> None:
        account = FakeAccount()
        super().__init__(account, "feed", lambda: START)
        self.rows = account.of("feed")
        identity = {"feed_id": "memory", "since": since or datetime.min.replace(tzinfo=UTC)}
        self.rows.put({"PartitionKey": FEED_PARTITION, "RowKey": FEED_ROW, **identity})
        self.hooks = MemoryHooks(account)
        self._heads = rows_of(self.rows, HEAD_ROW, lambda _, row: _head_of(row))
        self._events = rows_of(self.rows, "E:", lambda _, row: _event_of(row))

    @property
    def heads(self) -> dict[str, Head]:
        """By tenant."""
        return {tenant: head for (tenant, _), head in self._heads.objects.items()}

    def events_of(self, tenant: str) -> list[FeedEvent]:
        """All events of the tenant's feed, in order."""
        found = self._events.objects
        return [found[key] for key in sorted(key for key in found if key[0] == tenant)]

    def put_events(self, tenant: str, events: Sequence[FeedEvent]) -> None:
        """Replaces all events of the tenant's feed."""
        partition = encode_key(tenant)
        for each in self.events_of(tenant):
            self.rows.remove(partition, feed_event_row(each.number))
        for each in events:
            self.rows.put(feed_event_entity(partition, each))

    def put_sent(self, tenant: str, number: int) -> None:
        """Makes the topic have the events up to this number; HEAD's ETag stays."""
        self.rows.amend(encode_key(tenant), HEAD_ROW, {"sent": number})


class MemoryHooks(TablesHooks):
    """See `shared.ports.hooks.Hooks`."""

    def __init__(self, account: FakeAccount) -> None:
        super().__init__(account, "feed")
        self.rows = account.of("feed")
        self._hooks = rows_of(self.rows, "HOOK:", lambda _, row: hook_of(row))
        views = (rows_of(self.rows, prefix, lambda _, row: delivery_of(row)) for prefix in ("PENDING:", "DELIVERY:"))
        self._pending, self._ended = views

    @property
    def hooks(self) -> dict[tuple[str, str], Hook]:
        """By tenant and id."""
        return self._hooks.objects

    @property
    def deliveries(self) -> list[tuple[str, Delivery]]:
        """Each with its tenant; first those that wait."""
        rows = (*self._pending.objects.items(), *self._ended.objects.items())
        return [(tenant, delivery) for (tenant, _), delivery in rows]

    def log_of(self, tenant: str, hook_id: str) -> list[HookEntry]:
        """The whole log of a webhook, in order."""
        return at_once(self.log(tenant, hook_id, after=0, limit=1000))


class MemoryLedger(TablesLedger):
    """See `shared.ports.ledger.Ledger`."""

    def __init__(self) -> None:
        self.account = FakeAccount()
        super().__init__(self.account, "ledger", MemoryTexts())
        self.rows = self.account.of("ledger")
        self._jobs = View(self.rows, "", _job_of, lambda job_id: at_once(TablesLedger.read(self, job_id)))

    @property
    def jobs(self) -> dict[str, Stored]:
        """By id, without jobs that have no JOB row."""
        return self._jobs.objects

    def put(self, record: Record) -> None:
        """Stores a job as it is, without an event."""
        self.rows.put(job_entity(record.job))
        for step in record.steps:
            self.rows.put(step_entity(record.job.job_id, step))

    def take(self, job_id: str) -> list[Entity]:
        """Removes JOB and STEP rows of a job, and returns them."""
        part = self.rows.partitions[job_id]
        taken = [part.rows[key].entity for key in part.keys if key >= JOB_ROW]
        for row in taken:
            self.rows.remove(job_id, row["RowKey"])
        return taken

    @contextmanager
    def without(self, job_id: str) -> Iterator[None]:
        """For as long as this lasts there is no such job."""
        taken = self.take(job_id)
        yield
        for row in taken:
            self.rows.put(row)


def _job_of(partition: str, row: str) -> str | None:
    return partition if row >= JOB_ROW else None


class MemoryIndex(TablesIndex):
    """See `shared.ports.index.Index`; quotas and incidents of a tenant are in its partition."""

    def __init__(self) -> None:
        self.account = FakeAccount()
        super().__init__(self.account, "index", "tenants", sleep=no_sleep)
        self.rows = self.account.of("index")
        self.admissions = MemoryAdmissions(self.account)
        self.incidents = MemoryIncidents(self.account)
        self._claims = rows_of(self.rows, "CLAIM:", lambda _, row: decode_claim(row))
        self._active = rows_of(self.rows, "ACTIVE:", active_of)
        self._ended = rows_of(self.rows, "ENDED:", decode_ended)
        self._listed = rows_of(self.rows, "LIST:", lambda _, row: _decode_list_row(row))
        self._dead = rows_of(self.rows, "DEAD:", lambda _, row: _decode_dead_row(row))

    @property
    def claims(self) -> dict[tuple[str, str], Claim]:
        """By tenant and idempotency hash."""
        return self._claims.objects

    @property
    def active(self) -> dict[tuple[str, str], ActiveRow]:
        """By tenant and job."""
        return self._active.objects

    @property
    def ended(self) -> list[EndedRow]:
        return list(self._ended.objects.values())

    @property
    def listed(self) -> list[ListRow]:
        return list(self._listed.objects.values())

    @property
    def dead(self) -> list[DeadRow]:
        return list(self._dead.objects.values())

    def put_awake(self, tenant: str, at: datetime) -> None:
        """Makes the tenant one that posted then."""
        at_once(self._tenants.wake(tenant, at))


class MemoryAdmissions(TablesAdmissions):
    """See `shared.ports.admissions.AdmissionStates`."""

    def __init__(self, account: FakeAccount | None = None) -> None:
        account = account or FakeAccount()
        super().__init__(account, "index", "gates")
        self.rows = account.of("index")
        self._admissions = rows_of(
            self.rows, GATES_ROW, lambda _, row: StoredAdmission(_admission_of(row), row.metadata["etag"], row)
        )
        self._waiting = rows_of(self.rows, "WAIT:", lambda _, row: _waiting_of(row))
        self._freed = rows_of(self.rows, "FREED:", lambda _, row: decode_freed(row))

    @property
    def admissions(self) -> dict[str, StoredAdmission]:
        """By tenant."""
        return {tenant: stored for (tenant, _), stored in self._admissions.objects.items()}

    @property
    def waiting(self) -> list[tuple[str, QueuedJob]]:
        """WAIT rows, each with its tenant."""
        return [(tenant, each) for (tenant, _), each in self._waiting.objects.items()]

    @property
    def all_freed(self) -> list[tuple[str, Freed]]:
        """FREED rows, each with its tenant."""
        return [(tenant, each) for (tenant, _), each in self._freed.objects.items()]

    def put_log(self, tenant: str, entries: Sequence[LogEntry]) -> None:
        for entry in entries:
            self.rows.put(entry_entity(encode_key(tenant), gate_log_row(entry.gate_id, entry.seq), entry))

    def clear_logs(self) -> None:
        """Removes every GATELOG row."""
        for row in self.rows.all_rows:
            if row["RowKey"].startswith("GATELOG:"):
                self.rows.remove(row["PartitionKey"], row["RowKey"])


class MemoryIncidents(TablesIncidents):
    """See `shared.ports.incidents.Incidents`."""

    def __init__(self, account: FakeAccount | None = None) -> None:
        account = account or FakeAccount()
        super().__init__(account, "index", "gates")
        self.rows_of_jobs, self._rows_of_others = account.of("index"), account.of("gates")
        views = (
            rows_of(table, prefix, lambda _, row: _incident_of(row))
            for table, prefix in (
                (self.rows_of_jobs, "INCIDENT:"),
                (self._rows_of_others, "INCIDENT:"),
                (self._rows_of_others, "OPEN:"),
            )
        )
        self._of_jobs, self._of_others, self._open = views

    @property
    def all(self) -> list[Incident]:
        """INCIDENT rows, first those of jobs."""
        return [*self._of_jobs.objects.values(), *self._of_others.objects.values()]

    @property
    def listed_open(self) -> list[Incident]:
        """OPEN rows."""
        return list(self._open.objects.values())


class MemoryRejected(TablesRejected):
    """See `shared.ports.rejected.RejectedMessages`."""

    def __init__(self) -> None:
        account = FakeAccount()
        super().__init__(account, "rejected", MemoryTexts())
        self.rows = account.of("rejected")
        self._messages = View(self.rows, "", _of_a_day, self._message_of)

    def _message_of(self, key: tuple[str, str]) -> RejectedMessage | None:
        row = self.rows.row(*key)
        return at_once(TablesRejected.read(self, row["id"])) if row is not None else None

    @property
    def quarantined(self) -> dict[str, RejectedMessage]:
        """By id."""
        return {each.id: each for each in self._messages.objects.values()}

    def unmark(self, id_: str) -> None:
        """Makes the message one that was never redriven."""
        self.rows.amend(day_partition(id_), row_key(id_), {"redriven_at": None, "redriven_outcome": None})


def _of_a_day(partition: str, row: str) -> tuple[str, str] | None:
    """A message has a row of its day, and perhaps one in the list of its tenant."""
    return None if partition.startswith("tenant_") else (partition, row)
