"""Builds an audit bundle on this machine, page by page from the public API.

`FILE.part/` stores the state of an export: the plan (heads, anchors, keys, ids of jobs), and a line for each job. The
line of a job that was not exported has the problem code. This way the same command continues an interrupted export. A
complete bundle replaces FILE.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from lucius_client import NotFound, Refused
from lucius_client.cli import ids, rendering
from lucius_client.cli.exits import GONE, NAME_A_TENANT, UNREADABLE, CliError, Exit, UsageError, check_whole
from lucius_client.cli.instants import instant_ago
from lucius_client.cli.part_folder import part_folder
from lucius_client.cli.server import client_version
from lucius_client.cli.session import WATCH_RETRIES, Session
from lucius_client.client import Client

Json = dict[str, Any]


@dataclass(frozen=True)
class Window:
    """The tenant, the window and the options of an export."""

    tenant: str | None
    since: str | None
    until: str | None
    without_heads: bool


@dataclass
class _Plan:
    """The plan of an export, as JSON."""

    words: Json
    manifest: Json
    job_ids: list[str]
    #: pages of signed heads; empty if the export has no signed heads
    pages: list[Json]
    anchors: list[Json]
    keys: Json | None


def export(session: Session, window: Window, output: Path, *, with_content: bool) -> None:
    """Writes the bundle and prints its numbers of jobs and events. Without signed heads, also prints the levels that
    can be verified. Raises CliError, LuciusError.
    """
    try:
        from lucius_verify.writer import Signed, write_bundle
    except ImportError as missing:
        raise UsageError(f"package lucius-verify not found ({missing}); install packages/lucius-verify") from missing
    if window.tenant is None:
        raise UsageError(NAME_A_TENANT)
    client = session.connect(WATCH_RETRIES)
    with part_folder(output, continues=True) as part:
        try:
            plan = _plan(client, {"api": session.api, **asdict(window)}, part / "plan.json")
            jobs = part / "jobs.jsonl"
            not_exported = _read_jobs(session, client, plan.job_ids, jobs)
            made = write_bundle(
                output,
                manifest={
                    **plan.manifest,
                    "created_at": datetime.now(UTC).isoformat(),
                    "not_exported": not_exported,
                },
                jobs=_lines(jobs),
                logs=_logs(client, window.tenant, plan.manifest),
                signed=Signed(plan.pages, plan.anchors, plan.keys),
                with_content=with_content,
            )
        except KeyboardInterrupt:
            rendering.write(f"lucius: interrupted; the same command continues from {part}", stderr=True)
            raise
    totals = made["totals"]
    rendering.write(f"{output}: {totals['jobs']} jobs, {totals['events']} events")
    if not plan.pages:
        rendering.write(
            "the bundle has no signed heads; `lucius audit verify` checks levels 1 to 3, and cannot detect omitted jobs"
        )
    if gone := [job_id for job_id, code in not_exported.items() if code in GONE]:
        rendering.write(
            f"not exported, because the jobs or their archived bundles were deleted: {', '.join(gone)}", stderr=True
        )
    check_whole(not_exported)


def _plan(client: Client, words: Json, file: Path) -> _Plan:
    """Returns the plan of an earlier run with the same options, or a new plan."""
    try:
        known = _Plan(**json.loads(file.read_text(encoding="utf-8")))
        if known.words == words:
            return known
    except (OSError, TypeError, ValueError):
        pass
    plan = _new_plan(client, words)
    file.with_name("jobs.jsonl").unlink(missing_ok=True)
    whole = file.with_suffix(".new")
    whole.write_text(json.dumps(asdict(plan)), encoding="utf-8")
    whole.replace(file)
    return plan


def _new_plan(client: Client, words: Json) -> _Plan:
    tenant = words["tenant"]
    since, until = instant_ago("--since", words["since"]), instant_ago("--until", words["until"])
    pages = [] if words["without_heads"] else _signed_pages(client, tenant, since, until)
    manifest = {"tenant": tenant, "program": f"lucius-client {client_version()}"}
    if not pages:
        begin, end = since or datetime(1970, 1, 1, tzinfo=UTC), until or datetime.now(UTC)
        job_ids = ids.of_every_job(client, tenant_id=tenant, since=begin, until=end)
        manifest |= {"since": begin.isoformat(), "until": end.isoformat()}
        return _Plan(words, manifest, sorted(job_ids), [], [], None)
    statements = [json.loads(base64.b64decode(page["payload"]))["predicate"] for page in pages]
    manifest |= {name: statements[0][name] for name in ("tenant", "since", "until")}
    begin, end = (datetime.fromisoformat(manifest[name]) for name in ("since", "until"))
    anchors: dict[str, Json] = {}
    for page in client.audit_anchors(tenant=tenant, since=begin, until=end):
        for anchor in page["anchors"]:
            # a day with many lines continues on the next page
            known = anchors.setdefault(anchor["day"], {**anchor, "lines": []})
            known["lines"] += anchor["lines"]
    heads_of = sorted({head["job_id"] for each in statements for head in each["heads"] if "job_id" in head})
    return _Plan(words, manifest, heads_of, pages, [anchors[day] for day in sorted(anchors)], client.audit_keys())


def _signed_pages(client: Client, tenant: str, since: datetime | None, until: datetime | None) -> list[Json]:
    """Returns the heads of the window, from the first recorded head on. Returns no heads if LUCIUS signs no heads.
    Raises CliError.
    """
    try:
        return [page["envelope"] for page in client.audit_heads(tenant=tenant, since=since, until=until)]
    except NotFound:
        return []
    except Refused as refused:
        if refused.code == "HEADS_INCOMPLETE":
            text = f"run the command again in {refused.retry_after_s or 60:.0f} s, or with --without-heads"
            raise CliError(f"{refused.problem.detail}; {text} ({refused.code})", Exit.REFUSED) from refused
        if refused.code != "HEADS_MISSING" or refused.problem.earliest is None:
            raise
        earliest = datetime.fromisoformat(refused.problem.earliest)
        if since is None or since >= earliest or (until is not None and until <= earliest):
            raise
        rendering.write(
            f"the bundle begins at {refused.problem.earliest}, like the signed heads; to export earlier jobs, use "
            f"--without-heads --until {refused.problem.earliest}",
            stderr=True,
        )
        return _signed_pages(client, tenant, earliest, until)


def _read_jobs(session: Session, client: Client, job_ids: list[str], file: Path) -> dict[str, str]:
    """Appends each job's bundle to the file, from the last job of an earlier run on.

    Returns the jobs that are not exported, with their problem codes.
    """
    known = _whole(file)
    left = [job_id for job_id in job_ids if job_id not in known]
    screen = session.progress
    columns = (TextColumn("reading jobs"), BarColumn(), MofNCompleteColumn())
    with (
        file.open("ab") as journal,
        Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress,
    ):
        task = progress.add_task("", total=len(job_ids), completed=len(job_ids) - len(left))
        for job_id in left:
            try:
                document = client.audit(job_id)
            except Refused as refused:
                if refused.code not in (*GONE, *UNREADABLE):
                    raise
                document = {"job": {"job_id": job_id}, "not_exported": refused.code}
            journal.write(json.dumps(document, ensure_ascii=False).encode() + b"\n")
            known[job_id] = document.get("not_exported")
            progress.advance(task)
    return {job_id: code for job_id, code in known.items() if code}


def _whole(file: Path) -> dict[str, str | None]:
    """Returns the jobs in the file, with the problem code of each job that was not exported. Cuts off a torn last
    line.
    """
    known, end = dict[str, str | None](), 0
    if not file.exists():
        return known
    with file.open("r+b") as journal:
        for line in journal:
            if not line.endswith(b"\n"):
                break
            document = json.loads(line)
            known[document["job"]["job_id"]] = document.get("not_exported")
            end += len(line)
        journal.truncate(end)
    return known


def _lines(file: Path) -> Iterator[Json]:
    with file.open("rb") as journal:
        for line in journal:
            document = json.loads(line)
            if "not_exported" not in document:
                yield document


def _logs(client: Client, tenant: str, manifest: Json) -> Iterator[Json]:
    """Returns the logs of the tenant's quotas, and of its incidents that were open in the window."""
    since, until = (datetime.fromisoformat(manifest[name]) for name in ("since", "until"))
    for quota in client.quotas(tenant=tenant):
        for entry in client.quota_log(quota):
            yield {"log": f"quota:{quota.id}", **entry.plain()}
    for incident in client.incidents(tenant_id=tenant, until=until):
        if incident.settled_at is not None and incident.settled_at < since:
            continue
        for entry in client.incident(incident.incidentId).plain()["log"]:
            yield {"log": f"incident:{incident.incidentId}", **entry}
