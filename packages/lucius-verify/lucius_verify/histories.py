"""A job of a bundle with its events, and their positions in the files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lucius_verify.faults import Fault
from lucius_verify.json_rows import Row


@dataclass(frozen=True)
class History:
    """A job's rows and all its events."""

    job_id: str
    job: Row
    steps: list[Row]
    events: list[Row]
    #: columns that the export left out or cut, such as `job.error_message`, `ocr.payload`
    withheld: tuple[str, ...] = ()
    #: files with the rows and the events, and their row numbers; 0: the file has no rows
    rows_file: str = "jobs.jsonl"
    row: int = 0
    events_file: str = "history.jsonl"
    #: row number of the first event
    first_row: int = 0

    def fault(self, seq: int, why: str) -> Fault:
        """Makes a fault at the position of event `seq`."""
        row = self.first_row + seq - 1 if self.first_row else None
        return Fault(why, self.events_file, row, self.job_id, seq)

    def row_fault(self, why: str) -> Fault:
        """Makes a fault at the position of the job's row."""
        return Fault(why, self.rows_file, self.row or None, self.job_id)

    @classmethod
    def of(cls, line: Row, events: list[Row], **places: Any) -> History:
        """Decodes a row of `jobs.jsonl`, or a bundle of one job. Raises LookupError, TypeError, ValueError."""
        job, steps = line["job"], line["steps"]
        if not isinstance(job, dict) or not all(isinstance(each, dict) for each in [*steps, *events]):
            raise TypeError("a row is not a JSON object")
        job_id = job["job_id"]
        if not isinstance(job_id, str) or line.get("job_id", job_id) != job_id:
            raise ValueError("the row names another job")
        return cls(job_id, job, steps, events, tuple(line.get("withheld", ())), **places)
