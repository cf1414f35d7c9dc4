"""Daily heads: the last row of a job, quota or incident history on each UTC day with new rows (R91)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from shared.core.jobs.job import Event
from shared.core.records.canonical import jcs
from shared.core.records.chained_log import Entry

#: prefixes of the log names of quotas and incidents; a job id has no colon
QUOTA_LOG, INCIDENT_LOG = "quota:", "incident:"


@dataclass(frozen=True, kw_only=True)
class DayHead:
    """The number and hash of the last row of a history on one UTC day."""

    #: job id, `quota:ID` or `incident:ID`
    name: str
    day: date
    seq: int
    hash: str

    @property
    def line(self) -> dict[str, str | int]:
        """Returns the head as a JSON object, in the form of signed pages and anchors."""
        return {"log" if ":" in self.name else "job_id": self.name, "seq": self.seq, "hash": self.hash}


def last_of_days(name: str, rows: Iterable[Event | Entry]) -> tuple[DayHead, ...]:
    """Returns the head of each day on which rows were written.

    The clocks of two processes differ, so a row can have an earlier day than the row before it.
    """
    found: dict[date, DayHead] = {}
    for row in rows:
        day = day_of(row.at)
        found[day] = DayHead(name=name, day=day, seq=row.seq, hash=row.hash)
    return tuple(found.values())


def latest(*heads: DayHead) -> tuple[DayHead, ...]:
    """Returns the head with the highest number for each day."""
    found: dict[date, DayHead] = {}
    for head in sorted(heads, key=lambda each: each.seq):
        found[head.day] = head
    return tuple(found.values())


def day_of(at: datetime) -> date:
    """Returns the UTC day of a time."""
    return at.astimezone(UTC).date()


def json_lines(lines: Iterable[Mapping[str, str | int]]) -> bytes:
    """Returns canonical JSON (RFC 8785): one object per line, with a newline after each."""
    return b"".join(jcs(line) + b"\n" for line in lines)
