"""Platform services that follow the message contract, or break it in every known way, drawn from the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shared.contracts.messages import Directive
from tape.scheduler import Scheduler
from tests.simulation.bus import Bus, SentDirective
from tests.simulation.faults import Faults

_ERROR = {"code": "STORAGE_UNAVAILABLE", "message": "try again later"}


class Services:
    """One for all step types. Each directive gets one of the behaviours below."""

    def __init__(self, scheduler: Scheduler, bus: Bus, faults: Faults) -> None:
        self._scheduler = scheduler
        self._bus = bus
        self._faults = faults
        self._random = scheduler.random
        #: (job, step, attempt, lease) of each RESULT that was sent, by its reference
        self.results: dict[str, tuple[str, str, int, str]] = {}
        #: of each directive, in order
        self.behaviours: list[str] = []
        self._bad: tuple[Callable[[Directive], None], ...] = (
            self._silent,
            self._acks_only,
            self._result_only,
            self._slow_ack,
            self._slow_result,
            self._heartbeats_then_result,
            self._heartbeats_only,
            self._fails_retryably,
            self._fails_finally,
            self._replies_twice,
            self._contradicts_itself,
            self._result_before_ack,
            self._foreign_replies,
        )

    def take(self, directive: Directive) -> None:
        behaviour = self._good
        if self._faults.occurs(self._faults.odds.service_misbehaves):
            behaviour = self._random.choice(self._bad)
        self.behaviours.append(behaviour.__name__)
        behaviour(directive)

    # --- behaviours

    def _good(self, directive: Directive) -> None:
        self._reply_later(directive, "ACK", self._random.uniform(0.1, 2))
        self._reply_later(directive, "RESULT", self._random.uniform(3, 60))

    def _silent(self, directive: Directive) -> None:
        """It received the message and crashed."""

    def _acks_only(self, directive: Directive) -> None:
        self._reply_later(directive, "ACK", 1)

    def _result_only(self, directive: Directive) -> None:
        self._reply_later(directive, "RESULT", self._random.uniform(1, 60))

    def _slow_ack(self, directive: Directive) -> None:
        late = self._random.uniform(20, 200)
        self._reply_later(directive, "ACK", late)
        self._reply_later(directive, "RESULT", late + self._random.uniform(1, 100))

    def _slow_result(self, directive: Directive) -> None:
        self._reply_later(directive, "ACK", 1)
        self._reply_later(directive, "RESULT", self._random.uniform(800, 1200))

    def _heartbeats_then_result(self, directive: Directive) -> None:
        self._reply_later(directive, "ACK", 1)
        for beat in range(1, 5):
            self._reply_later(directive, "HEARTBEAT", beat * 400, progress={"pages": beat})
        self._reply_later(directive, "RESULT", 5 * 400)

    def _heartbeats_only(self, directive: Directive) -> None:
        for beat in range(self._random.randint(1, 3)):
            self._reply_later(directive, "HEARTBEAT", 1 + beat * 400)

    def _fails_retryably(self, directive: Directive) -> None:
        self._reply_later(directive, "ACK", 1)
        self._reply_later(directive, "RESULT", self._random.uniform(2, 20), status="FAILED_RETRY", error=_ERROR)

    def _fails_finally(self, directive: Directive) -> None:
        if self._random.random() < 0.5:  # else every other job would end so
            self._fails_retryably(directive)
            return
        self._reply_later(directive, "ACK", 1)
        error = {"code": "PDF_ENCRYPTED", "message": "it has a password"}
        self._reply_later(directive, "RESULT", self._random.uniform(2, 20), status="FAILED_FINAL", error=error)

    def _replies_twice(self, directive: Directive) -> None:
        for _ in range(2):
            self._reply_later(directive, "ACK", self._random.uniform(0, 60))
            self._reply_later(directive, "RESULT", self._random.uniform(5, 60))

    def _contradicts_itself(self, directive: Directive) -> None:
        self._reply_later(directive, "RESULT", self._random.uniform(5, 30), status="FAILED_RETRY", error=_ERROR)
        self._reply_later(directive, "RESULT", self._random.uniform(5, 30))

    def _result_before_ack(self, directive: Directive) -> None:
        self._reply_later(directive, "RESULT", 5)
        self._reply_later(directive, "ACK", self._random.uniform(5, 40))

    def _foreign_replies(self, directive: Directive) -> None:
        self._reply_later(directive, "RESULT", 2, lease_id="00000000-0000-0000-0000-000000000000")
        self._reply_later(directive, "RESULT", 2, tenant_id="somebody else")
        self._reply_later(directive, "RESULT", 2, attempt_no=directive.attempt_no + 1)
        self._reply_later(directive, "RESULT", 2, stepId="nothing")
        self._reply_later(directive, "RESULT", 2, jobId="job_nobody")
        for raw in (b"{", b"[]", b'{"type": "RESULT"}'):
            self._bus.send_reply(directive.lane, raw)
        self._good(directive)

    def work_one_at_a_time(self, work_s: float) -> None:
        """One replica with room for one: it pulls the oldest directive, works on it, and only then pulls the next."""
        self._bus.pulled = True
        busy = False

        def pull(_: object = None) -> None:
            nonlocal busy
            waiting = next((one for one in self._bus.directives if not one.taken), None)
            if busy or waiting is None:
                return
            busy = True
            self.behaviours.append("one at a time")
            self._send(waiting.directive, "ACK", {})
            self._scheduler.later(work_s, lambda: finish(waiting))

        def finish(worked_on: SentDirective) -> None:
            nonlocal busy
            # completed after its RESULT: until then a read of the lane shows it
            self._send(worked_on.directive, "RESULT", {})
            worked_on.taken, busy = True, False
            pull()

        self._bus.on_directive = pull

    def _reply_later(self, directive: Directive, type_: str, after_s: float, **changes: Any) -> None:
        self._scheduler.later(after_s, lambda: self._send(directive, type_, changes))

    def _send(self, directive: Directive, type_: str, changes: dict[str, Any]) -> None:
        body: dict[str, Any] = {
            "type": type_,
            "jobId": directive.jobId,
            "stepId": directive.stepId,
            "tenant_id": directive.tenant_id,
            "attempt_no": directive.attempt_no,
            "lease_id": directive.lease_id,
            "timestamp": self._scheduler.now.isoformat(),
        }
        if type_ == "RESULT":
            uri = f"{directive.workspace_ref.uri}result-{len(self.results)}.json"
            body |= {"status": "SUCCEEDED", "result_ref": {"uri": uri}}
        body |= changes
        if body.get("status") == "SUCCEEDED":
            attempt = (body["jobId"], body["stepId"], body["attempt_no"], body["lease_id"])
            self.results[body["result_ref"]["uri"]] = attempt
        self._bus.send_reply(directive.lane, body)
