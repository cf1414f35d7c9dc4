"""Errors of requests about archived jobs, replays and tenants, like those of `shared.refusals`."""

from __future__ import annotations

from shared.refusals import Refused


class JobArchived(Refused, status=409):
    """The job is archived and cannot change. Replay the job, or submit its request again."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} is archived and cannot change; replay the job, or submit its request again")


class ArchiveGone(Refused, status=410):
    """The job was archived, and its audit bundle was deleted from the archive. Only an operator can restore the
    bundle.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"the audit bundle of archived job {job_id} was deleted from the archive; only an operator can restore "
            "the blob from a backup"
        )


class ArchiveInvalid(Refused, status=500):
    """The job is archived, and its audit bundle differs from the bundle that was archived: damaged, too long or
    replaced. Only an operator can restore the bundle.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(
            f"the archived audit bundle of job {job_id} is damaged or was replaced; an operator must restore the blob "
            "from a backup"
        )


class NotReplayable(Refused, status=409):
    """The job cannot be replayed; `detail` has the cause."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        #: code: JOB_LIVE, PROTOCOL_GONE, SERVICE_GONE or WITHDRAWN
        self.code = reason


class NotAReplay(Refused, status=409, code="NOT_A_REPLAY"):
    """The job is not a replay, and only a replay can be compared. Create a replay with `POST
    /v1/jobs/{jobId}:replay`.
    """

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job {job_id} is not a replay; create a replay with POST /v1/jobs/{job_id}:replay")


class TenantLive(Refused, status=409):
    """The tenant has jobs that have not ended; `living` is the number of these jobs, at most 1,000. Cancel the jobs, or
    wait until they end.
    """

    def __init__(self, tenant: str, living: int, *, is_all: bool) -> None:
        number = living if is_all else f"{living} or more"
        super().__init__(
            f"jobs of tenant {tenant[:128]} that have not ended: {number}; cancel the jobs, or wait until they end"
        )
        self.members = {"living": living}


class PurgeForbidden(Refused, status=403):
    """Only operators can purge a tenant: the token must allow changes of all tenants."""

    text = "only operators can purge a tenant; use a token that allows changes of all tenants"
