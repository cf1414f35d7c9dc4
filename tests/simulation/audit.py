"""Invariants that are checked at every write and at every directive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from shared.contracts.messages import Directive
from shared.core.jobs.job import Event, Record
from shared.ports.ledger import Stored
from tests.audit_bundles import check_chain
from tests.memory_stores import MemoryLedger
from tests.model.invariants import Rows, check_link, check_move, fold, rows_of
from tests.row_views import at_once


class AuditedLedger(MemoryLedger):
    """The memory ledger; a write that breaks an invariant is reported at once, with the job's history."""

    def __init__(self, add_violation: Callable[[str], None], now: Callable[[], datetime]) -> None:
        super().__init__()
        self._add_violation = add_violation
        self._now = now
        self._listed: dict[str, Stored] | None = None
        self._records: dict[str, Record] = {}
        self._folded: dict[str, Rows] = {}
        self._heads: dict[str, Event] = {}
        self._causes: set[tuple[str, str]] = set()
        #: successes seen per (job, step)
        self._successes: dict[tuple[str, str], int] = {}
        #: leases by (job, step, attempt)
        self._leases: dict[tuple[str, str, int], str | None] = {}

    @property
    def records(self) -> dict[str, Record]:
        if self._listed is not (jobs := self.jobs):
            # requested at every event of a world
            self._listed, self._records = jobs, {job_id: stored.record for job_id, stored in jobs.items()}
        return self._records

    async def create(self, record: Record, event: Event) -> Stored:
        stored = await super().create(record, event)
        self._folded[record.job.job_id] = rows_of(record)
        self._heads[record.job.job_id] = event
        self._guard(record.job.job_id, lambda: check_link(None, event))
        return stored

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        stored = await super().commit(before, after, events)
        self._guard(after.job.job_id, lambda: self._check(before.record, after, events))
        return stored

    def _check(self, before: Record, after: Record, events: Sequence[Event]) -> None:
        job_id = after.job.job_id
        check_move(before, after)
        if after.job.redriven_by != before.job.redriven_by:
            assert before.job.redriven_by is None, "redriven by two"
        types = [event.type for event in events]
        assert len(types) <= 1 or types == ["RESULT", "ATTEMPT_RECORDED"], f"one occurrence made {types}"
        for event in events:
            check_link(self._heads[job_id], event)
            assert event.at <= self._now(), "an event from the future"
            self._heads[job_id] = event
            fold(self._folded[job_id], event)
            if event.type != "REPLY_IGNORED":
                assert (job_id, event.cause_id) not in self._causes, f"{event.cause_id} moved the job twice"
                self._causes.add((job_id, event.cause_id))
        if before is not after:
            assert self._folded[job_id] == rows_of(after), "folding the events does not give the rows"
        for was, step in zip(before.steps, after.steps, strict=True):
            lease = self._leases.setdefault((job_id, step.step_id, step.attempt_no), step.lease_id)
            assert lease == step.lease_id, "the lease of an attempt changed"
            if was.status is not step.status and step.status == "SUCCEEDED":
                key = (job_id, step.step_id)
                self._successes[key] = self._successes.get(key, 0) + 1
                assert self._successes[key] == 1, f"{step.step_id} succeeded twice"

    def check_directive(self, directive: Directive) -> None:
        """Checks that each directive has a recorded attempt with its lease, and is on the pinned lane."""
        self._guard(directive.jobId, lambda: self._check_directive(directive))

    def _check_directive(self, directive: Directive) -> None:
        assert directive.jobId in self.jobs, "a directive without a job"
        step = self.jobs[directive.jobId].record.step(directive.stepId)
        assert step is not None, "a directive without a step"
        assert directive.attempt_no <= step.attempt_no, "a directive without a recorded attempt"
        expected = self._leases[directive.jobId, directive.stepId, directive.attempt_no]
        assert directive.lease_id == expected, "a directive with another lease"
        assert (directive.lane, directive.routing_key_used) == (step.lane, step.routing_key_used), "another lane"

    async def check_history(self, job_id: str) -> None:
        events = await self.events(job_id, limit=100_000)
        check_chain(events)

    def _guard(self, job_id: str, check: Callable[[], None]) -> None:
        try:
            check()
        except AssertionError as broken:
            self._add_violation(f"{job_id}: {broken}\n{self.history(job_id)}")

    def history(self, job_id: str) -> str:
        """Returns the EVENT rows of a job, one per line, for the failure message."""
        return "\n".join(
            f"  {event.at:%d %H:%M:%S.%f} {event.seq:3} {event.type} {event.step_id or ''} {event.attempt_no or ''} "
            f"{event.from_status or ''}->{event.to_status or ''} job {event.job_from}->{event.job_to} "
            f"{event.reason or ''} [{event.cause_id}]"
            for event in at_once(self.events(job_id, limit=100_000))
        )
