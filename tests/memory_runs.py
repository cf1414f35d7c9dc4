"""Files of runs in memory, written as the runner would write them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from shared.ports.runs import LogPart, RunArtifact

WRITTEN_AT = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)


class MemoryRuns:
    """See `shared.ports.runs.RunFiles`."""

    def __init__(self) -> None:
        #: by (tenant, job, attempt)
        self.logs: dict[tuple[str, str, int], bytes] = {}
        self.names: dict[tuple[str, str, int], list[str]] = {}
        self.calls: Counter[str] = Counter()

    async def read_log(self, tenant: str, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart | None:
        self.calls["read_log"] += 1
        if (log := self.logs.get((tenant, job_id, attempt))) is None:
            return None
        data = log[offset : offset + limit]
        return LogPart(data, WRITTEN_AT if data else None)

    async def artifacts(self, tenant: str, job_id: str, attempt: int) -> list[RunArtifact]:
        names = self.names.get((tenant, job_id, attempt), [])
        return [RunArtifact(name, 3, "text/plain", WRITTEN_AT) for name in names]

    async def link(self, tenant: str, job_id: str, attempt: int, name: str, *, until: datetime) -> str:
        return f"https://store/{tenant}/{job_id}/{attempt}/{name}?until={until:%H:%M}"
