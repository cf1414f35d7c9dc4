"""Heads: the last row of a job's history, or of the log of a quota or incident, on each day on which it grew (R91)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from shared.core.canonical import jcs
from shared.core.chained_log import Entry
from shared.core.jobs.job import Event

#: a name of a log begins with one of these; a job id has no colon
QUOTA_LOG, INCIDENT_LOG = "quota:", "incident:"


@dataclass(frozen=True, kw_only=True)
class DayHead:
    """Row number `seq`, with its hash: the last one of its UTC day."""

    #: job id, `quota:ID` or `incident:ID`
    name: str
    day: date
    seq: int
    hash: str

    @property
    def line(self) -> dict[str, str | int]:
        """Returns the head as signed pages and anchors have it."""
        return {"log" if ":" in self.name else "job_id": self.name, "seq": self.seq, "hash": self.hash}


def last_of_days(name: str, rows: Iterable[Event | Entry]) -> tuple[DayHead, ...]:
    """Returns the head of each day on which the rows were written. The clocks of two processes differ, so the day of a
    row can be before that of the row before it."""
    found: dict[date, DayHead] = {}
    for row in rows:
        day = day_of(row.at)
        found[day] = DayHead(name=name, day=day, seq=row.seq, hash=row.hash)
    return tuple(found.values())


def latest(*heads: DayHead) -> tuple[DayHead, ...]:
    """Returns of each day the head with the highest number."""
    found: dict[date, DayHead] = {}
    for head in sorted(heads, key=lambda each: each.seq):
        found[head.day] = head
    return tuple(found.values())


def day_of(at: datetime) -> date:
    """Returns the UTC day."""
    return at.astimezone(UTC).date()


def json_lines(lines: Iterable[Mapping[str, str | int]]) -> bytes:
    """Returns canonical JSON (RFC 8785), one object a line, each with its newline."""
    return b"".join(jcs(line) + b"\n" for line in lines)
