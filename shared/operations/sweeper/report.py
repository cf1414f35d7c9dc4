"""The report of the actions of one sweep, by job."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class RepairKind(StrEnum):
    """A kind of repair, with a text for operators."""

    #: the job had no orchestration
    START = "start"
    #: the due action of a waiting job is done, if there is one: for example its start, or the join of a waiting queue
    ADMIT = "admit"
    #: the orchestration had ended before the job did
    RESTART = "restart"
    #: the orchestration is behind and is woken to check the ledger
    RAISE = "raise"
    #: the orchestration is alive and ignores its wake-ups: another one continues
    REPLACE = "replace"
    END = "end, the time limit is reached"
    #: the creation died between the idempotency record and the rows
    WITHDRAW = "withdraw"
    #: the job had ended, and the index did not show it
    CLOSE = "close"
    #: in a dry run: a part of an ended job is due to be cleared
    CLEAR = "clear"
    #: the histories of its orchestrations are deleted
    PURGE = "purge"
    PURGE_LATER = "purge later: an orchestration has not ended"
    DROP_CLAIM = "drop idempotency record"
    #: a hint was lost: it is sent again before the job's rows are deleted
    HINT = "hint: the last events are not in the feed"
    ARCHIVE = "archive"
    #: the remaining rows of an archived job are deleted
    REMOVE = "remove"
    SKIP = "skip: the status is of a later release"
    FAILED = "failed, retried by a later sweep"

    @property
    def code(self) -> str:
        """Returns the first word of the value: the attribute `action` of `sweeper_actions_total`."""
        return self.value.split(" ")[0].rstrip(",:")


@dataclass(frozen=True)
class Action:
    """A repair of one job."""

    job_id: str
    kind: RepairKind
    #: name of the event, for RAISE
    event: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind} {self.event}" if self.event else self.kind.value


@dataclass
class SweepReport:
    """The actions of a sweep, or with `dry_run`, its planned actions."""

    dry_run: bool
    looked_at: int = 0
    #: number of applied or quarantined dead replies; with `dry_run`, of found ones
    dead_replies: int = 0
    #: lanes that may still have dead replies, so that no lease there may end
    undrained: set[int] = field(default_factory=set)
    #: jobs whose replies are still in a drained lane, so that their leases must not end either
    unheard: set[str] = field(default_factory=set)
    actions: list[Action] = field(default_factory=list)
    #: `True` if checks or clearings of jobs, admissions, or expired rejected messages are left
    more: bool = False

    def add_action(self, job_id: str, kind: RepairKind, event: str = "") -> None:
        self.actions.append(Action(job_id, kind, event))
