"""The page of a job: status, reason for the wait, times, steps, results, and the next command."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from rich.text import Text

from lucius_client import NotLucius, Refused
from lucius_client.cli import rendering
from lucius_client.cli.job_tables import ARTIFACTS, JOBS, STEPS, artifacts
from lucius_client.cli.rendering import Json, OutputFormat, coloured
from lucius_client.cli.session import Session
from lucius_client.cli.tables import Column, Listing, age_of, exact, print_page, print_table, status
from lucius_client.series import TERMINAL

#: next command by status; other jobs can be watched
_NEXT = {
    "SUCCEEDED": "lucius job result {jobId}",
    "FAILED_FINAL": "lucius job redrive {jobId}",
    "CANCELLED": "lucius job redrive {jobId}",
    "PAUSING": "lucius job resume {jobId}",
    "PAUSED": "lucius job resume {jobId}",
}
TRANSITIONS = Listing(
    "transitions",
    "source",
    (
        Column("of", "machine"),
        Column("state", status("state")),
        Column("event", "event", room=10),
        Column("to", status("to")),
        Column("rule", "source", room=8, drop=1),
    ),
)
OUTCOMES = Listing("outcomes", "event", (Column("if", "event"), Column("then", "then", room=10)))


def show_job(session: Session, job: Json) -> None:
    """Prints a job as a page, as an id, or as JSON. The page of a job that has not ended needs one more request."""
    if not session.for_people:
        session.show(JOBS, [job], job)
        return
    screen, now = rendering.console(), datetime.now(UTC)
    reason = None if job.get("as_of") or job["status"] in TERMINAL else waiting(explanation(session, job["jobId"]), now)
    print_page(screen, [*_identity(job), ("Waits for", reason), *_facts(job, now)], now)
    wide = session.output is OutputFormat.WIDE
    for heading, listing, rows in (("Steps", STEPS, job["steps"]), ("Results", ARTIFACTS, artifacts(job["steps"]))):
        if rows:
            screen.print(Text(f"\n{heading}", style="bold"))
            print_table(screen, listing, rows, wide=wide)
    if not job.get("as_of"):
        command = next_command(job)
        # a redrive of the same broken input fails again
        when = ", after a repair of the cause" if job["status"] == "FAILED_FINAL" and " redrive " in command else ""
        rendering.write(f"\nNext{when}: {command}")


def next_command(job: Json) -> str:
    if job.get("redriven_by"):
        return f"lucius job show {job['redriven_by']}"
    if job.get("archived_at") and job["status"] != "SUCCEEDED":
        return f"lucius job replay {job['jobId']} --reason TEXT"
    if job.get("error_code") == "WITHDRAWN":
        # no job was created that a redrive could continue
        return f"lucius submit DOCUMENT --protocol {job['request_type']}"
    return _NEXT.get(job["status"], "lucius job watch {jobId}").format(jobId=job["jobId"])


def explanation(session: Session, job_id: str) -> Json | None:
    """Returns the explanation of the job's state, or None if the API does not explain the job."""
    try:
        return session.client.explain(job_id).plain()
    except (Refused, NotLucius):
        return None


def waiting(explained: Json | None, now: datetime | None = None) -> str | None:
    """Returns the condition that the job waits for, with the time waited so far and the time limit or next check, in
    words. Returns None if the job does not wait.
    """
    if not explained or not explained.get("waits_for"):
        return None
    since, until = explained.get("since"), explained.get("until")
    passed = f", for {age_of(since, now)}" if since else ""
    text = at_a_quota(explained, passed, now) or f"{explained['waits_for']}{passed}"
    if until is None:
        return text
    # a dispatch limit is checked again, and has no time limit of its own
    checks = explained.get("gate") == "GATED"
    return (
        f"{text}, checked again at {exact(until, now)}"
        if checks
        else f"{text}, until {exact(until, now)} at the latest"
    )


def at_a_quota(row: Json, passed: str = "", now: datetime | None = None) -> str | None:
    """Returns a text such as `the quota of type OCR, which has reached its rate; position 2; starts in 3m`.

    Returns None if the job does not wait for a quota.
    """
    wait, start = row.get("quota_wait"), row.get("nextEligibleAt")
    if not wait:
        return None
    starts = wait["starts"]
    if start:
        starts = ahead if (ahead := age_of(start, now)).startswith("in ") else "now"
    return f"{wait['cause']}; position {row.get('position') or 'unknown'}{passed}; starts {starts}"


def in_one_sentence(explained: Json, job: Json | None) -> str:
    """Returns one sentence about a job: the outcome of an ended job, else the reason for the job's wait.

    `job` is the job if the job has ended, else None.
    """
    if job is None:
        reason = waiting(explained)
        return f"Job {explained['jobId']} is {explained['status']}" + (f": it waits for {reason}." if reason else ".")
    error = f" with {_error(job)}" if job.get("error_code") else ""
    attempts = job.get("attempts_total", 0)
    spent = f"{_duration(job)} and {attempts} attempt{'' if attempts == 1 else 's'}"
    return f"Job {job['jobId']} {job['status']} at {exact(job.get('completed_at'))} after {spent}{error}."


def show_transitions(explained: Json) -> None:
    """Prints the last transition of the job, and the outcome of each possible next event."""
    screen = rendering.console()
    if last := explained.get("brought_here"):
        actor = f" by {last['actor']}" if last.get("actor") else ""
        rendering.write(f"\nLast transition: event {last['seq']}, {last['type']}{actor}, {exact(last['at'])}")
        if last.get("rows"):
            print_table(screen, TRANSITIONS, last["rows"])
    if outcomes := explained.get("what_if"):
        rendering.write("\nPossible next events")
        print_table(screen, OUTCOMES, [{"event": name, "then": text} for name, text in outcomes.items()])
    if explained.get("then"):
        rendering.write(f"\n{explained['then']}")


def outcome(job: Json) -> str:
    """Returns `FAILED_FINAL 5m ago: PDF_BROKEN: the PDF is damaged`, or the status of a job that has not ended."""
    ended = f" {age_of(job['completed_at'])} ago" if job.get("completed_at") else ""
    return f"{job['status']}{ended}" + (f": {_error(job)}" if _error(job) else "")


def _identity(job: Json) -> list[tuple[str, Any]]:
    as_of = job.get("as_of")
    return [
        ("Job", job["jobId"]),
        ("Tenant", job["tenant_id"]),
        ("Type", job["request_type"]),
        ("As of", f"event {as_of['seq']}, {as_of['type']}" if as_of else None),
        ("Status", coloured(job["status"])),
    ]


def _facts(job: Json, now: datetime) -> list[tuple[str, Any]]:
    return [
        ("Error", _error(job)),
        ("Priority", job.get("priority")),
        ("Source", job.get("source")),
        ("Labels", " ".join(f"{key}:{value}" for key, value in (job.get("labels") or {}).items())),
        ("Input", (job.get("input_ref") or {}).get("uri")),
        ("Created", exact(job["created_at"], now)),
        ("Admitted", exact(job.get("admitted_at"), now)),
        ("Deadline", None if job.get("completed_at") else exact(job.get("deadline_at"), now)),
        ("Ended", exact(job.get("completed_at"), now)),
        ("Duration", _duration(job)),
        ("Result", (job.get("final_output") or {}).get("uri")),
        ("Retained until", exact(job.get("final_output_expires_at"), now)),
        ("Redrive of", job.get("redrive_of")),
        ("Redriven as", job.get("redriven_by")),
        ("Replay of", job.get("replay_of")),
        ("Archived", exact(job.get("archived_at"), now)),
        ("Incident", job.get("incident")),
    ]


def _error(job: Json) -> str | None:
    if not job.get("error_code"):
        return None
    return f"{job['error_code']}: {job['error_message']}" if job.get("error_message") else str(job["error_code"])


def _duration(job: Json) -> str | None:
    """Formats the duration of a job as `1.5 s`, or from a minute on as `2m 5s`."""
    if not job.get("completed_at"):
        return None
    passed = datetime.fromisoformat(job["completed_at"]) - datetime.fromisoformat(job["created_at"])
    seconds = max(passed, timedelta()).total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)}m {int(seconds % 60)}s"
