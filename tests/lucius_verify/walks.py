"""Histories that the app's transition function makes of random occurrences, by seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from shared.api.audit import bundle
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Origin, Provenance
from shared.core.jobs.job import Event, Record
from shared.core.jobs.occurrences import (
    Control,
    ControlKind,
    Expired,
    Gated,
    Occurrence,
    OrchestrationEnded,
    PriorityChanged,
    Redriven,
    Repaired,
    ReplyArrived,
    TimePassed,
)
from shared.core.jobs.plan import compute_digests, plan_job, with_first_event
from shared.core.jobs.redrive import plan_redrive
from shared.core.jobs.routing import decide_lane
from shared.core.jobs.states import JobStatus
from tests.jobs import DEFAULTS, START, envelope, reply
from tests.model.generators import to_a_job
from tests.simulation import protocols

Document = dict[str, Any]

_TYPES = (protocols.SEQUENCE, protocols.GROUP, protocols.CAPPED, protocols.ONE_STEP)
_STATUSES = (JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.THROTTLED, JobStatus.WAITING_FOR_JOBS)
_SECONDS = (0.0, 0.5, 1.0, 4.0, 31.0, 70.0, 350.0, 1000.0)
#: share of accepted occurrences that would end most walks early or repeat themselves
_SELDOM = {Repaired: 0.1, OrchestrationEnded: 0.2, TimePassed: 0.9, Gated: 0.3, PriorityChanged: 0.5, Expired: 0.2}
_MAX_EVENTS = 40


class Walk:
    """A job, from its creation on."""

    def __init__(self, seed: int, job_id: str, *, calm: bool = False) -> None:
        """Sets the random walk. `calm`: only occurrences with which a job succeeds."""
        self.random = random.Random(seed)
        self.calm = calm
        #: its orchestrations end before it does
        self.fragile = seed % 7 == 3
        self.now = START + timedelta(seconds=seed)
        self.record, first = self._created(job_id)
        self.events: list[Event] = [first]

    def _created(self, job_id: str) -> tuple[Record, Event]:
        kind = self.random.choice(_TYPES)
        status = JobStatus.QUEUED if self.calm else self.random.choice(_STATUSES)
        payload = {} if kind == protocols.ONE_STEP else {"ocr": {}, "embedding": {}, "sis": {}}
        expires_at = self.now + timedelta(minutes=10)
        request = envelope(request_type=kind, doc_id=job_id, payload=payload, expires_at=expires_at)
        protocol = protocols.registry().find(kind)
        assert protocol is not None
        planned = plan_job(
            request,
            protocol,
            decide_lane(request, default_mode="DEFAULT", lanes=16),
            DEFAULTS,
            job_id=job_id,
            created_at=self.now,
            correlation_id="corr-1",
            workspace_uri="https://account.blob.core.windows.net/workspace",
            identity=compute_digests(request),
            initial_status=status,
            dependencies=["job_0"] if status is JobStatus.WAITING_FOR_JOBS else (),
        )
        return with_first_event(planned, self._salt())

    def run(self) -> Walk:
        """Until the job has ended, or long enough."""
        while len(self.events) < _MAX_EVENTS and self._step():
            pass
        return self

    def occurs(self, occurrence: Occurrence, *, ignored: float = 1.0) -> bool:
        """Applies an occurrence. Returns whether an event followed.

        `ignored` is the share of ignored replies that are accepted.
        """
        provenance = Provenance(
            cause_id=f"cause-{len(self.events)}", actor="system", source="test", at=self.now, salt=self._salt()
        )
        outcome = apply(self.record, occurrence, provenance)
        if not outcome.events or (not outcome.transitioned and self.random.random() >= ignored):
            return False
        self.record = outcome.record
        self.events += outcome.events
        return True

    def redrive(self, job_id: str) -> Walk:
        """Returns the job that redrives this one."""
        new = Walk(self.random.randrange(1 << 30), job_id)
        new.now = self.now + timedelta(seconds=60)
        self.now = new.now
        self.occurs(Redriven(job_id))
        origin = Origin(cause_id="redrive", actor="caller", source="http", reason="fixed")
        new.record, first = plan_redrive(
            self.record,
            job_id=job_id,
            created_at=new.now,
            allowed=timedelta(days=7),
            origin=origin,
            salt=self._salt(),
        )
        new.events = [first]
        return new

    def document(self) -> Document:
        """The bundle of the job, as `lucius job audit` writes it."""
        written: Document = json.loads(json.dumps(bundle(self.record, self.events, self.now)))
        return written

    def _step(self) -> bool:
        """Makes one step. Returns whether something happened."""
        ended = self.record.job.status.terminal
        self.now += timedelta(seconds=self.random.choice(_SECONDS))
        for occurrence in self.random.sample(found := list(self._possible()), len(found)):
            if self.random.random() < self._share(occurrence) and self.occurs(occurrence, ignored=0.1):
                return not (ended and self.random.random() < 0.5)
        return not ended

    def _possible(self) -> Iterable[Occurrence]:
        for each in to_a_job(self.record):
            # a redrive is a walk of its own
            if not isinstance(each, Redriven):
                yield each
        for step in self.record.open_steps:
            yield ReplyArrived(reply(self.record, "HEARTBEAT", step.step_id, progress={"page": len(self.events)}), 30.0)
            content = {"metrics": {"pages": 3}, "digests": {"text": "sha256:0"}, "worker_id": "w-1"}
            yield ReplyArrived(reply(self.record, "RESULT", step.step_id, **content))

    def _share(self, occurrence: Occurrence) -> float:
        if self.calm:
            fine = isinstance(occurrence, ReplyArrived) and occurrence.reply.status in (None, "SUCCEEDED")
            return 1.0 if fine or type(occurrence).__name__ == "RecordAttempt" else 0.0
        if isinstance(occurrence, Control):
            return 0.05 if occurrence.kind is ControlKind.CANCEL else 0.2
        if isinstance(occurrence, ReplyArrived):
            return {"FAILED_FINAL": 0.03, "FAILED_RETRY": 0.3}.get(occurrence.reply.status or "", 0.5)
        if self.fragile and isinstance(occurrence, OrchestrationEnded):
            return 1.0
        return _SELDOM.get(type(occurrence), 0.6)

    def _salt(self) -> str:
        return self.random.randbytes(16).hex()


def walks(count: int, *, first: int = 0) -> list[Document]:
    """Returns the bundles of this number of walks, and of the redrives of redrivable ones, in order of their ids."""
    made: list[Walk] = []
    for seed in range(first, first + count):
        walk = Walk(seed, f"job_{seed:06}", calm=seed % 5 == 0).run()
        made.append(walk)
        if walk.record.job.status in (JobStatus.FAILED_FINAL, JobStatus.CANCELLED) and seed % 2:
            made.append(walk.redrive(f"job_{seed:06}r").run())
    return [walk.document() for walk in made]
