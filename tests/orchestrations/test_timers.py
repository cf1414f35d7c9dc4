"""Timers of the job's orchestration on an engine whose timers fire up to a second early, as with Azure Storage."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from orchestrations.job import job
from shared.core.jobs import durable_names
from shared.core.jobs.verdict import Verdict, VerdictKind
from tests.functions_emulator.durable.hub import Hub

ACK_TIMEOUT = timedelta(seconds=2.6)
BACKOFF = timedelta(seconds=1.3)


class Ledger:
    """A step whose service never replies. Like the real activities it decides by the time alone."""

    def __init__(self, attempts: int, behind: timedelta = timedelta()) -> None:
        self.hub: Hub
        #: how far the app's clock is behind the engine's
        self._behind = behind
        self._attempts = attempts
        self._attempt_no = 1
        self._lease_until: datetime | None = None
        self._due_at: datetime | None = None

    def _now(self) -> datetime:
        assert len(self.hub.calls) < 100, "asked again and again without a pause"
        return self.hub.clock.now() - self._behind

    def dispatch(self, request: Any) -> dict[str, Any]:
        now = self._now()
        if self._due_at is not None and now < self._due_at:
            return Verdict(VerdictKind.BACKOFF, self._attempt_no, self._due_at).to_json()
        if self._due_at is not None:
            self._attempt_no, self._due_at = self._attempt_no + 1, None
        self._lease_until = now + ACK_TIMEOUT
        return Verdict(VerdictKind.SENT, self._attempt_no, self._lease_until).to_json()

    def settle(self, request: Any) -> dict[str, Any]:
        now = self._now()
        assert self._lease_until is not None
        if now < self._lease_until:
            return Verdict(VerdictKind.AWAIT_ACK, self._attempt_no, self._lease_until).to_json()
        if self._attempt_no == self._attempts:
            return Verdict(VerdictKind.END).to_json()
        self._due_at = now + BACKOFF
        return Verdict(VerdictKind.BACKOFF, self._attempt_no, self._due_at).to_json()


def test_a_timer_is_never_early_and_wakes_the_orchestration_once() -> None:
    """R31: three ACK time-outs cost six activities and 48 events; Azure's history table has one sentinel row more."""
    ledger = Ledger(attempts=3)
    hub = ledger.hub = Hub(
        {durable_names.JOB: job._function.get_user_function().orchestrator_function},
        {durable_names.DISPATCH: ledger.dispatch, durable_names.SETTLE: ledger.settle},
    )
    started = hub.start(durable_names.JOB, {"job_id": "job_1", "steps": ["ocr"]})
    hub.advance(minutes=1)

    instance = hub.store.instance(started)
    assert instance is not None
    assert instance.status.is_terminal
    assert [name for name, _ in hub.calls] == [durable_names.DISPATCH, durable_names.SETTLE] * 3
    assert len(hub.store.history(started, instance.execution_id)) == 48


def test_an_app_whose_clock_is_behind_is_asked_once_a_second() -> None:
    """A deadline that is over for the engine and not for the app is no timer that fires at once."""
    ledger = Ledger(attempts=1, behind=timedelta(seconds=30))
    hub = ledger.hub = Hub(
        {durable_names.JOB: job._function.get_user_function().orchestrator_function},
        {durable_names.DISPATCH: ledger.dispatch, durable_names.SETTLE: ledger.settle},
    )
    started = hub.start(durable_names.JOB, {"job_id": "job_1", "steps": ["ocr"]})
    hub.advance(minutes=1)

    instance = hub.store.instance(started)
    assert instance is not None
    assert instance.status.is_terminal
    settled = [name for name, _ in hub.calls].count(durable_names.SETTLE)
    assert 1 < settled <= ACK_TIMEOUT.total_seconds() + 2
