"""Replays: the request, the new job, and the comparison of its steps with the steps of its original."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shared.access.references import Retention
from shared.api.job import JobLinks, job_links
from shared.api.response import Instant, JobId, JobStatusName, RequestBody, Response, Why
from shared.contracts.reference import Reference
from shared.core.jobs import comparison as core
from shared.core.jobs.job import Record

ReplayModeName = Literal["rerun", "compare"]

LikenessName = Literal["SAME", "DIFFERENT", "INPUT_CHANGED", "NOT_COMPARABLE", "PENDING"]


class ReplayBody(RequestBody):
    """Reason for a replay, and its options."""

    reason: Why
    """Reason, one line. Recorded in the history of the new job and, unless archived, of the original."""
    mode: Annotated[ReplayModeName, Field(examples=["compare"])] = "rerun"
    """Purpose, recorded in the history. `rerun`: the work is needed again. `compare`: the results are compared with
    the results of the original. Replays of both modes run the same steps and can be compared."""
    priority: Literal["low", "normal", "high", "emergency"] | None = None
    """Priority, as in a job request. Default: the priority with which the original was created."""


class ReplayLinks(JobLinks):
    """Paths of the replay."""

    comparison: str


class Replay(Response):
    """The replay, newly created or already existing."""

    jobId: JobId
    status: JobStatusName
    replay_of: JobId
    mode: ReplayModeName
    output_ref: Reference
    """Folder of the output, in the tenant's workspace. The replay does not write to the `output_ref` of the
    original."""
    output_kept_until: Instant | None
    """Earliest time after which the output can be deleted. Null if the output is retained without a limit."""
    created_at: Instant
    links: ReplayLinks


class ComparedStep(Response):
    """Comparison of a step of the replay with the same step of the original."""

    stepId: str
    outcome: LikenessName
    """Result of the comparison.

    - SAME: equal inputs and outputs.
    - DIFFERENT: equal inputs, other outputs.
    - INPUT_CHANGED: the step read other inputs, so its outputs prove nothing about the service.
    - NOT_COMPARABLE: `why` has the reason.
    - PENDING: the replay has not ended, and the step has not succeeded.
    """
    why: str | None
    """NOT_COMPARABLE only. The reason."""


class Comparison(Response):
    """A replay compared with its original, by the digests that the services sent with their RESULTs."""

    jobId: JobId
    replay_of: JobId
    mode: ReplayModeName
    status: JobStatusName
    """Status of the replay."""
    deterministic: bool | None
    """`true` if each step had equal inputs and equal outputs. `false` if a step had equal inputs and other outputs.
    Null in all other cases."""
    steps: list[ComparedStep]


def replay_response(record: Record, retention: Retention) -> Replay:
    job = record.job
    links = {**job_links(job.job_id).model_dump(), "comparison": f"/v1/jobs/{job.job_id}/comparison"}
    return Replay.of(
        job,
        jobId=job.job_id,
        mode=job.replay_mode,
        output_kept_until=retention.end(job.output_ref["uri"], job.created_at),
        links=ReplayLinks.model_validate(links),
    )


def comparison_response(original: Record, replay: Record) -> Comparison:
    job, steps = replay.job, core.compare(original, replay)
    return Comparison.of(
        job,
        jobId=job.job_id,
        mode=job.replay_mode,
        deterministic=core.is_deterministic(steps),
        steps=[ComparedStep(stepId=each.step_id, outcome=each.likeness.value, why=each.why) for each in steps],
    )
