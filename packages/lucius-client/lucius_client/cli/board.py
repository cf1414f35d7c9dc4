"""Live progress: for each job a line with its step, state, attempt and elapsed time.

In a terminal the lines are updated in place; elsewhere a line is printed for each change.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lucius_client import Client
from lucius_client.cli.rendering import Json, coloured
from lucius_client.series import TERMINAL

_POLL_S = 0.4


@dataclass(frozen=True)
class Line:
    """The progress of one job."""

    #: position and id, as `2/3 embedding`
    step: str
    state: str
    #: number and maximum, as `1/3`; the maximum is missing where the API does not send it
    attempt: str
    elapsed_s: float

    @classmethod
    def of(cls, job: Json) -> Line:
        """The line of `job`, as the API sends it. Its state is that of its current step; an ended job has its own."""
        created = datetime.fromisoformat(job["created_at"])
        until = datetime.fromisoformat(job["completed_at"]) if job.get("completed_at") else datetime.now(created.tzinfo)
        steps = job["steps"]
        step = steps[min(job["current_step_index"], len(steps) - 1)]
        ended = job["status"] in TERMINAL
        return cls(
            step=f"{step['step_index'] + 1}/{len(steps)} {step['stepId']}",
            state=job["status"] if ended else step["status"],
            attempt=f"{step['attempt_no']}/{step['max_attempts']}"
            if "max_attempts" in step
            else str(step["attempt_no"]),
            elapsed_s=max(0.0, (until - created).total_seconds()),
        )


class Board:
    """Shows jobs by label, as a context manager."""

    def __init__(self, console: Console) -> None:
        #: number of jobs passed to `show` so far
        self.updates = 0
        self._console = console
        self._lines: dict[str, Line] = {}
        self._live = (
            Live(console=console, get_renderable=self._table, refresh_per_second=4)
            if console.is_terminal and not console.is_dumb_terminal
            else None
        )

    def __enter__(self) -> Board:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, label: str, job: Json) -> None:
        """Updates the line of `label`."""
        self.updates += 1
        before, line = self._lines.get(label), Line.of(job)
        self._lines[label] = line
        changed = before is None or (before.step, before.state, before.attempt) != (line.step, line.state, line.attempt)
        if changed and not self._live:
            text = f"{line.elapsed_s:6.1f} s  {label}  step {line.step}  {line.state}  attempt {line.attempt}"
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        for heading in ("document", "step", "state", "attempt", "elapsed"):
            table.add_column(heading, header_style="bold", justify="right" if heading == "elapsed" else "left")
        for label, line in self._lines.items():
            table.add_row(Text(label), line.step, coloured(line.state), line.attempt, f"{line.elapsed_s:.1f} s")
        return table


def follow(
    client: Client,
    board: Board,
    active: Mapping[str, str],
    pending: Iterable[tuple[str, Callable[[], str]]] = (),
    max_in_flight: int = 1,
) -> dict[str, Json]:
    """Shows the jobs in `active` (label: job id) until all have ended; returns the ended jobs by label.

    `pending` are jobs to submit, each a label and the function that submits it and returns the job id; at most
    `max_in_flight` jobs run at once. `client` should have the retries `WATCH_RETRIES`.
    """
    running, queue, ended = dict(active), deque(pending), {}
    while running or queue:
        while queue and len(running) < max_in_flight:
            label, submit = queue.popleft()
            running[label] = submit()
        for label, job_id in list(running.items()):
            job = client.job(job_id).plain()
            board.show(label, job)
            if job["status"] in TERMINAL:
                ended[label] = job
                del running[label]
        if running:
            time.sleep(_POLL_S)
    return ended
