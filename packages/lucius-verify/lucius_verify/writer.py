"""Writes a bundle from responses of the API. Memory does not grow with the number of jobs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from lucius_verify.bundle import FORMAT, ONE_JOB
from lucius_verify.json_rows import Row, canonical, line
from lucius_verify.links import links_of
from lucius_verify.readme import TEXT
from lucius_verify.tarball import KEYS, MANIFEST, place, write
from lucius_verify.withheld import without_content


@dataclass(frozen=True)
class Signed:
    """The statements that the server signed. All fields are empty if the server signs nothing."""

    #: DSSE envelopes of the pages of heads, in order
    pages: Iterable[Row] = ()
    #: `{"day", "envelope", "lines"}` of each day, in order; no lines: the tenant had no event
    anchors: Iterable[Row] = ()
    #: `{"keys": [...]}`
    keys: Row | None = None


@dataclass
class _Files:
    """The files of a bundle in progress, with the digests of the finished files."""

    folder: Path
    found: dict[str, Row] = field(default_factory=dict)

    @contextmanager
    def create(self, name: str) -> Iterator[_File]:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            created = _File(file)
            yield created
        self.found[name] = {"sha256": created.sha256.hexdigest(), "bytes": created.size, "rows": created.rows}

    def write(self, name: str, rows: Iterable[bytes]) -> None:
        with self.create(name) as file:
            for row in rows:
                file.write(row)


class _File:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.size = self.rows = 0

    def write(self, text: bytes) -> None:
        self._file.write(text)
        self.sha256.update(text)
        self.size += len(text)
        self.rows += text.count(b"\n")


def write_bundle(
    output: Path,
    *,
    manifest: Row,
    jobs: Iterable[Row],
    logs: Iterable[Row] = (),
    signed: Signed | None = None,
    with_content: bool = False,
) -> Row:
    """Writes `output` and returns its manifest. Replaces an existing file completely.

    `manifest` has tenant, since, until, created_at and program. `jobs` are bundles of one job, in order of their ids.
    `logs` are entries of the logs of quotas and incidents with their `log`. Without `with_content`, payloads, texts of
    services and query strings of references are withheld.
    """
    folder = output.with_name(f"{output.name}.files")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        files = _Files(folder)
        files.write("README.txt", [TEXT.encode()])
        _write_signed(files, signed or Signed())
        totals, rules = _write_jobs(files, jobs, with_content)
        files.write("throttles.jsonl", map(line, logs))
        made = {
            "format": FORMAT,
            **manifest,
            "content": "included" if with_content else "withheld",
            "rules": rules,
            "totals": totals,
            "files": {name: files.found[name] for name in sorted(files.found, key=place)},
        }
        (folder / MANIFEST).write_bytes(json.dumps(made, indent=1, ensure_ascii=False).encode() + b"\n")
        packed = folder / "bundle.tar.gz"
        write(packed, ((name, folder / name) for name in (MANIFEST, *made["files"])))
        os.replace(packed, output)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return made


def _write_jobs(files: _Files, jobs: Iterable[Row], with_content: bool) -> tuple[Row, list[int]]:
    """Writes the jobs with their events and links. Returns the totals, and the versions of the rules of the events."""
    statuses: Counter[str] = Counter()
    rules: set[int] = set()
    last = ""
    with (
        files.create("jobs.jsonl") as rows,
        files.create("history.jsonl") as history,
        files.create("links.jsonl") as links,
    ):
        for document in jobs:
            job_id = document["job"]["job_id"]
            if job_id <= last:
                raise ValueError(f"job {job_id} follows {last}: jobs are written in order of their ids")
            last = job_id
            found = {"job_id": job_id, "format": ONE_JOB, "archived": bool(document.get("archived"))}
            row, events = {**found, "job": document["job"], "steps": document["steps"]}, document["events"]
            if not with_content:
                row, events = without_content(row, events)
            rows.write(line(row))
            for event in events:
                history.write(line(event))
                rules.add(event["rules"])
            for each in links_of(row["job"]):
                links.write(line(each))
            statuses[row["job"]["status"]] += 1
    totals = {"jobs": statuses.total(), "events": files.found["history.jsonl"]["rows"], "by_status": dict(statuses)}
    return totals, sorted(rules)


def _write_signed(files: _Files, signed: Signed) -> None:
    with files.create("heads.jsonl") as heads:
        for number, envelope in enumerate(signed.pages, start=1):
            files.write(f"signatures/heads-{number:06}.json", [canonical(envelope)])
            for head in json.loads(base64.b64decode(envelope["payload"]))["predicate"]["heads"]:
                heads.write(line(head))
    for anchor in signed.anchors:
        if anchor["lines"]:
            files.write(f"anchors/{anchor['day']}.jsonl", map(line, anchor["lines"]))
        files.write(f"signatures/anchor-{anchor['day']}.json", [canonical(anchor["envelope"])])
    if signed.keys is not None:
        files.write(KEYS, [canonical(signed.keys)])
