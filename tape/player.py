"""Plays a tape: submits its jobs at their times, replies to their directives as recorded, and compares histories."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from shared.contracts.envelope import Envelope
from shared.contracts.messages import Directive
from shared.core.jobs.as_of import encode_columns, encode_value
from shared.core.jobs.history import EventType, Origin
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.replay import ReplayMode, ReplayRequest
from shared.errors import PublishUnavailable
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.jobs.replay_job import replay_job
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.refusals import Refused
from tape.compare import Difference, compared, first_difference
from tape.lateness import moment
from tape.recording import RecordedJob, RecordedReply, Row, instant
from tape.world import World, job_id_of_task

#: code of the error with which `--unknown fail` ends a step
UNKNOWN_CODE = "TAPE_UNKNOWN"
#: delays of the ACK and the RESULT after a directive that the tape does not have
_UNKNOWN_ACK, _UNKNOWN_RESULT = timedelta(seconds=0.1), timedelta(seconds=0.2)
#: lease of a reply whose recorded lease belongs to no attempt
_NO_LEASE = "0" * 32

Key = tuple[str, str, int]

#: columns of JOB that come from a request
_REQUESTED = (
    *("tenant_id", "request_type", "input_ref", "output_ref", "schema_version", "mode", "doc_id", "priority"),
    *("labels", "source", "requested_by", "expires_at", "correlation_id", "on_dependency_failure"),
)


@dataclass
class Report:
    """The result of a played tape."""

    jobs: int = 0
    #: number of compared events
    events: int = 0
    #: number of jobs that differ, by job type
    different: Counter[str] = field(default_factory=Counter)
    #: number of jobs that were not played, by reason
    not_played: Counter[str] = field(default_factory=Counter)
    #: number of directives that the tape does not have
    unknown: int = 0
    #: (job type, recorded version, played version)
    versions: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    #: the earliest difference
    first: Difference | None = None


class Player:
    """The player of one tape in one world. `unknown` is `fail` or `succeed`."""

    def __init__(self, jobs: Sequence[RecordedJob], app: Path, protocols: Path, *, unknown: str) -> None:
        self._jobs = {each.job_id: each for each in jobs}
        self._unknown_succeeds = unknown == "succeed"
        self._world = World(min(each.starts_at for each in jobs), app, protocols, _workspace(jobs))
        self._world.connect(self, self._jobs)
        self._leases: dict[Key, str] = {}
        self._publish_faults = Counter[Key]()
        self._numbers = itertools.count(1)
        self._refused: dict[str, str] = {}
        self._not_played: dict[str, str] = {}
        #: idempotency records of jobs that were submitted
        self._claims: set[str] = set()
        self._unknown = 0

    async def play(self) -> Report:
        for job in self._jobs.values():
            self._schedule(job)
        await self._world.run(self._has_living_jobs)
        return await self._report()

    # --- callers

    def _schedule(self, job: RecordedJob) -> None:
        if job.was_never_admitted:
            self._not_played[job.job_id] = "the job waited for a quota until it ended"
        elif any(each not in self._jobs or each in self._not_played for each in job.needs):
            self._not_played[job.job_id] = "the original or a dependency is not in the bundle or not played"
        elif job.events[0]["type"] != EventType.JOB_CREATED:
            self._not_played[job.job_id] = "the job was never created"
        else:
            self._world.at(job.starts_at, partial(self._submit, job))
            for at, kind, event in job.controls:
                self._world.at(at, partial(self._control, job, kind, event))
            for reply in job.replies:
                if reply.follows is None:
                    self._world.at(reply.at, partial(self._deliver, job, reply, _NO_LEASE))

    async def _submit(self, job: RecordedJob) -> None:
        job_id_of_task.set(job.job_id)
        context, orchestrations = self._world.context, self._world.orchestrations
        try:
            origin = _origin(job.events[0])
            if (old := job.job.get("redrive_of")) is not None:
                await redrive_job(context, orchestrations, old, origin)
            elif job.job.get("replay_of") is not None:
                await replay_job(context, orchestrations, _replay_request(job), origin)
            else:
                await create_job(context, orchestrations, self._envelope(job), correlation_id=None)
        except ValidationError as wrong:
            self._refused[job.job_id] = str(wrong).splitlines()[0]
        except Refused as refused:
            places = "; ".join(f"{path} {message}" for path, message in getattr(refused, "errors", None) or ())
            self._refused[job.job_id] = f"{type(refused).__name__}: {places or refused}"

    async def _control(self, job: RecordedJob, kind: ControlKind, event: Row) -> None:
        try:
            await control_job(self._world.context, self._world.orchestrations, job.job_id, kind, _origin(event))
        except Refused:
            return  # its event is missing in the history, which shows it

    def _envelope(self, job: RecordedJob) -> Envelope:
        row = job.job
        key = row.get("idempotency_key")
        if row["idempotency_hash"] in self._claims:
            # after the expiry of an idempotency record, which is earlier here
            key = f"tape:{job.job_id}"
        self._claims.add(row["idempotency_hash"])
        return Envelope.model_validate(
            {name: row[name] for name in _REQUESTED if row.get(name) is not None}
            | {
                "payload": {each["step_id"]: each.get("payload", {}) for each in job.steps},
                "idempotency_key": key,
                "dependencies": list(job.dependencies),
            }
        )

    # --- services: `shared.ports.bus.DirectivePublisher`

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        job, attempt = self._jobs[directive.jobId], (directive.stepId, directive.attempt_no)
        key = (directive.jobId, *attempt)
        if self._publish_faults[key] < job.count(EventType.PUBLISH_FAILED, attempt):
            self._publish_faults[key] += 1
            raise PublishUnavailable("the recorded bus did not accept the message")
        if key in self._leases:
            return  # duplicate detection
        self._leases[key] = directive.lease_id
        if attempt not in job.attempts:
            self._answer_unknown(job, directive)
            return
        for reply in job.replies:
            if reply.follows == attempt:
                at = moment(reply.at, self._world.now(), reply.sent_at)
                lease_id = directive.lease_id if reply.has_lease else _NO_LEASE
                self._world.at(at, partial(self._deliver, job, reply, lease_id))

    def _answer_unknown(self, job: RecordedJob, directive: Directive) -> None:
        self._unknown += 1
        result: dict[str, Any] = {"type": "RESULT", "status": "SUCCEEDED"}
        if not self._unknown_succeeds:
            error = {"code": UNKNOWN_CODE, "message": "the tape does not have this attempt"}
            result |= {"status": "FAILED_FINAL", "error": error}
        attempt, now = (directive.stepId, directive.attempt_no), self._world.now()
        for body, delay in (({"type": "ACK"}, _UNKNOWN_ACK), (result, _UNKNOWN_RESULT)):
            reply = RecordedReply(body, *attempt, attempt, True, now, now + delay)
            self._world.at(reply.at, partial(self._deliver, job, reply, directive.lease_id))

    async def _deliver(self, job: RecordedJob, reply: RecordedReply, lease_id: str) -> None:
        number = next(self._numbers)
        body = reply.body | {
            "jobId": job.job_id,
            "stepId": reply.step_id,
            "tenant_id": job.job["tenant_id"],
            "attempt_no": reply.attempt_no,
            "lease_id": lease_id,
        }
        message = ReplyMessage(
            body=json.dumps(body).encode(),
            lane=0,
            message_id=f"tape-{number}",
            sequence_number=number,
            delivery_count=1,
            enqueued_at=self._world.now(),
        )
        await receive_reply(self._world.context, self._world.orchestrations, message)

    # --- the result

    async def _has_living_jobs(self) -> bool:
        for job in self._jobs.values():
            stored = await self._world.context.ledger.read(job.job_id)
            if stored is not None and job.has_ended and not stored.record.job.status.terminal:
                return True
        return False

    async def _report(self) -> Report:
        report = Report(jobs=len(self._jobs), unknown=self._unknown, not_played=Counter(self._not_played.values()))
        found = []
        for job in self._jobs.values():
            if job.job_id not in self._not_played and (difference := await self._compare(job, report)) is not None:
                report.different[difference.request_type] += 1
                found.append(difference)
        report.first = min(found, key=lambda each: (each.at, each.place), default=None)
        return report

    async def _compare(self, job: RecordedJob, report: Report) -> Difference | None:
        ledger = self._world.context.ledger
        stored = await ledger.read(job.job_id)
        if stored is None:
            why = f"refused: {self._refused.get(job.job_id, 'the job was not created')}"
            created = "JOB_CREATED, by create"
            return Difference(job.place, job.job_id, job.job["request_type"], job.job["created_at"], (), created, why)
        played: list[Row] = []
        while page := await ledger.events(job.job_id, after_seq=len(played)):
            played += [encode_value(event) for event in page]
        end = encode_columns(stored.record.job)
        report.events += compared(job.events)
        report.versions[job.job["request_type"], job.job["protocol_version"], end["protocol_version"]] += 1
        parallel = {each["step_id"] for each in job.steps if each.get("group") is not None}
        parallel |= {each.step_id for each in stored.record.steps if each.group is not None}
        return first_difference(job.place, job.job, job.events, played, end, parallel)


def _replay_request(job: RecordedJob) -> ReplayRequest:
    """Returns the recorded request. Its key is the job's own, since a body can be sent twice with two keys."""
    row = job.job
    return ReplayRequest(
        job_id=row["replay_of"],
        mode=ReplayMode(row["replay_mode"]),
        reason=job.events[0].get("reason") or "",
        priority=row.get("priority"),
        key=f"tape:{job.job_id}",
    )


def _origin(event: Row) -> Origin:
    """Returns the recorded caller, and its cause id, so that the same request twice is one."""
    return Origin(cause_id=event["cause_id"], actor=event["actor"], source=event["source"], reason=event.get("reason"))


def _workspace(jobs: Sequence[RecordedJob]) -> str | None:
    """Returns the URI of the recorded workspace. Services wrote there, so results refer to it."""
    base, found, _ = str(jobs[0].job.get("workspace_base", "")).rpartition("/lucius/")
    return base if found else None


def started_at(jobs: Sequence[RecordedJob]) -> tuple[datetime, datetime]:
    """Returns the times of the first and the last creation of a recorded job."""
    times = [instant(each.job["created_at"]) for each in jobs]
    return min(times), max(times)
