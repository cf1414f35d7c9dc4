"""Runs: jobs whose step PACK runs a program, with the log of each attempt and its artifacts (decision 62)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from shared.contracts.protocol import PACK
from shared.core.jobs.job import Record, Step
from shared.operations.process.context import Context
from shared.ports.runs import LogPart, RunArtifact, RunFiles

#: names that the runner gives to artifacts, without path separators
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_POSITION = re.compile(r"([1-9][0-9]{0,9})\.(0|[1-9][0-9]{0,14})")


@dataclass(frozen=True)
class Position:
    """A position in the log of a run: an attempt, and the number of bytes of its log that a reader has."""

    attempt: int = 1
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.attempt}.{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parses `{attempt}.{offset}`. Raises ValueError for any other text."""
        if (found := _POSITION.fullmatch(text)) is None:
            raise ValueError(text)
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True)
class Piece:
    """A part of one attempt's log."""

    at: Position
    part: LogPart

    @property
    def data(self) -> bytes:
        """Returns the bytes of the log, or no bytes if the log has no more yet."""
        return self.part.data

    @property
    def after(self) -> Position:
        return Position(self.at.attempt, self.at.offset + len(self.data))


@dataclass(frozen=True)
class Run:
    """A job whose step PACK runs a program, with its files."""

    record: Record
    step: Step
    files: RunFiles

    @property
    def last_attempt(self) -> int:
        """Returns the number of the last attempt, or 1 before the first attempt."""
        return max(self.step.attempt_no, 1)

    async def read_log(self, attempt: int, offset: int, limit: int) -> LogPart | None:
        job = self.record.job
        return await self.files.read_log(job.tenant, job.job_id, attempt, offset=offset, limit=limit)

    async def artifacts(self, attempt: int) -> list[RunArtifact]:
        return await self.files.artifacts(self.record.job.tenant, self.record.job.job_id, attempt)


def run_of(context: Context, record: Record) -> Run | None:
    """Returns the run of a job. Returns None if the job is not a run, or if the app has no files of runs."""
    step = next((each for each in record.steps if each.step_type == PACK), None)
    return Run(record, step, context.runs) if step is not None and context.runs is not None else None


async def read_log(run: Run, at: Position, *, limit: int) -> Piece:
    """Returns at most `limit` bytes after a position: of the position's attempt, or else of the next attempt with a
    log.

    The log of an attempt is complete if a later attempt has a log, since the runner closes the earlier log first.
    Raises RunsUnavailable, and ValueError for a position in an attempt that does not exist.
    """
    if at.attempt > run.last_attempt:
        raise ValueError(str(at))
    while True:
        # looked up first, so that the bytes read afterwards are complete
        newer = None
        for attempt in range(at.attempt + 1, run.last_attempt + 1):
            if await run.read_log(attempt, 0, 1) is not None:
                newer = attempt
                break
        part = await run.read_log(at.attempt, at.offset, limit)
        if newer is None or (part is not None and part.data):
            return Piece(at, part or LogPart(b"", None))
        at = Position(newer)


async def link_artifact(run: Run, attempt: int, name: str, until: datetime) -> str | None:
    """Returns a URL of an artifact that is valid until the time `until`, or None if no such artifact exists. Raises
    RunsUnavailable.
    """
    if not _NAME.fullmatch(name) or name not in {each.name for each in await run.artifacts(attempt)}:
        return None
    job = run.record.job
    return await run.files.link(job.tenant, job.job_id, attempt, name, until=until)
