"""The matrix: each type of row that does not belong to one job, its possible faults, and the bounds of their effects.

A cell is a type and a kind of fault. In each cell every job ends. Jobs of tenants whose row it is not end at the same
second and with the same requests as without the fault. No function raises anything but an error of LUCIUS. A row that
cannot be decoded or written is named by a warning with its key; for a row that is refused for now there is a warning.
A row has at most one incident.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.isolation.faults import Kind
from tests.isolation.world import BULK, DEPENDENCIES, EVENTS, PLATFORM, USAGE

#: rows without which a job is not there, or does not move
CORE = {
    "JOB": "the job",
    "STEP": "its steps",
    "EVENT": "its history",
    "CLAIM": "its idempotency key",
    "ACTIVE": "it has not ended",
    "DUE": "the sweeper's next look at it, in one transaction with ACTIVE",
}
#: tests/operations/gates/test_gate_directory.py and tests/adapters/test_directory.py have the faults of these rows
_CHANGED = "read when a process starts, and when the row's version has changed; no quota changes in these worlds"
#: rows that no request of a job and no sweep uses in these worlds
UNMET = {
    "ARCHIVED": "written when the retention of an ended job is over; read by requests about that job alone",
    "=feed": "the identity of the feeds' table: read once, when a process first reads a feed",
    "DAY": "where heads are signed: in the transaction of the feed, as E and SEEN",
    "COMPLETE": "read and written by the daily check of heads, and by a request for them",
    "=feeds": "written with a tenant's first event; read by the hourly removal of old events",
    "protocols": "read when a process loads a version: tests/operations/protocols/test_first_loaded.py has its faults",
    "directory SETTINGS": _CHANGED,
    "directory TENANTS": _CHANGED,
    "directory DEFAULT": _CHANGED,
    "directory OVERALL": _CHANGED,
}


@dataclass(frozen=True)
class Line:
    """One type of row."""

    #: the first letters of the faults that requests can get
    kinds: str
    #: features of the world's jobs
    has: tuple[str, ...] = ()
    #: it is of a quota over all tenants: it concerns each job of the quota's type
    of_all: bool = False
    #: kinds for which there is nothing to report: the app reads the row's key alone, writes the whole row again, or
    #: counts the fault in a metric
    silent: str = ""
    #: kinds that hide the row from its query
    hidden: str = ""
    #: the last second at which a job of the row's tenant may end
    ends_by: float = 340
    #: the same of a row that is lost, if that is later
    lost_by: float = 0

    def bound(self, kind: Kind) -> float:
        """Returns the last second at which a job of the row's tenant may end."""
        return max(self.ends_by, self.lost_by if kind is Kind.MISSING else 0)


#: written under an ETag; without; never written; written and not read again; requested and missing
_ALL, _NO_ETAG, _READ, _WRITTEN, _ASKED_FOR = "muorc", "muor", "mur", "or", "r"
#: while a job is in progress that no caller cancels
_NOT_CANCELLED = 500
#: the sweeper checks a waiting job once an hour
_LOOKED_AT = 3800
#: the sweeper counts a tenant's jobs again ten minutes after the last count
_COUNTED_AGAIN = 900

LINES: dict[str, Line] = {
    # a tenant's quotas
    "GATES": Line(_ALL, ends_by=_NOT_CANCELLED),
    "GATELOG": Line(_NO_ETAG),
    "WAIT": Line(_NO_ETAG, ends_by=_NOT_CANCELLED, lost_by=_LOOKED_AT),
    "FREED": Line(_NO_ETAG, ends_by=_COUNTED_AGAIN),
    # a tenant's jobs: lists, dead letters, incidents, dependencies, ends
    "LIST": Line(_NO_ETAG, silent="u"),
    "CORRELATION": Line(_WRITTEN),
    "DEAD": Line(_WRITTEN),
    "INCIDENT": Line(_NO_ETAG),
    "INCIDENTLOG": Line(_WRITTEN),
    "ENDED": Line(_NO_ETAG),
    "DEP": Line(_READ, (DEPENDENCIES,), silent="u", lost_by=_LOOKED_AT),
    "DEPFAILED": Line(_WRITTEN, (DEPENDENCIES,)),
    # a tenant's bulk operations
    "BULK": Line(_ALL, (BULK,), ends_by=_NOT_CANCELLED),
    "BULKITEM": Line(_NO_ETAG, (BULK,), ends_by=_NOT_CANCELLED, silent="u"),
    "BULKKEY": Line(_WRITTEN, (BULK,), ends_by=_NOT_CANCELLED),
    "BULKSLOT": Line(_WRITTEN, (BULK,), ends_by=_NOT_CANCELLED),
    "BULKWORK": Line(_NO_ETAG, (BULK,), ends_by=_NOT_CANCELLED),
    "bulks": Line(_NO_ETAG, (BULK,), ends_by=_NOT_CANCELLED),
    # a tenant's feed and webhooks
    "HEAD": Line(_ALL, (EVENTS,)),
    "E": Line(_NO_ETAG, (EVENTS,)),
    "SEEN": Line(_NO_ETAG, (EVENTS,)),
    "HOOK": Line(_ALL, (EVENTS,)),
    "HOOKLOG": Line(_WRITTEN, (EVENTS,)),
    "PENDING": Line(_ALL, (EVENTS,)),
    "DELIVERY": Line(_WRITTEN, (EVENTS,)),
    "=hooks": Line(_NO_ETAG, (EVENTS,)),
    # a tenant's usage
    "SOURCE": Line(_WRITTEN),
    "USAGE:PEAK": Line(_WRITTEN),
    "USAGE:REJECTED": Line(_ALL, (USAGE,)),
    "USAGE:JOBS": Line(_WRITTEN, (USAGE,)),
    "USAGE:FOLDING": Line(_ASKED_FOR, (USAGE,)),
    "=guard REFOLD": Line(_WRITTEN, (USAGE,)),
    # of all tenants: which have quotas, and quotas over all of them
    "directory VERSION": Line(_READ, of_all=True, silent="u"),
    "books": Line(_ALL, (PLATFORM,), of_all=True),
    "asks": Line(_ALL, (PLATFORM,), of_all=True, silent="r"),
    # of all tenants: incidents of breakers, and which incidents are open
    "incidents INCIDENT": Line(_ALL),
    "incidents INCIDENTLOG": Line(_WRITTEN),
    "incidents OF": Line(_NO_ETAG, silent="u"),
    "incidents SUBJECT": Line(_NO_ETAG),
    "incidents OPEN": Line(_NO_ETAG, silent="u"),
    # of the sweeper
    "tenants": Line(_READ, of_all=True, hidden="u"),
    "=guard POSITION": Line(_NO_ETAG, of_all=True, silent="u"),
    "=guard SWEEP": Line(_NO_ETAG, silent="u"),
    "=guard FOLD": Line(_NO_ETAG, (USAGE,)),
    "=minutes": Line(_ALL, silent="u"),
    "services": Line(_NO_ETAG, silent="o"),
    "rejected message": Line(_WRITTEN),
}

CELLS = [(name, kind) for name, line in LINES.items() for kind in Kind if kind.value[0] in line.kinds]
