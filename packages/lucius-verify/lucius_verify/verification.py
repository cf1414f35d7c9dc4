"""`verify`: the four levels of a bundle, from the file alone.

1. Bytes: the files match the manifest, the signatures are valid, and the signed heads match the histories.
2. Chain: each job's events have no gap and correct hashes, each ended job has its outcome, and the totals match.
3. Possible: each event is executed again by the app's own transition function.
4. Complete: every signed head of the window has its job in the bundle, and every job has a signed head.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from lucius_verify import carried, chain
from lucius_verify.bundle import MAX_HISTORY, Bundle, read_one_job
from lucius_verify.faults import Fault, Unreadable
from lucius_verify.histories import History
from lucius_verify.json_rows import Row
from lucius_verify.links import Links
from lucius_verify.report import Report
from lucius_verify.signed_heads import SignedHeads
from lucius_verify.statements import Keys
from lucius_verify.tarball import GZIP

_STATUSES = chain.TERMINAL | {
    *("WAITING_FOR_JOBS", "THROTTLED", "QUEUED", "IN_PROGRESS", "PAUSING", "PAUSED", "CANCELLING"),
}
#: maximum entries of one log, whose hashes are in memory
_MAX_ENTRIES = 100_000
_NO_RULES = "this installation does not have the app's rules (shared/core); install packages/lucius-verify again"
#: errors from a value of another type than its column
_WRONG_TYPES = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def verify(path: Path, *, job: str | None = None, keys: Iterable[str] = (), head: str | None = None) -> Report:
    """Verifies a bundle, or the bundle of one job.

    `job` limits levels 2 and 3 to one job. `keys` are files with public keys, or key ids, that the user trusts. `head`
    is the hash that the job's last event must have, from a separate record. Raises ValueError for an invalid option, or
    if the file cannot be opened.
    """
    known = Keys(keys)
    try:
        with path.open("rb") as file:
            start = file.read(2)
            text = b"" if start == GZIP else start + file.read(MAX_HISTORY)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    if start == GZIP:
        report = Report(path.name)
        try:
            _Verification(report, path, known, job, head).run()
        except Unreadable as unreadable:
            report.levels[1].broken(unreadable.fault)
    else:
        report = verify_one_job(text, path.name, job=job, head=head)
    report.signed_by = sorted(known.used)
    report.unnamed = sorted(known.used - known.named)
    report.unsigned = bool(known.named) and not known.used
    return report


class _Rules:
    """A runner of level 3, if this installation has the app's rules."""

    def __init__(self) -> None:
        self.kept: Mapping[str, frozenset[str]] = dict.fromkeys(("job", "step", "carried", "replay"), frozenset())
        self.events = self.executed = 0
        self.there = carried.has_rules()
        if self.there:
            from lucius_verify import possible

            self._execute = possible.execute
            self.kept = possible.KEPT

    def execute(self, history: History) -> Fault | None:
        if not self.there:
            return None
        executed, fault = self._execute(history)
        self.events += len(history.events)
        self.executed += executed
        return fault

    def settle(self, report: Report, details: str = "") -> None:
        level = report.levels[3]
        if not self.there:
            level.detail = _NO_RULES
            return
        withheld = self.events - self.executed
        hidden = (
            f"; {withheld} events are withheld, or follow withheld content, and are not executed"
            if withheld and level.fault is None
            else ""
        )
        level.settle(f"{self.executed} events executed again{hidden}{details}")


def verify_one_job(text: bytes, name: str, *, job: str | None = None, head: str | None = None) -> Report:
    """Verifies the bundle of one job (`lucius job audit`) in the file `name`. Raises ValueError if `job` is another
    job.
    """
    report = Report(name)
    try:
        history, fault = read_one_job(name, text)
    except Unreadable as unreadable:
        report.levels[1].broken(unreadable.fault)
        return report
    if job not in (None, history.job_id):
        raise ValueError(f"job {job} is not in this bundle")
    rules = _Rules()
    report.jobs, report.events = 1, len(history.events)
    report.subject = (
        f"{history.job_id} {history.job.get('status')}, {report.events} events, head {history.job.get('event_hash')}"
    )
    report.levels[1].broken(fault)
    report.levels[1].broken(_head_fault(history, head))
    report.levels[1].settle("the digest was compared with the SHA-256 of the content")
    report.levels[2].broken(_checked(history))
    report.levels[2].settle(f"{report.events} events")
    report.levels[3].broken(rules.execute(history))
    rules.settle(report)
    report.levels[4].detail = "the bundle of one job has no signed heads"
    return report


def _checked(history: History) -> Fault | None:
    try:
        return chain.check_job(history)
    except _WRONG_TYPES as wrong:
        return history.row_fault(f"a value has the wrong type: {type(wrong).__name__}: {wrong}")


def _head_fault(history: History, head: str | None) -> Fault | None:
    if head is None or (history.events and history.events[-1].get("hash") == head):
        return None
    return history.fault(len(history.events), "the hash is not the given head")


class _Verification:
    def __init__(self, report: Report, path: Path, keys: Keys, job: str | None, head: str | None) -> None:
        """Reads the whole file. Raises Unreadable. Raises ValueError if `head` is given without a job."""
        if head is not None and job is None:
            raise ValueError("--head is the hash of one job's last event; name the job with --job")
        self.report = report
        self.levels = report.levels
        self.only, self.head = job, head
        self.heads = SignedHeads(keys)
        self.bundle = Bundle(path, self.heads)
        self.rules = _Rules()
        self.statuses: Counter[str] = Counter()
        self.withheld = self.unsigned = self.behind = 0
        self.seen = False
        #: `True` once every job was read
        self.whole = False

    def run(self) -> None:
        """Fills the report. Raises ValueError if the bundle does not have the job `job`."""
        manifest = self.bundle.manifest
        self.report.subject = f"{manifest['tenant']}, {manifest['since']} to {manifest['until']}"
        links = Links(self.bundle.rows("links.jsonl"))
        try:
            for history in self.bundle.histories():
                self._take(history, links)
            self._logs()
            self.whole = True
        except Unreadable as unreadable:
            self.levels[2].broken(unreadable.fault)
        if self.only is not None and not self.seen:
            raise ValueError(f"job {self.only} is not in this bundle")
        self._totals(links)
        self._settle(links)

    def _take(self, history: History, links: Links) -> None:
        report = self.report
        report.jobs += 1
        report.events += len(history.events)
        status = history.job.get("status")
        self.statuses[status if isinstance(status, str) and status in _STATUSES else "unknown"] += 1
        hidden = sum(chain.is_withheld(event) for event in history.events)
        self.withheld += bool(hidden or history.withheld)
        try:
            self.levels[1].broken(self.heads.compare(history.job_id, history.events, history.fault))
            links.add(history, self.rules.kept)
        except _WRONG_TYPES:
            pass  # level 2 reports the fault
        newest = self.heads.newest(history.job_id)
        self.unsigned += len(history.events) - newest if newest else 0
        if self.heads.pages and not newest:
            self.levels[4].broken(history.row_fault("no signed head names the job"))
        if self.only not in (None, history.job_id):
            return
        self.seen = self.seen or self.only is not None
        if self.only is not None:
            self.levels[1].broken(_head_fault(history, self.head))
        self.levels[2].broken(_checked(history))
        if self.levels[3].fault is None:
            self.levels[3].broken(self.rules.execute(history))

    def _logs(self) -> None:
        """Verifies the logs of quotas and incidents: their chains, and their signed heads. Raises Unreadable."""
        entries: list[Row] = []
        before, first = None, 0
        for number, entry in self.bundle.rows("throttles.jsonl"):
            try:
                if before is None or before["log"] != entry["log"]:
                    self._compare_log(entries, first)
                    entries, first = [], number
                why = chain.check_entry(before, entry)
            except _WRONG_TYPES as wrong:
                why = f"a value has the wrong type: {type(wrong).__name__}: {wrong}"
            if why is not None:
                self.levels[2].broken(Fault(why, "throttles.jsonl", number))
                return
            entries.append({"log": entry["log"], "seq": entry["seq"], "hash": entry["hash"]})
            if len(entries) > _MAX_ENTRIES:
                raise Unreadable(f"a log has more than {_MAX_ENTRIES} entries", "throttles.jsonl", number)
            before = entry
        self._compare_log(entries, first)

    def _compare_log(self, entries: list[Row], first: int) -> None:
        if entries:
            begin = entries[0]["seq"]
            place = lambda seq, why: Fault(f"{entries[0]['log']}: {why}", "throttles.jsonl", first + seq - begin)  # noqa: E731
            self.levels[1].broken(self.heads.compare(entries[0]["log"], entries, place))

    def _totals(self, links: Links) -> None:
        if not self.whole:
            return
        report, manifest = self.report, self.bundle.manifest
        totals = {"jobs": report.jobs, "events": report.events, "by_status": dict(self.statuses)}
        for name, value in totals.items():
            if manifest["totals"].get(name) != value:
                why = f"the total of {name} is {manifest['totals'].get(name)}, and the histories have {value}"
                self.levels[2].broken(Fault(why, "manifest.json"))
        if manifest["content"] == "included" and self.withheld:
            self.levels[2].broken(
                Fault("the manifest says that content is included, and some content is withheld", "manifest.json")
            )
        if links.rows_digest() != self.bundle.digests["links.jsonl"]:
            self.levels[2].broken(Fault("the rows are not the links of the jobs", "links.jsonl"))

    def _settle(self, links: Links) -> None:
        report, heads, levels = self.report, self.heads, self.levels
        levels[1].broken(self.bundle.fault)
        levels[1].broken(heads.fault)
        signed = (
            f"; {heads.pages} pages of heads and {heads.anchors} anchors are signed"
            if heads.pages
            else "; nothing is signed"
        )
        levels[1].settle(f"{len(self.bundle.digests)} files match the manifest{signed}")
        levels[2].settle(f"{report.jobs} jobs, {report.events} events")
        if not self.whole:
            levels[3].detail = levels[4].detail = "the histories cannot be read to their end"
            return
        if self.rules.there:
            levels[3].broken(links.fault())
        self.rules.settle(report, f"; {links.compared} of {links.count} links lead to a job in this bundle")
        if not heads.pages:
            levels[4].detail = "the bundle has no signed heads"
        else:
            if (omitted := heads.omitted_job()) is not None:
                levels[4].broken(Fault(f"{omitted} has a signed head and is not in the bundle", "heads.jsonl"))
            levels[4].settle("every job has a signed head, and no job with a signed head in the window is missing")
        if self.withheld:
            report.notes.append(f"content of {self.withheld} jobs is withheld, so their created rows are not compared")
        if self.unsigned:
            report.notes.append(f"{self.unsigned} events are newer than the signed heads of their jobs")
        if heads.incomplete:
            report.notes.append(f"{heads.incomplete} anchored days lack heads, as their anchors say")
        if logs := heads.omitted_logs():
            report.notes.append(f"{logs} logs of quotas and incidents have a signed head and are not in the bundle")
        if self.only is not None:
            report.subject += f", job {self.only} only"
