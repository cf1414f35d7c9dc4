"""A bulk: one control, redrive or replay of many jobs of a tenant, and what became of each (R65, R66)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

#: maximum of a tenant's bulks that are RUNNING
MAX_RUNNING = 20
#: after its creation; an item that is refused for now after that is refused for good
LASTS = timedelta(days=7)


class BulkAction(StrEnum):
    """What is done to each job."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    REDRIVE = "redrive"
    REPLAY = "replay"
    #: all data of the tenant is deleted (`shared.operations.bulks.purge_tenant`); its items are counted, and not listed
    PURGE = "purge"


class BulkState(StrEnum):
    """Where a bulk stands; one that has ended never changes again, but for outcomes of what was in hand."""

    RUNNING = "RUNNING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


class ItemState(StrEnum):
    """What became of one job."""

    #: not tried yet, or refused for now
    OPEN = "OPEN"
    DONE = "DONE"
    #: refused for good
    REFUSED = "REFUSED"


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """Its counts are changed together with its items: they add up at every read."""

    bulk_id: str
    #: normalised
    tenant: str
    action: BulkAction
    #: words of the list's filter, as they were asked for
    filter: Mapping[str, Any] = field(default_factory=dict)
    #: the job whose tree of dependants is redriven, itself first; None: the jobs of the filter
    root: str | None = None
    reason: str | None
    actor: str
    #: digest of its idempotency key
    key: str | None = None
    created_at: datetime
    state: BulkState = BulkState.RUNNING
    matched: int = 0
    done: int = 0
    refused: int = 0
    #: how far the list was read, and whether to its end
    cursor: str | None = None
    listed: bool = False
    #: number of the last of its pieces of work
    last_no: int = 0
    #: items in a row for which jobs that they depend on must be redriven first
    fruitless: int = 0
    #: seconds that it waits after a step in which every item was refused for now
    wait_s: int = 0
    #: no other process works on it before this time; then the next process that reads it does
    look_at: datetime
    ended_at: datetime | None = None

    @property
    def open(self) -> int:
        return self.matched - self.done - self.refused


@dataclass(frozen=True, kw_only=True)
class BulkItem:
    """One job of a bulk."""

    job_id: str
    state: ItemState = ItemState.OPEN
    #: REFUSED, and OPEN once it was tried: the code of the last refusal
    code: str | None = None
    #: of a redrive or a replay: the new job
    new_job_id: str | None = None
    #: when it was tried last
    tried_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """A piece of work that a bulk still has to do, in the order of `no`."""

    no: int
    job_id: str
    #: None: act on the job; else: look for its dependants past this id
    dependants_after: str | None = None
