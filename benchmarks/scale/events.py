"""What public events add to a job without faults, by `LUCIUS_EVENTS`, and what their deliveries cost.

Counted by `tests/adapters/test_event_cost.py`, deliveries by `tests/adapters/test_delivery_cost.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scale import prices
from benchmarks.scale.job import MESSAGE_OVERHEAD_BYTES

#: bytes of the hints of one batch, of all jobs together
FULL = 100
#: bodies, of a job whose own texts are short: two percent or more above what is sent; a hint of two moves counts twice
HINT_BYTES, EVENT_BYTES = 850, 730
#: a message is sent, received and completed; a credit each for the first two
_CALLS_A_MESSAGE, _CREDITS_A_MESSAGE = 3, 2


@dataclass(frozen=True, kw_only=True)
class Events:
    """Of a job with `steps` steps, one after another; a subscription of a team's adds its receives and completions."""

    steps: int
    #: `off`, `feed` or `topic`
    mode: str
    #: batches of its hints; a batch that it shares with other jobs counts in part
    batches: float
    #: batches that have the job in them
    seen: int
    #: batches that half a minute without another one follows
    pauses: float = 0
    #: the processes of the commits write the feed, and no message is sent; each loses one write to another one, and
    #: reads HEAD and SEEN again
    by_commits: bool = False

    @property
    def commits(self) -> int:
        """With public events: the creation, the first attempt, the first ACK, and each RESULT, with the attempt of the
        next step.
        """
        return 3 + self.steps if self.mode != "off" else 0

    @property
    def hints(self) -> int:
        return 0 if self.by_commits else self.commits

    @property
    def hint_bytes(self) -> int:
        """Of all bodies: the creation, the first ACK, and of each step the attempt and the RESULT."""
        return HINT_BYTES * (2 + 2 * self.steps) if self.mode != "off" else 0

    @property
    def events(self) -> int:
        """Queued, started, completed; of each step leased and completed."""
        return 3 + 2 * self.steps if self.mode != "off" else 0

    @property
    def sent(self) -> int:
        """To the topic."""
        return self.events if self.mode == "topic" else 0

    @property
    def messages(self) -> int:
        return self.hints + self.sent

    @property
    def bus_operations(self) -> int:
        return _CALLS_A_MESSAGE * self.hints + self.sent

    @property
    def bus_credits(self) -> int:
        return _CREDITS_A_MESSAGE * self.hints + self.sent

    @property
    def bus_bytes(self) -> int:
        """In and out; of the topic in."""
        hints = 2 * (self.hint_bytes + self.hints * MESSAGE_OVERHEAD_BYTES)
        return hints + self.sent * (EVENT_BYTES + MESSAGE_OVERHEAD_BYTES)

    @property
    def table_writes(self) -> float:
        """A batch is one transaction; HEAD's `sent` is a write of its own after a pause."""
        if self.mode == "off":
            return 0
        if self.by_commits:
            return 2 * self.batches
        return self.batches + (self.pauses if self.mode == "topic" else 0)

    @property
    def table_reads(self) -> int:
        """A later end of the tenant's looks up how far the job is."""
        return (1 if self.mode != "off" else 0) + (2 * self.commits if self.by_commits else 0)

    @property
    def entities_written(self) -> float:
        """HEAD with each write, SEEN with each batch, and the events."""
        whole = self.table_writes + self.seen + self.events if self.mode != "off" else 0
        return 2 * whole - self.table_writes if self.by_commits else whole

    @property
    def rows_kept(self) -> int:
        """Events, and SEEN."""
        return self.events + 1 if self.mode != "off" else 0

    @property
    def executions(self) -> float:
        return self.batches if self.mode != "off" and not self.by_commits else 0

    @property
    def usd(self) -> float:
        """A million jobs: operations, executions, entities; not the time of `tell`."""
        return _usd(self)


def events_of(steps: int, mode: str, *, alone: bool) -> Events:
    """Of `tell`. `alone`: each hint is a batch, and half a minute passes; else a hundred of many jobs are one."""
    hints = Events(steps=steps, mode=mode, batches=0, seen=0).hints
    batches = hints if alone else hints / FULL
    return Events(steps=steps, mode=mode, batches=batches, seen=hints, pauses=batches if alone else 0)


def events_by_commits(steps: int) -> Events:
    """Of a feed that the processes of the commits write, each commit alone."""
    commits = events_of(steps, "feed", alone=True).commits
    return Events(steps=steps, mode="feed", batches=commits, seen=commits, by_commits=True)


COLUMNS: dict[str, Events] = {
    "`off`": events_of(3, "off", alone=True),
    "`feed`, each write lost once": events_by_commits(3),
    "`feed`, by `tell`, a hundred together": events_of(3, "feed", alone=False),
    "`topic`, each hint alone": events_of(3, "topic", alone=True),
    "`topic`, a hundred together": events_of(3, "topic", alone=False),
}


def _usd(counted: Events | Delivered) -> float:
    return (
        counted.bus_operations * prices.BUS_STANDARD_OPERATIONS.usd
        + counted.executions * prices.FLEX_EXECUTIONS.usd
        + (counted.entities_written + counted.table_reads) * prices.TABLE_OPERATIONS.usd
    )


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """One event for one webhook or callback URL, beyond the event: its row, its message, and a try."""

    table_writes: int
    table_reads: int
    entities_written: int
    messages: int = 1
    executions: int = 1
    rows_kept: int = 1

    @property
    def bus_operations(self) -> int:
        return _CALLS_A_MESSAGE * self.messages

    @property
    def usd(self) -> float:
        """A million: operations, executions, entities; not the time of `deliver`, nor what leaves the data centre."""
        return _usd(self)


#: the row comes with its event; a try reads it, the webhook and the event, of a callback also the job, and ends the row
DELIVERIES: dict[str, Delivered] = {
    "for a webhook, at the first try": Delivered(table_writes=1, table_reads=3, entities_written=3),
    "for a callback URL, at the first try": Delivered(table_writes=1, table_reads=4, entities_written=3),
    "beyond that, each try that fails": Delivered(table_writes=1, table_reads=3, entities_written=2, rows_kept=0),
}
