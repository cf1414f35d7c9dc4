"""The cost of heads and anchors with `LUCIUS_AUDIT_KEY`. Without the key, heads and anchors cost nothing.

`tests/adapters/test_event_cost.py` counts the operations.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scale import prices
from benchmarks.scale.events import events_by_commits

#: additional bytes of a hint: its head's day, number and hash
HEAD_BYTES = 105


@dataclass(frozen=True, kw_only=True)
class Heads:
    """Operations beyond public events (`feed`)."""

    table_writes: float = 0
    table_reads: float = 0
    entities_written: float = 0
    blob_writes: float = 0
    blob_reads: float = 0
    signatures: float = 0
    #: rows that are kept for `LUCIUS_CHANGE_LOG_DAYS`
    rows_kept: float = 0

    @property
    def usd(self) -> float:
        """Returns the dollars for a million times these operations."""
        return (
            (self.entities_written + self.table_reads) * prices.TABLE_OPERATIONS.usd
            + self.blob_writes * prices.BLOB_WRITES.usd
            + self.blob_reads * prices.BLOB_READS.usd
            + self.signatures * prices.KEY_OPERATIONS.usd
        )


#: each check reads the job, and the last event of it in the feed
JOB_AT_MIDNIGHT = Heads(table_reads=2)
#: reads completeness, living and ended jobs, quotas, and the heads of the day; writes them and their file
TENANT = Heads(table_writes=1, entities_written=1, table_reads=5, blob_writes=1, blob_reads=1)
#: reads tenants, open incidents, the list of anchors and the previous anchor; writes the new one
ALL_TENANTS = Heads(table_reads=2, blob_writes=2, blob_reads=1, signatures=1)

COLUMNS: dict[str, Heads] = {
    # the row of a job's day is written with each batch that has the job, in the transaction of the feed
    "a 3-step job, one conflict for each write": Heads(entities_written=2 * events_by_commits(3).seen, rows_kept=1),
    "a job that has not ended at midnight, or ended in the hour before": JOB_AT_MIDNIGHT,
    "a tenant with events, each day": TENANT,
    "all tenants, each day": ALL_TENANTS,
}
