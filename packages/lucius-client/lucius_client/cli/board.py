"""Live progress: for each job a line with its step, state, attempt, progress and elapsed time.

In a terminal, the lines are updated in place. Elsewhere, a line is printed for each change.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from lucius_client import Client
from lucius_client.cli.rendering import Json
from lucius_client.cli.tables import Column, Listing, status, table_lines
from lucius_client.job_stream import JobEvents
from lucius_client.models import Event
from lucius_client.series import TERMINAL

#: maximum concurrent streams of jobs: half of the requests that the API holds for a tenant
_AT_ONCE = 5
#: states of a job in which its step shows more
_STEPS_SAY_IT = frozenset({"QUEUED", "IN_PROGRESS"})
#: maximum length of a progress that is not a number from 0 to 1
_MAX_PROGRESS = 60

#: columns of the progress; a label is a file or an id, which has 36 characters
_PROGRESS = Listing(
    "jobs",
    "label",
    (
        Column("document", "label", room=36),
        Column("step", "step", room=10),
        Column("state", status("state")),
        Column("attempt", "attempt", drop=3),
        Column("progress", "progress", room=8, drop=1),
        Column("elapsed", "elapsed", drop=2),
    ),
)


@dataclass(frozen=True)
class Line:
    """The progress of one job."""

    #: position and id of the step, such as `2/3 embedding`
    step: str
    state: str
    #: number and maximum, such as `1/3`; the maximum is missing if the API does not send it
    attempt: str
    #: last report of the service; empty if there is none, or the step does not run
    progress: str
    elapsed_s: float

    @classmethod
    def of(cls, job: Json, at: datetime | None = None, step_id: str | None = None) -> Line:
        """Returns the progress line of a step of `job`, by default of the current step. `job` is JSON of the API.

        The elapsed time of an ended job is its duration. Otherwise the elapsed time ends at `at`, by default now. The
        state is the step's state while the job is QUEUED or IN_PROGRESS, else the job's state.
        """
        created = datetime.fromisoformat(job["created_at"])
        ended = datetime.fromisoformat(job["completed_at"]) if job.get("completed_at") else None
        until = ended or at or datetime.now(created.tzinfo)
        steps = job["steps"]
        current = steps[min(job["current_step_index"], len(steps) - 1)]
        step = next((each for each in steps if each["stepId"] == step_id), current)
        runs = step["status"] == "PROCESSING"
        return cls(
            step=f"{step['step_index'] + 1}/{len(steps)} {step['stepId']}",
            state=step["status"] if job["status"] in _STEPS_SAY_IT else job["status"],
            attempt=f"{step['attempt_no']}/{step['max_attempts']}"
            if "max_attempts" in step
            else str(step["attempt_no"]),
            progress=_progress(step.get("progress")) if runs else "",
            elapsed_s=max(0.0, (until - created).total_seconds()),
        )

    @property
    def shown(self) -> tuple[str, str, str, str]:
        """Returns the values whose change makes a new line."""
        return self.step, self.state, self.attempt, self.progress


class Board:
    """The display of the progress of jobs by label, as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._jobs: dict[str, Json] = {}
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
        """Sets the line of `label` from `job`, as the API sends it."""
        self._jobs[label] = job
        self._put(label, Line.of(job))

    def add(self, label: str, event: Event) -> None:
        """Adds the next event of a job to the line of `label`, unless the line already includes the event."""
        job = self._jobs[label]
        if event.seq <= job["event_seq"]:
            return
        job = self._jobs[label] = _after(job, event)
        self._put(label, Line.of(job, event.at, event.stepId))

    def _put(self, label: str, line: Line) -> None:
        before = self._lines.get(label)
        self._lines[label] = line
        if self._live is None and (before is None or before.shown != line.shown):
            text = f"{line.elapsed_s:6.1f} s  {label}  step {line.step}  {line.state}  attempt {line.attempt}"
            text += f"  {line.progress}" if line.progress else ""
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _table(self) -> Text:
        # a copy, since another thread draws
        rows = [
            {**asdict(line), "label": label, "elapsed": f"{Line.of(self._jobs[label]).elapsed_s:.1f} s"}
            for label, line in list(self._lines.items())
        ]
        return Text("\n", no_wrap=True, overflow="ellipsis").join(table_lines(_PROGRESS, rows, self._console.width))


def follow(
    client: Client,
    board: Board,
    active: Mapping[str, str],
    pending: Iterable[tuple[str, Callable[[], str]]] = (),
    max_in_flight: int = 1,
) -> dict[str, Json]:
    """Shows the progress of the jobs in `active` (label: job id) until all have ended. Returns the jobs by label.

    `pending` has the jobs to submit, each a label and a function that submits the job and returns the job id. A pending
    job is submitted when fewer than `max_in_flight` jobs run. `client` needs the retries `WATCH_RETRIES`. Raises errors
    of the client.
    """
    job_ids, queue, ended = dict(active), deque(pending), {}
    streams: dict[str, JobEvents] = {}
    idle, asked, answers = deque[str](), set[str](), SimpleQueue[tuple[str, list[Event] | Exception]]()

    def begin(label: str) -> None:
        # first a position, then the job as it is: events in between are in both, and are skipped
        streams[label] = JobEvents(job_ids[label], client._retries, after="latest")
        client._run(streams[label].next())
        if not look(label):
            idle.append(label)

    def look(label: str) -> bool:
        job = client.job(job_ids[label]).plain()
        board.show(label, job)
        if job["status"] in TERMINAL:
            ended[label] = job
        return label in ended

    def ask(label: str) -> None:
        try:
            answers.put((label, client._run(streams[label].next())))
        except Exception as error:  # the thread that reads the responses raises it
            answers.put((label, error))

    for label in job_ids:
        begin(label)
    while queue or len(ended) < len(job_ids):
        while queue and len(job_ids) - len(ended) < max_in_flight:
            label, submit = queue.popleft()
            job_ids[label] = submit()
            begin(label)
        while idle and len(asked) < _AT_ONCE:
            label = idle.popleft()
            asked.add(label)
            # a daemon, since a thread that waits for the API must not delay the exit
            threading.Thread(target=ask, args=(label,), daemon=True).start()
        if not asked:
            continue
        label, found = answers.get()
        if isinstance(found, Exception):
            raise found
        for event in found:
            board.add(label, event)
        asked.remove(label)
        has_ended = not streams[label].more or (found and found[-1].job_to in TERMINAL)
        if not (has_ended and look(label)):
            # moved to the end, so that a job without events makes room for others
            idle.append(label)
    return {label: ended[label] for label in job_ids}


def _after(job: Json, event: Event) -> Json:
    """Returns the state of the job after the event, in the fields that lines show."""
    changes: Any = event.data.get("changes", {}) if isinstance(event.data, dict) else {}
    of_steps = changes.get("steps", {})
    steps = [{**step, **_known(step, of_steps.get(step["stepId"], {}))} for step in job["steps"]]
    of_job = _known(job, changes.get("job", {}))
    return {**job, **of_job, "steps": steps, "status": event.job_to, "event_seq": event.seq}


def _known(row: Json, changed: Json) -> Json:
    return {name: value for name, value in changed.items() if name in row}


def _progress(reported: Any) -> str:
    if reported is None:
        return ""
    if isinstance(reported, int | float) and not isinstance(reported, bool) and 0 <= reported <= 1:
        return f"{reported:.0%}"
    text = json.dumps(reported, ensure_ascii=False)
    return text if len(text) <= _MAX_PROGRESS else f"{text[:_MAX_PROGRESS]}..."
