"""Many envelopes in one request, each line its own outcome."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.contracts.responses.common import JobId, Response
from shared.contracts.responses.dry_run import DryRun
from shared.contracts.responses.job import JobLinks
from shared.contracts.responses.problem import Problem


class LineOutcome(Response):
    """What came of one line: a job, a dry run or a problem."""

    line: Annotated[int, Field(ge=1)]
    """Its number in the body, blank lines counted too."""
    status: int
    """What a request of its own would have been answered with: 202, 200 (dry run), 4xx or 5xx."""
    jobId: JobId | None = None
    links: JobLinks | None = None
    replayed: bool | None = None
    """The job was there already."""
    dryRun: DryRun | None = None
    problem: Problem | None = None


class BatchCounts(Response):
    """Sums; all but `lines` add up to `lines`."""

    lines: int
    created: int
    replayed: int
    checked: int
    """Dry runs that would do."""
    refused: int
    """4xx: will be refused again."""
    failed: int
    """5xx: may go through when sent again."""


class BatchOutcome(Response):
    """The outcomes in the order of the lines."""

    results: list[LineOutcome]
    counts: BatchCounts
