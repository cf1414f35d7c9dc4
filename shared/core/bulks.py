"""Bulk operations: one control, redrive, replay or purge of a tenant's jobs, and the result for each job (R65, R66)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

#: maximum number of a tenant's RUNNING bulk operations
MAX_RUNNING = 20
#: time limit after the creation; after it, a temporary refusal of an item becomes final
LASTS = timedelta(days=7)


class BulkAction(StrEnum):
    """The action on each job of a bulk operation."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    REDRIVE = "redrive"
    REPLAY = "replay"
    #: deletes all data of the tenant (`shared.operations.bulks.purge_tenant`); its items are counted, not listed
    PURGE = "purge"


class BulkState(StrEnum):
    """The state of a bulk operation. After the operation ended, only results of actions that had already started are
    recorded.
    """

    RUNNING = "RUNNING"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


class ItemState(StrEnum):
    """The result of a bulk operation for one job."""

    #: not tried yet, or refused temporarily
    OPEN = "OPEN"
    DONE = "DONE"
    #: refused permanently
    REFUSED = "REFUSED"


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """A bulk operation. Its counts change in the same transaction as its items, so counts always match the items."""

    bulk_id: str
    #: normalised tenant id
    tenant: str
    action: BulkAction
    #: the filter's parameters, as the caller gave them
    filter: Mapping[str, Any] = field(default_factory=dict)
    #: id of the job to redrive together with its failed dependants; None for a filter or a purge
    root: str | None = None
    reason: str | None
    actor: str
    #: digest of the idempotency key
    key: str | None = None
    created_at: datetime
    state: BulkState = BulkState.RUNNING
    matched: int = 0
    done: int = 0
    refused: int = 0
    #: cursor into the list of jobs, and `True` if the list was read to its end
    cursor: str | None = None
    listed: bool = False
    #: number of the last unit of work
    last_no: int = 0
    #: consecutive items that were refused because jobs they depend on must be redriven first
    fruitless: int = 0
    #: seconds to wait after a step in which every item was refused temporarily
    wait_s: int = 0
    #: while a process works on the operation: end of its reservation, after which another process can continue;
    #: between steps: time of the next step
    look_at: datetime
    ended_at: datetime | None = None

    @property
    def open(self) -> int:
        return self.matched - self.done - self.refused


@dataclass(frozen=True, kw_only=True)
class BulkItem:
    """One job of a bulk operation, with the result for the job."""

    job_id: str
    state: ItemState = ItemState.OPEN
    #: code of the last refusal, for REFUSED items and for OPEN items that were tried
    code: str | None = None
    #: id of the new job, for a redrive or a replay
    new_job_id: str | None = None
    #: time of the last try
    tried_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Work:
    """A unit of work of a bulk operation, processed in the order of `no`."""

    no: int
    job_id: str
    #: None: act on the job. Otherwise, list the job's failed dependants with ids after this one
    dependants_after: str | None = None
