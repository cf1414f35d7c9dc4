"""Links between jobs (redrives, replays and dependencies), compared if both jobs are in the bundle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from lucius_verify.chain import TERMINAL, is_withheld
from lucius_verify.faults import Fault, Unreadable
from lucius_verify.histories import History
from lucius_verify.json_rows import Row, digest, line

#: maximum jobs that links name; each needs about a kilobyte of memory
MAX_NAMES = 500_000
#: by kind of link: the column of a job that names the other job, and the other's column that names it back
NAMED_BY = {"redrive": ("redrive_of", "redriven_by"), "replay": ("replay_of", None)}


def links_of(job: Row) -> Iterator[Row]:
    """Returns the rows of `links.jsonl` for a job: its links to other jobs."""
    for kind, (column, _) in NAMED_BY.items():
        if job.get(column) is not None:
            yield {"from": job["job_id"], "to": job[column], "kind": kind}
    for other in job.get("dependencies") or ():
        yield {"from": job["job_id"], "to": other, "kind": "dependency"}


class Links:
    """The columns of linked jobs, for the comparison after all jobs are read."""

    def __init__(self, rows: Iterator[tuple[int, Row]]) -> None:
        """Reads the rows of `links.jsonl`. Raises Unreadable."""
        self._named: set[str] = set()
        for number, row in rows:
            self._named |= {each for each in (row.get("from"), row.get("to")) if isinstance(each, str)}
            if len(self._named) > MAX_NAMES:
                raise Unreadable(f"the file names more than {MAX_NAMES} jobs", "links.jsonl", number)
        self._jobs: dict[str, Row] = {}
        #: by the id of a replay, the jobs whose histories name it: one, or a second one that contradicts it
        self._replayed: dict[str, tuple[str, ...]] = {}
        self._rows = hashlib.sha256()
        self.count = 0
        #: number of links with both jobs in the bundle
        self.compared = 0

    def add(self, history: History, kept: Mapping[str, frozenset[str]]) -> None:
        """Adds the job of `history` for the comparison. `kept` has the columns that a redrive copies from a `job`, a
        `step` and a `carried` step, and the columns that a `replay` copies from a job.
        """
        job = history.job
        for each in links_of(job):
            self._rows.update(line(each))
            self.count += 1
        for event in history.events:
            if event["type"] != "JOB_REPLAYED" or is_withheld(event):
                continue
            new = event["data"]["replayed_by"]
            if isinstance(new, str) and new in self._named:
                self._replayed[new] = tuple(dict.fromkeys((*self._replayed.get(new, ())[:1], history.job_id)))
        if history.job_id not in self._named:
            return
        names = (
            "redrive_of",
            "redriven_by",
            "replay_of",
            "dependencies",
            "dependencies_settled_at",
            "on_dependency_failure",
            "error_code",
        )
        self._jobs[history.job_id] = {
            **{name: job.get(name) for name in names},
            "status": job["status"],
            "place": history.row_fault(""),
            "kept": digest({name: job.get(name) for name in kept["job"]}),
            "replayed": digest({name: job.get(name) for name in kept["replay"]}),
            "steps": {
                step["step_id"]: {
                    "status": step["status"],
                    "carried": bool(step.get("carried")),
                    "plan": digest({name: step.get(name) for name in kept["step"]}),
                    "result": digest({name: step.get(name) for name in kept["carried"]}),
                }
                for step in history.steps
            },
        }

    def rows_digest(self) -> str:
        """Returns the SHA-256 that `links.jsonl` must have."""
        return self._rows.hexdigest()

    def fault(self) -> Fault | None:
        """Returns a fault of the first link whose two jobs disagree, or None if all links agree."""
        for job_id, job in sorted(self._jobs.items()):
            for why in self._contradictions(job_id, job):
                place: Fault = job["place"]
                return Fault(why, place.file, place.row, job_id)
        return None

    def _contradictions(self, job_id: str, job: Row) -> Iterator[str]:
        old = self._jobs.get(job["redrive_of"] or "")
        if old is not None:
            self.compared += 1
            yield from _redrive(job_id, job, old)
        original = self._jobs.get(job["replay_of"] or "")
        if original is not None:
            self.compared += 1
            yield from _replay(job, original)
        for each in self._replayed.get(job_id, ()):
            if each != job["replay_of"]:
                yield f"the job is the replay of {job['replay_of']}, and {each} names the job as its replay"
        new = self._jobs.get(job["redriven_by"] or "")
        if new is not None and new["redrive_of"] != job_id:
            yield f"the job was redriven by {job['redriven_by']}, which is the redrive of {new['redrive_of']}"
        failed_by_other = job["error_code"] == "DEPENDENCY_FAILED"
        known = [(each, self._jobs[each]["status"]) for each in job["dependencies"] or () if each in self._jobs]
        self.compared += len(known)
        complete = known and len(known) == len(job["dependencies"])
        if failed_by_other and complete and all(status == "SUCCEEDED" for _, status in known):
            yield "the job failed because of a dependency, and all its dependencies succeeded"
        if job["dependencies_settled_at"] is not None and job["on_dependency_failure"] != "run":
            for other, status in known:
                if status in TERMINAL and status != "SUCCEEDED":
                    yield f"the job started after its dependencies, and the dependency {other} is {status}"


def _replay(job: Row, original: Row) -> Iterator[str]:
    """Returns the differences of a replay from its original. An archived original does not name its replays."""
    if original["status"] not in TERMINAL:
        yield f"the job is the replay of {job['replay_of']}, which is {original['status']}"
    plans, others = ({name: step["plan"] for name, step in each["steps"].items()} for each in (job, original))
    if (job["replayed"], plans) != (original["replayed"], others):
        yield f"the plan or a field that a replay keeps differs from {job['replay_of']}"


def _redrive(job_id: str, job: Row, old: Row) -> Iterator[str]:
    """Returns the differences of a redrive from its old job. The old job may have been read before that job named the
    new job.
    """
    if old["redriven_by"] not in (None, job_id):
        yield f"the job is the redrive of {job['redrive_of']}, which was redriven by {old['redriven_by']}"
    if old["status"] not in ("FAILED_FINAL", "CANCELLED"):
        yield f"the job is the redrive of {job['redrive_of']}, which is {old['status']}"
    if job["kept"] != old["kept"] or job["steps"].keys() != old["steps"].keys():
        yield f"the steps or a field that a redrive keeps differ from {job['redrive_of']}"
        return
    for step_id, step in job["steps"].items():
        before: Mapping[str, Any] = old["steps"][step_id]
        if step["plan"] != before["plan"]:
            yield f"the plan of step {step_id} differs from the plan in {job['redrive_of']}"
        if step["carried"] and (before["status"], before["result"]) != ("SUCCEEDED", step["result"]):
            yield f"the carried result of step {step_id} differs from the result in {job['redrive_of']}"
