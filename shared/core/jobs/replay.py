"""A replay: a new job that runs an ended job again from its first step.

The original does not change, except for an event that names the new job. The new job depends only on the rows of the
original, `created_at` of the idempotency record, the new id and the deployment's workspace. So two creators of the same
replay write the same rows, except for the salt and the provenance of the first EVENT.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from shared.core.jobs.as_of import make_creation_data
from shared.core.jobs.history import EventType, Origin, Provenance, append
from shared.core.jobs.job import Event, Job, Record, Ref
from shared.core.jobs.outcome import Outcome, make_transition, refuse
from shared.core.jobs.plan import Workspace, compute_total_time
from shared.core.jobs.reasons import IgnoreReason
from shared.core.jobs.redrive import JOB_KEPT, fresh_step
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import canonical_json, digest


class ReplayMode(StrEnum):
    """The purpose of a replay. A replay of either mode runs the same steps."""

    #: the results are needed again
    RERUN = "rerun"
    #: the results are compared with the original's
    COMPARE = "compare"


#: columns that a redrive copies and a replay does not: a replay calls no callback URL and writes only into the
#: workspace
NOT_REPLAYED = frozenset(
    {
        *("callback_urls", "callback_digest", "callback_targets"),
        *("output_ref", "workspace_base", "body_hash", "priority", "replay_of", "replay_mode"),
    }
)


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """A request to replay a job. Repeated requests have the same `key`, or the same digest if `key` is None."""

    job_id: str
    mode: ReplayMode
    reason: str
    #: priority; None means the original's
    priority: str | None = None
    #: idempotency key; None means a digest of the request
    key: str | None = None

    @property
    def body_hash(self) -> str:
        """Returns the digest of the request's content, for comparison with an earlier request with the same key."""
        return digest(canonical_json([self.job_id, self.mode.value, self.reason, self.priority]))

    @property
    def claim(self) -> str:
        """Returns the RowKey of the idempotency record, without its prefix. Repeated requests have the same RowKey."""
        which = f"key:{self.key}" if self.key is not None else f"body:{self.body_hash}"
        return digest(f"replay:{self.job_id}:{which}")


def plan_replay(
    old: Record,
    request: ReplayRequest,
    *,
    job_id: str,
    created_at: datetime,
    allowed: timedelta | None,
    workspace_uri: str,
    initial_status: JobStatus = JobStatus.QUEUED,
    origin: Origin,
    salt: str,
) -> tuple[Record, Event]:
    """Makes the new job's rows and its first EVENT. `allowed` is the protocol's total time for a job."""
    steps = tuple(fresh_step(step, created_at) for step in old.steps)
    base = Workspace(workspace_uri, old.job.tenant).uri
    job = Job(
        **{name: getattr(old.job, name) for name in JOB_KEPT - NOT_REPLAYED},
        priority=request.priority or old.job.priority,
        callback_urls={},
        workspace_base=base,
        output_ref=_output_ref(old, base, job_id),
        body_hash=request.body_hash,
        job_id=job_id,
        instance_id=job_id,
        status=initial_status,
        idempotency_hash=request.claim,
        requested_at=created_at,
        replay_of=old.job.job_id,
        replay_mode=request.mode.value,
        **compute_total_time(initial_status, created_at, allowed),
        current_step_id=steps[0].step_id,
        created_at=created_at,
        updated_at=created_at,
    )
    record = Record(job, steps)
    provenance = replace(origin.at(created_at, salt), cause_id=f"create:{job_id}")
    data = {**make_creation_data(record), "replay_of": old.job.job_id}
    return append(None, record, EventType.JOB_CREATED, provenance, data=data)


def _output_ref(old: Record, base: str, job_id: str) -> Ref:
    """Returns `{workspace base}/{job id}/output/{step type}/...`, with the type of each step whose result is the job's.

    In Azure a service can write only below its own step type (`infra/bicep/modules/platform-service-roles.bicep`).
    """
    types = "/".join(dict.fromkeys(step.step_type for step in old.last))
    return {"uri": f"{base}/{job_id}/output/{types}/"}


def mark_replayed(record: Record, job_id: str, mode: str, provenance: Provenance) -> Outcome:
    """Adds the EVENT of the replay to the original. The outcome is REFUSED if the original has not ended."""
    if not record.job.status.terminal:
        return refuse(record, IgnoreReason.JOB_LIVE)
    data = {"replayed_by": job_id, "mode": mode}
    return make_transition(record, record, EventType.JOB_REPLAYED, provenance, data=data)
