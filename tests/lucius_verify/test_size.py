"""A bundle of 10,000 jobs, written, read and verified in bounded memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucius_verify.json_rows import line
from lucius_verify.writer import Signed, write_bundle
from tests.lucius_verify.forging import Signer
from tests.lucius_verify.record import MANIFEST
from tests.lucius_verify.walks import Document, Walk
from tests.running_stack import ROOT

pytestmark = pytest.mark.long

_JOBS = 10_000
_MIB = 1 << 20
_VERIFY = """
import resource, sys
from pathlib import Path
from lucius_verify import verify
report = verify(Path(sys.argv[1]), keys=[sys.argv[2]])
print(report.to_text())
print(int(report.verdict), report.jobs, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


class Source:
    """Jobs, made when they are written; their heads are kept."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.heads: list[dict[str, object]] = []

    def documents(self) -> Iterator[Document]:
        for seed in range(self.count):
            document = Walk(5 * seed, f"job_{seed:06}", calm=True).run().document()
            self.heads.append(head_of(document))
            yield document


def head_of(document: Document) -> dict[str, object]:
    return {
        "job_id": document["job"]["job_id"],
        "seq": len(document["events"]),
        "hash": document["events"][-1]["hash"],
    }


def measured(path: Path, key_id: str) -> tuple[int, int, int]:
    """Verdict, jobs, and MiB that the verifier had at most."""
    done = subprocess.run(
        [sys.executable, "-c", _VERIFY, str(path), key_id], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    verdict, jobs, peak = map(int, done.stdout.splitlines()[-1].split())
    return verdict, jobs, peak


@pytest.mark.timeout(3600)
def test_ten_thousand_jobs_are_verified_in_bounded_memory(tmp_path: Path) -> None:
    """At every level: ten times the jobs take at most 40 MiB more, most of it heads."""
    signer = Signer()
    peaks = []
    for count in (_JOBS // 10, _JOBS):
        source = Source(count)
        spooled = tmp_path / f"{count}.jsonl"
        with spooled.open("wb") as file:
            for document in source.documents():
                file.write(line(document))
        predicate = {name: MANIFEST[name] for name in ("tenant", "since", "until")}
        predicate |= {"page": 1, "last": True, "previous": "", "heads": source.heads}
        envelope = signer.envelope("heads", "heads", b"".join(map(line, source.heads)), predicate)
        path = tmp_path / f"{count}.tar.gz"
        with spooled.open("rb") as file:
            write_bundle(
                path, manifest=dict(MANIFEST), jobs=map(json.loads, file), signed=Signed([envelope], (), signer.keys)
            )
        verdict, jobs, peak = measured(path, signer.key_id)
        assert (verdict, jobs) == (0, count)
        peaks.append(peak)
        print(f"{count} jobs: {os.path.getsize(path) / _MIB:.1f} MiB packed, {peak} MiB of memory")
    assert peaks[1] - peaks[0] < 40, peaks
