"""A bundle: its manifest, its files, and its jobs together with their histories.

`lucius-bundle/1` is a `.tar.gz` of JSON Lines. `docs/guides/audit.md` describes the files. The first pass reads the
whole file and compares it with the manifest. The second pass reads `jobs.jsonl` and `history.jsonl` together, so that
only one job is in memory.

A bundle of one job (`lucius-audit/2`, from `lucius job audit`) is a JSON document.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from lucius_verify.faults import Fault, Unreadable
from lucius_verify.histories import History
from lucius_verify.json_rows import Row, digest, parse, parse_object
from lucius_verify.signed_heads import SignedHeads
from lucius_verify.tarball import FILES, MANIFEST, Tarball

FORMAT = "lucius-bundle/1"
ONE_JOB = "lucius-audit/2"
#: maximum bytes of the events of one job, which are in memory at the same time
MAX_HISTORY = 128 << 20
_MAX_MANIFEST = 8 << 20
_MAX_DOCUMENT = MAX_HISTORY


class Bundle:
    """A bundle whose files were read once. `fault` is the first difference from the manifest."""

    def __init__(self, path: Path, heads: SignedHeads) -> None:
        """Reads the whole file. Raises Unreadable."""
        self.path = path
        self.heads = heads
        self.manifest: Row = {}
        self.fault: Fault | None = None
        #: SHA-256 of each file, in hex
        self.digests: dict[str, str] = {}
        with Tarball(path) as tarball:
            for name in tarball.members():
                if name == MANIFEST:
                    self.manifest = _manifest(tarball)
                elif not self.manifest:
                    raise Unreadable("the first file of the bundle is not manifest.json")
                else:
                    self._read(tarball)
        if not self.manifest:
            raise Unreadable("the bundle has no files")
        if missing := [name for name in (*FILES, *self.manifest["files"]) if name not in self.digests]:
            raise Unreadable("the file is missing", missing[0])
        heads.finish(self.digests)

    def _read(self, member: Tarball) -> None:
        name = member.name
        expected = self.manifest["files"].get(name)
        if expected is None:
            raise Unreadable("the manifest does not name the file", name)
        if name == "heads.jsonl" or name.startswith("anchors/"):
            self.heads.read_rows(member, self.manifest)
        elif name.startswith("signatures/"):
            self.heads.read_envelope(member, self.manifest, self.digests)
        for _ in member.chunks():
            pass
        self.digests[name] = member.sha256.hexdigest()
        found = {"sha256": self.digests[name], "bytes": member.size, "rows": member.row_count}
        for what, value in found.items():
            if self.fault is None and expected.get(what) != value:
                self.fault = Fault(f"{what}: the file has {value}, and the manifest has {expected.get(what)}", name)

    def histories(self) -> Iterator[History]:
        """Yields every job with its events. Raises Unreadable."""
        with ExitStack() as opened:
            jobs, history = (opened.enter_context(Tarball(self.path)) for _ in range(2))
            events = _events(_rows_of(history, "history.jsonl"))
            waiting = next(events, None)
            last = ""
            for number, row in _rows_of(jobs, "jobs.jsonl"):
                try:
                    line = parse_object(row, "jobs.jsonl", number)
                    job_id = line["job_id"]
                    if not isinstance(job_id, str) or line.get("format") != ONE_JOB:
                        raise ValueError(f"the format is not {ONE_JOB}")
                    found = waiting if waiting is not None and waiting[0] == job_id else (job_id, 0, [])
                    made = History.of(line, found[2], row=number, first_row=found[1])
                except (AttributeError, LookupError, TypeError, ValueError) as wrong:
                    raise Unreadable(
                        f"the row is not a job: {type(wrong).__name__}: {wrong}", "jobs.jsonl", number
                    ) from None
                if job_id <= last:
                    raise Unreadable("the jobs are not in order of their ids", "jobs.jsonl", number)
                if waiting is not None and waiting[0] < job_id:
                    break
                last = job_id
                if found is waiting:
                    waiting = next(events, None)
                yield made
            if waiting is not None:
                raise Unreadable(
                    "the job of the event is not in jobs.jsonl, or is out of order", "history.jsonl", waiting[1]
                )

    def rows(self, name: str) -> Iterator[tuple[int, Row]]:
        """Yields the rows of a file with their numbers. Raises Unreadable."""
        with Tarball(self.path) as tarball:
            for number, row in _rows_of(tarball, name):
                yield number, parse_object(row, name, number)


def _manifest(member: Tarball) -> Row:
    found = parse_object(member.whole(_MAX_MANIFEST), MANIFEST)
    if found.get("format") != FORMAT:
        raise Unreadable(f"the format of the bundle is not {FORMAT}", MANIFEST)
    kinds = {"tenant": str, "since": str, "until": str, "content": str, "totals": dict, "files": dict}
    if not all(isinstance(found.get(name), kind) for name, kind in kinds.items()):
        raise Unreadable("a field is missing or has the wrong type", MANIFEST)
    if not all(isinstance(each, dict) for each in found["files"].values()):
        raise Unreadable("a file has no size and digest", MANIFEST)
    return found


def _rows_of(tarball: Tarball, name: str) -> Iterator[tuple[int, bytes]]:
    for member in tarball.members():
        if member == name:
            yield from enumerate(tarball.rows(), start=1)
            return


def _events(rows: Iterator[tuple[int, bytes]]) -> Iterator[tuple[str, int, list[Row]]]:
    """Yields for each job its id, the row number of its first event, and its events."""
    job_id, first, size = "", 0, 0
    events: list[Row] = []
    for number, text in rows:
        row = parse_object(text, "history.jsonl", number)
        if not isinstance(row.get("job_id"), str):
            raise Unreadable("the row is not an event", "history.jsonl", number)
        if row["job_id"] != job_id:
            if events:
                yield job_id, first, events
            job_id, first, events, size = row["job_id"], number, [], 0
        size += len(text)
        if size > MAX_HISTORY:
            raise Unreadable(f"the events of {job_id} have more than {MAX_HISTORY} bytes", "history.jsonl", number)
        events.append(row)
    if events:
        yield job_id, first, events


def read_one_job(name: str, text: bytes) -> tuple[History, Fault | None]:
    """Reads a bundle of one job. Returns the history, and the fault of the digest or None. Raises Unreadable."""
    if len(text) > _MAX_DOCUMENT:
        raise Unreadable(f"the bundle of one job has more than {_MAX_DOCUMENT} bytes")
    document = parse(text, name)
    if not isinstance(document, dict) or document.get("format") != ONE_JOB:
        raise Unreadable(f"the file is neither a bundle ({FORMAT}) nor the bundle of one job ({ONE_JOB})")
    try:
        history = History.of(document, document["events"], rows_file=name, events_file=name)
        computed = f"sha256:{digest({key: each for key, each in document.items() if key != 'digest'})}"
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as wrong:
        raise Unreadable(f"the content cannot be read: {type(wrong).__name__}: {wrong}") from None
    if document.get("digest") != computed:
        return history, Fault("the digest is not the SHA-256 of the content", name)
    return history, None
