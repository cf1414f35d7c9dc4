"""The cost of public events for a job without faults, by `LUCIUS_EVENTS`, and the cost of their deliveries.

`tests/adapters/test_event_cost.py` counts the operations, and `tests/adapters/test_delivery_cost.py` counts those of
deliveries.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scale import prices
from benchmarks.scale.job import MESSAGE_OVERHEAD_BYTES

#: number of hints in a full batch, of all jobs together
FULL = 100
#: bytes of a hint and of an event of a job whose own texts are short, at least 2 percent above the sent size. A hint of
#: two transitions counts twice
HINT_BYTES, EVENT_BYTES = 850, 730
#: calls per message (send, receive, complete); credits per message (send, receive)
_CALLS_A_MESSAGE, _CREDITS_A_MESSAGE = 3, 2


@dataclass(frozen=True, kw_only=True)
class Events:
    """Public events of a job with `steps` steps, one after another.

    A team's subscription adds its receives and completions.
    """

    steps: int
    #: `off`, `feed` or `topic`
    mode: str
    #: number of batches of its hints; a batch that it shares with other jobs counts in part
    batches: float
    #: number of batches that have hints of the job
    seen: int
    #: number of batches without a successor for 30 seconds
    pauses: float = 0
    #: `True` if the committing processes write the feed and send no message; each loses one write to another one, and
    #: reads HEAD and SEEN again
    by_commits: bool = False

    @property
    def commits(self) -> int:
        """Returns the commits with public events: creation, first attempt, first ACK, and each RESULT."""
        return 3 + self.steps if self.mode != "off" else 0

    @property
    def hints(self) -> int:
        return 0 if self.by_commits else self.commits

    @property
    def hint_bytes(self) -> int:
        """Returns the bytes of all hints: creation, first ACK, and of each step the attempt and the RESULT."""
        return HINT_BYTES * (2 + 2 * self.steps) if self.mode != "off" else 0

    @property
    def events(self) -> int:
        """Returns the number of events: queued, started and completed of the job, and leased and completed of each
        step.
        """
        return 3 + 2 * self.steps if self.mode != "off" else 0

    @property
    def sent(self) -> int:
        """Returns the number of messages to the topic."""
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
        """Returns the bytes in and out of the hints, and in of the topic."""
        hints = 2 * (self.hint_bytes + self.hints * MESSAGE_OVERHEAD_BYTES)
        return hints + self.sent * (EVENT_BYTES + MESSAGE_OVERHEAD_BYTES)

    @property
    def table_writes(self) -> float:
        """Returns the table writes. A batch is one transaction. HEAD's `sent` is a separate write after a pause."""
        if self.mode == "off":
            return 0
        if self.by_commits:
            return 2 * self.batches
        return self.batches + (self.pauses if self.mode == "topic" else 0)

    @property
    def table_reads(self) -> int:
        """Returns the table reads. A later end in the same tenant reads the job's position."""
        return (1 if self.mode != "off" else 0) + (2 * self.commits if self.by_commits else 0)

    @property
    def entities_written(self) -> float:
        """Returns the number of entities written: HEAD with each write, SEEN with each batch, and the events."""
        whole = self.table_writes + self.seen + self.events if self.mode != "off" else 0
        return 2 * whole - self.table_writes if self.by_commits else whole

    @property
    def rows_kept(self) -> int:
        """Returns the number of rows that stay: the events, and SEEN."""
        return self.events + 1 if self.mode != "off" else 0

    @property
    def executions(self) -> float:
        return self.batches if self.mode != "off" and not self.by_commits else 0

    @property
    def usd(self) -> float:
        """Returns the dollars for a million jobs (operations, executions, entities), without the time of `tell`."""
        return _usd(self)


def events_of(steps: int, mode: str, *, alone: bool) -> Events:
    """Returns the events that `tell` writes.

    With `alone`, each hint is a batch, with a pause of 30 seconds. Otherwise 100 hints of many jobs are one batch.
    """
    hints = Events(steps=steps, mode=mode, batches=0, seen=0).hints
    batches = hints if alone else hints / FULL
    return Events(steps=steps, mode=mode, batches=batches, seen=hints, pauses=batches if alone else 0)


def events_by_commits(steps: int) -> Events:
    """Returns the events of a feed that the committing processes write, each commit alone."""
    commits = events_of(steps, "feed", alone=True).commits
    return Events(steps=steps, mode="feed", batches=commits, seen=commits, by_commits=True)


COLUMNS: dict[str, Events] = {
    "`off`": events_of(3, "off", alone=True),
    "`feed`, one conflict for each write": events_by_commits(3),
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
    """The additional operations of one event for one webhook or callback URL: its row, its message, and a try."""

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
        """Returns the dollars for a million deliveries (operations, executions, entities), without the time of
        `deliver` and egress.
        """
        return _usd(self)


#: the row is written with its event. A try reads it, the webhook and the event, for a callback also the job, and ends
#: the row
DELIVERIES: dict[str, Delivered] = {
    "for a webhook, at the first try": Delivered(table_writes=1, table_reads=3, entities_written=3),
    "for a callback URL, at the first try": Delivered(table_writes=1, table_reads=4, entities_written=3),
    "added by each failed try": Delivered(table_writes=1, table_reads=3, entities_written=2, rows_kept=0),
}
