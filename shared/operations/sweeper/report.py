"""The actions of one sweep, by job."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class SweepAction(StrEnum):
    """A kind of repair, in the words that an operator reads."""

    #: the job had no orchestration
    START = "start"
    #: its orchestration had ended before the job did
    #: its gates let it in, or it was on its way into the line
    ADMIT = "admit"
    RESTART = "restart"
    #: its orchestration is behind, and is asked to look at the ledger
    RAISE = "raise"
    #: its orchestration lives and hears nothing: another takes over
    REPLACE = "replace"
    END = "end, its time is over"
    #: its creation died between claim and rows
    WITHDRAW = "withdraw"
    #: it had ended, and the index did not know
    CLOSE = "close"
    #: with a dry run: something of an ended job is due to be cleared away
    CLEAR = "clear"
    #: the histories of its orchestrations
    PURGE = "purge"
    PURGE_LATER = "purge later: an orchestration has not ended"
    DROP_CLAIM = "drop claim"
    #: a hint was lost: it is sent again before the job's rows go
    HINT = "hint: its last events are not in the feed"
    ARCHIVE = "archive"
    #: what was left of a job that is archived
    REMOVE = "remove"
    SKIP = "skip: its status is of a later release"
    FAILED = "failed, the next sweep tries again"

    @property
    def code(self) -> str:
        """Returns the first word: the attribute `action` of `sweeper_actions_total`."""
        return self.value.split(" ")[0].rstrip(",:")


@dataclass(frozen=True)
class Action:
    """One repair of one job."""

    job_id: str
    kind: SweepAction
    #: RAISE: the name of the event
    event: str = ""

    @property
    def label(self) -> str:
        return f"{self.kind} {self.event}" if self.event else self.kind.value


@dataclass
class SweepReport:
    """What a sweep did; with `dry_run`, what it would do."""

    dry_run: bool
    looked_at: int = 0
    #: replies taken from the dead-letter queues; with `dry_run`, those that lie there
    dead_replies: int = 0
    #: lanes on which dead replies may still lie, so that no lease of theirs is touched
    undrained: set[int] = field(default_factory=set)
    #: jobs whose replies still lie there, although their lane was drained: no lease of theirs is touched either
    unheard: set[str] = field(default_factory=set)
    actions: list[Action] = field(default_factory=list)
    #: a bound was reached: there may be more to do
    more: bool = False

    def add_action(self, job_id: str, kind: SweepAction, event: str = "") -> None:
        self.actions.append(Action(job_id, kind, event))
