"""The bundle that is mutated: a job with every kind of trouble, one without, a redrive, and the logs of a quota."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import (
    Control,
    ControlKind,
    DeadlinePassed,
    Gated,
    LaneBacklog,
    Occurrence,
    PublishFailed,
    RenewLease,
    Replayed,
    ReplyArrived,
)
from shared.core.jobs.replay import ReplayMode, ReplayRequest, plan_replay
from shared.core.records.chained_log import chain_entry
from tests.jobs import START, recorded, reply
from tests.lucius_verify.walks import Document, Walk
from tests.simulation import protocols

ERROR = {"code": "BUSY", "message": "come back later"}
#: walks whose job has three consecutive steps, and one step
_SEQUENCE, _ONE_STEP = 10, 25


class Story(Walk):
    """A scripted job."""

    def then(self, seconds: float, occurrence: Occurrence) -> Story:
        self.now += timedelta(seconds=seconds)
        assert self.occurs(occurrence), occurrence
        return self

    def replied(self, seconds: float, kind: str, step: str = "ocr", **fields: Any) -> Story:
        return self.then(seconds, ReplyArrived(reply(self.record, kind, step, **fields)))

    def sent(self, seconds: float, step: str = "ocr") -> Story:
        return self.then(seconds, recorded(self.record, step))

    def replay(self, job_id: str) -> Story:
        """The replay of this job, a minute later."""
        new = Story(_ONE_STEP, job_id, calm=True)
        new.now = self.now + timedelta(seconds=60)
        origin = Origin(cause_id="replay", actor="caller", source="http", reason="a new release")
        new.record, first = plan_replay(
            self.record,
            ReplayRequest(job_id=self.record.job.job_id, mode=ReplayMode.COMPARE, reason="a new release"),
            job_id=job_id,
            created_at=new.now,
            allowed=timedelta(days=7),
            workspace_uri="https://account.blob.core.windows.net/workspace",
            origin=origin,
            salt=self._salt(),
        )
        new.events = [first]
        self.then(60, Replayed(job_id, ReplayMode.COMPARE.value))
        return new


@cache
def troubled() -> Document:
    """Time-outs, retries, a pause, a late reply, a publish fault, a shut guard; then it succeeds."""
    story = Story(_SEQUENCE, "job_a", calm=True)
    assert story.record.job.request_type == protocols.SEQUENCE
    story.then(1, Gated("ocr", "service ocr", "it is held"))
    story.sent(40).then(5, PublishFailed("ocr", 1, "the bus is away")).then(40, RenewLease("ocr", 1))
    story.then(31, LaneBacklog("ocr", 1, "directives wait on the lane")).then(70, DeadlinePassed("ocr", 1))
    story.sent(100).replied(2, "ACK", progress={"page": 1}).replied(300, "HEARTBEAT", progress={"page": 2})
    story.replied(10, "RESULT", status="FAILED_RETRY", error=ERROR, result_ref=None)
    story.sent(10).replied(1, "ACK", note="again").then(1, Control(ControlKind.PAUSE))
    story.replied(20, "RESULT", metrics={"pages": 3}, worker_id="ocr-1")
    story.then(600, Control(ControlKind.RESUME)).replied(1, "RESULT")
    story.sent(1, "embedding").replied(7, "RESULT", "embedding")
    story.sent(1, "sis").replied(1, "ACK", "sis").replied(30, "RESULT", "sis", artifacts=[_artifact()])
    assert story.record.job.status == "SUCCEEDED"
    return story.document()


def _artifact() -> dict[str, Any]:
    return {"name": "pages.json", "uri": "https://account.blob.core.windows.net/workspace/pages.json", "size": 9}


@cache
def failed_and_redriven() -> tuple[Document, Document]:
    """A job that failed after its first step, and the job that took it up again."""
    story = Story(_SEQUENCE, "job_b", calm=True)
    story.sent(1).replied(1, "ACK").replied(5, "RESULT").sent(1, "embedding")
    story.replied(5, "RESULT", "embedding", status="FAILED_FINAL", error=ERROR, result_ref=None)
    new = story.redrive("job_c")
    new.now += timedelta(seconds=1)
    assert new.occurs(recorded(new.record, "embedding"))
    return story.document(), new.document()


@cache
def replayed() -> tuple[Document, Document]:
    """A job with an artifact, and the job that ran it again."""
    story = Story(_ONE_STEP, "job_d", calm=True)
    story.sent(1).replied(1, "ACK").replied(5, "RESULT", artifacts=[_artifact()])
    new = story.replay("job_e").sent(1).replied(1, "ACK").replied(5, "RESULT")
    return story.document(), new.document()


def documents() -> list[Document]:
    return [troubled(), *failed_and_redriven()]


@cache
def logs() -> list[dict[str, Any]]:
    """Two entries of a quota's log, as the API sends them."""
    made: list[dict[str, Any]] = []
    values = {
        "gate_id": "tenant_a",
        "type": "RULE_SET",
        "actor": "op",
        "reason": "why",
        "at": START,
        "data": {"after": 1},
    }
    for _ in range(2):
        entry = chain_entry(values, seq=len(made), prev_hash=made[-1]["hash"] if made else "")
        at: datetime = entry["at"]
        made.append({"log": "quota:tenant_a", **entry, "at": at.isoformat().replace("+00:00", "Z")})
    return made
