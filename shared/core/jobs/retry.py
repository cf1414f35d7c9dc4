"""The wait before the next attempt (R9)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

#: maximum extension of a wait, as a share, so that many failed jobs do not return in the same second
JITTER = 0.1


def backoff_s(backoffs: Sequence[float], failures: int, *, job_id: str, step_id: str, attempt_no: int) -> float:
    """Returns the wait in seconds: entry number `failures` of the cause's list, plus a jitter of at most 10 % of the
    entry. The last entry repeats. Raises ValueError if `failures` is below 1.

    Dispatch failures are different: after the last entry there is no further try
    (`shared.core.jobs.attempts.fail_publish`).

    The jitter is a hash of (job, step, attempt), so repeated computation gives the same time.
    """
    if failures < 1:
        raise ValueError("the first failure is number 1")
    base = backoffs[min(failures, len(backoffs)) - 1]
    share = zlib.crc32(f"{job_id}:{step_id}:{attempt_no}".encode()) / 0xFFFFFFFF
    return base * (1 + JITTER * share)
